import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { ROOT } from '../test/support/process.ts';
import type { Sample } from './measure.ts';
import { PEERS, peerTable, type Subject, startPeer } from './peers.ts';
import { writeTokens } from './seed.ts';

describe('a peer', () => {
  test.for(PEERS)('$name creates a plant once, and lists it to its user', async (peer, { skip }) => {
    await using resources = new AsyncDisposableStack();
    const dir = tempDir();
    const env = { KEY_FILE: join(dir, 'key.json') };
    const [alice = '', bob = ''] = readFileSync(
      await writeTokens(dir, env.KEY_FILE, { users: 2 }),
      'utf8',
    ).split('\n');
    const server = await startPeer(peer, { root: ROOT, dir, env, resources });
    if (typeof server === 'string') return skip(server);
    const post = async (token: string, plant: object): Promise<number> =>
      (
        await fetch(`${server.url}/plants`, {
          method: 'POST',
          headers: headers(token),
          body: JSON.stringify(plant),
        })
      ).status;
    const list = async (token: string, limit = 100): Promise<unknown> =>
      (await fetch(`${server.url}/plants?limit=${limit}`, { headers: headers(token) })).json();

    expect(await post('', { id: 1, name: 'Fern' })).toBe(401);
    expect(await post(alice, { id: '1', name: 'Fern' })).toBe(400);
    expect(await post(alice, { id: 1, name: 'Fern', tag: 'indoor' })).toBe(200);
    expect(await post(alice, { id: 1, name: 'Moss' })).toBe(400);
    expect(await post(bob, { id: 1, name: 'Ivy' })).toBe(200);
    expect(await post(alice, { id: 2, name: 'Moss' })).toBe(200);
    await expect.poll(() => list(alice)).toEqual([{ name: 'Fern', tag: 'indoor' }, { name: 'Moss' }]);
    await expect.poll(() => list(bob)).toEqual([{ name: 'Ivy' }]);
    expect(await list(alice, 1)).toEqual([{ name: 'Fern', tag: 'indoor' }]);
  });
});

const headers = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': 'application/json' });

test('the table of peers has the medians, in bold where a peer is better in the same rounds', () => {
  const sample = (perSecond: number): Sample => ({ perSecond, cpu: 10, p50: 1, p99: 2, memory: 50 });
  const subject = (part: string, name: string, ...rates: number[]): Subject => ({
    part,
    name,
    measure: async () => sample(0),
    samples: rates.map(sample),
  });
  const parts = ['POST 1', 'POST 64', 'POST 256', 'GET 1', 'GET 64', 'GET 256'];
  const subjects = parts.flatMap((part) => [
    subject(part, 'this checkout', 100, 300, 200),
    subject(part, 'peer', ...(part === 'POST 1' ? [110, 310, 150] : [90, 200, 190])),
  ]);
  const median = (values: number[]): number => values.toSorted((a, b) => a - b)[1] ?? Number.NaN;
  const lines = peerTable(subjects, median).split('\n');
  expect(lines).toContain('|  | this checkout | peer |');
  expect(lines).toContain('| **POST/s** | 200 · 200 · 200 | **150** · 190 · 190 |');
  expect(lines).toContain('| GET, p99 ms | 2.0 · 2.0 · 2.0 | 2.0 · 2.0 · 2.0 |');
});

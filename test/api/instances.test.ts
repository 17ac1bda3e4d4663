import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { FakeEvent } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';
import { ready, untilAvailable } from '../support/instances.ts';
import { plantOf, writeTo } from '../support/logs.ts';
import { type Plant, serviceOfFile } from '../support/service.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

// Two instances for the tests of this file, over one log; each is connected to its own node.
const keys = tempDir(afterAll);
const node = await startFakeServer({}, afterAll);
const otherNode = await startFakeServer({ log: node.log }, afterAll);
const here = await startInstance(node.url);
const there = await startInstance(otherNode.url);

async function startInstance(EVENTSTOREDB_URL: string) {
  const service = await serviceOfFile({ EVENTSTOREDB_URL, KEY_FILE: join(keys, 'key.json') });
  await ready(service);
  return service;
}

const upTo = ({ headers }: Response) => ({ 'log-position': headers.get('log-position') ?? '' });

async function plantsIn(response: Response): Promise<Plant[]> {
  expect(response.status).toBe(200);
  return response.json() as Promise<Plant[]>;
}

describe('a list of one instance with the Log-Position of the other', () => {
  test('has the first plant of the log, even if the instance has received no event yet', async () => {
    const server = await startFakeServer();
    const { as } = await startInstance(server.url);
    server.holdAfter(0);
    const { id } = server.write('plantstore', { type: 'LogBegun' });
    const { position } = writeTo(server, plantOf('alice', 1, 'Fern'))[0] as FakeEvent;
    expect(await plantsIn(await as('alice').get())).toEqual([]);
    const pending = as('alice').get('', { 'log-position': `e${id.slice(-12)}.${position}` });
    server.holdAfter(Number.POSITIVE_INFINITY);
    writeTo(server, plantOf('bob', 1, 'Oak'));
    expect(await plantsIn(await pending)).toEqual([{ name: 'Fern' }]);
  });

  test('continues a pagination started there', async () => {
    // They share a key file, so one token works on both.
    const [aliceHere, aliceThere] = [here.as('alice'), there.as('alice')];
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await aliceHere.create(id, { name });
    const page = await untilAvailable(() => aliceHere.get('?limit=2'));
    const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
    const rest = await untilAvailable(() => aliceThere.request(next, { headers: upTo(page) }));
    expect(await plantsIn(rest)).toEqual([{ name: 'Moss' }]);
  });
});

import { copyFileSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test, vi } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import { merkleTreeFile } from '../../projections/views.ts';
import { runCli, succeeded } from '../support/cli.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { logWith } from '../support/logs.ts';
import { refusedWith } from '../support/refusal.ts';
import { startServiceWithTree } from '../support/service.ts';
import {
  auditor,
  CASES,
  contradictions,
  openEmbeddedLog,
  openEventStoreDbLog,
  signed,
  signedFile,
  testSignedHistory,
} from '../support/signedHistory.ts';
import { tempDir } from '../support/tempDir.ts';

describe('over the embedded log', () => testSignedHistory(openEmbeddedLog, CASES));

describe('over EventStoreDB', () => testSignedHistory(openEventStoreDbLog, CASES.slice(0, 3)));

describe('a service', () => {
  test('rebuilds a tree whose file was altered consistently, and signs what it has signed', async () => {
    const dir = logWith({ events: 300 });
    const note = await signed({ DATA_DIR: dir });
    const forged = tempDir();
    copyFileSync(join(dir, 'log.db'), join(forged, 'log.db'));
    inFile(
      join(forged, 'log.db'),
      "DROP TRIGGER events_are_never_updated; UPDATE events SET data = replace(data, 'plant 2', 'plant X') WHERE position = 2",
    );
    expect((await runCli(['rebuild'], { DATA_DIR: forged })).code).toBe(0);
    cpSync(merkleTreeFile(forged), merkleTreeFile(dir));
    const service = await startServiceWithTree({ DATA_DIR: dir });
    expect(await auditor(service).checkpoint()).toBe(note);
    const rebuilding = service.log().filter(({ msg }) => msg === 'rebuilding view');
    expect(rebuilding).toMatchObject([
      { reason: expect.stringMatching(/^the log was signed as 300:.*is now 300:/) },
    ]);
    expect(contradictions(service)).toEqual([]);
  });

  test('signs nothing beside a damaged signed file, until the operator removes it', async () => {
    const dir = logWith({ events: 2 });
    const note = await signed({ DATA_DIR: dir });
    writeFileSync(signedFile(dir), note.slice(0, 30));
    const service = await startServiceWithTree({ DATA_DIR: dir });
    const { get, request } = auditor(service);
    await refusedWith(50304, await get('/checkpoint'));
    await refusedWith(50304, await get('/proofs/plants?id=1&user=alice'));
    expect((await request('/events')).headers.get('checkpoint')).toBeNull();
    expect((await service.as('bob').create(9, { name: 'Late' })).status).toBe(200);
    const lines = service.log().filter(({ msg }) => /^the signed checkpoint cannot be read/.test(msg));
    expect(lines).toMatchObject([{ level: 50, reason: expect.stringMatching(/not a signed note/) }]);
    const refused = service.log().find(({ msg }) => msg === 'requests refused');
    expect(refused?.reason).toBe(`cannot use ${signedFile(dir)}: the text is not a signed note`);
    rmSync(signedFile(dir));
    expect(await auditor(service).checkpoint()).toMatch(/^urn:plant-store\n3\n/);
    await expect.poll(async () => (await request('/events')).headers.get('checkpoint')).toMatch(/^3 /);
  });

  test('and prove beside it sign the same history', async () => {
    const service = await startServiceWithTree({ DATA_DIR: logWith({ events: 2 }) });
    const { checkpoint } = auditor(service);
    for (let id = 10; id < 13; id++) {
      await service.as('bob').create(id, { name: 'Ivy' });
      const proof = succeeded(await runCli(['prove', '--from', '1'], { DATA_DIR: service.dir }));
      const note = proof.slice(proof.indexOf('\n\n') + 2);
      expect(readFileSync(signedFile(service.dir), 'utf8')).toBe(note);
      await expect.poll(checkpoint).toBe(note);
    }
    expect(contradictions(service)).toEqual([]);
  });
});

describe('while the tree cannot be saved', () => {
  test('checkpoints are not stale but 50302, and a replay does not wait for it', async () => {
    const service = await startServiceWithTree({ DATA_DIR: logWith({ events: 2 }) });
    const { get, request } = auditor(service);
    expect((await get('/checkpoint')).status).toBe(200);
    await expect.poll(async () => (await request('/events')).headers.get('checkpoint')).toMatch(/^2 /);
    const other = new DatabaseSync(merkleTreeFile(service.dir));
    other.exec('BEGIN IMMEDIATE'); // simulates a full disk
    await service.as('bob').create(9, { name: 'Late' });
    stopClock();
    vi.setSystemTime(Date.now() + 1_000); // the checkpoint is not the latest one any more
    const [stale, waited] = await untilSettled(request('/checkpoint'));
    await refusedWith(50302, stale);
    expect(waited).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
    const [first] = await untilSettled(request('/events'));
    const second = await request('/events'); // the clock stands still
    for (const replay of [first, second]) {
      expect([replay.status, replay.headers.get('checkpoint')]).toEqual([200, null]);
      expect((await replay.text()).trimEnd().split('\n')).toHaveLength(3);
    }
    vi.useRealTimers();
    other.exec('ROLLBACK');
    other.close();
    await expect.poll(() => auditor(service).checkpoint()).toMatch(/^urn:plant-store\n3\n/);
    await expect.poll(async () => (await request('/events')).headers.get('checkpoint')).toMatch(/^3 /);
  });
});

function inFile(file: string, sql: string): void {
  using db = new DatabaseSync(file);
  db.exec(sql);
}

import { copyFileSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { alterLog, appendTo, eventId, logWith, plantOf } from '@event-sourced/testing/logs';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { loadExistingLogKey } from '../../packages/transparency-log/src/signer/logKey.ts';
import { VIEWS } from '../../src/views.ts';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { untilAvailable } from '../support/instances.ts';
import { samplesOf, scrape } from '../support/metrics.ts';
import { startServiceWithTree } from '../support/service.ts';

/** Events of alice that create plants with these names. */
const plants = (names: readonly string[]) =>
  names.map((name, i) => ({ ...plantOf('alice', i + 1, name), id: eventId(i + 1) }));

type Service = Awaited<ReturnType<typeof startServiceWithTree>>;
const NAMES = ['Fern', 'Moss', 'Oak'];
const CONTRADICTION = /^the log contradicts its last signed checkpoint/;
const contradictions = ({ log }: Service) =>
  log().filter(({ level, msg }) => level === 50 && CONTRADICTION.test(msg));

/** Requests of an auditor, repeated while the tree is behind. */
function auditor({ as }: Pick<Service, 'as'>) {
  const { request } = as('carol', 'audit');
  const get = async (path: string): Promise<Response> => {
    for (;;) {
      const response = await request(path);
      if (response.status !== 503 || ((await response.clone().json()) as { error: number }).error !== 50302)
        return response;
    }
  };
  return { get, request, checkpoint: async () => (await get('/checkpoint')).text() };
}

/** Starts a service, gets its checkpoint and stops it. */
async function signed(env: Record<string, string>): Promise<string> {
  const service = await startServiceWithTree(env);
  const note = await auditor(service).checkpoint();
  await service.close();
  return note;
}

/** The file of what was signed in a directory. */
function signedFile(dir: string): string {
  const { verifierKey } = loadExistingLogKey({
    logKeyFile: join(dir, 'log-key.json'),
    logOrigin: 'urn:plant-store',
    keyFile: join(dir, 'key.json'),
  });
  return join(dir, `checkpoint-${verifierKey.id}`);
}

/** Rewrites the log in a directory, while no service runs: it has these events now. */
function rewrite(dir: string, names: readonly string[]): void {
  appendTo(dir); // creates the log
  alterLog(dir, 'DELETE FROM events');
  appendTo(dir, ...plants(names));
}

/** Puts another log in its place. */
function replace(dir: string, names: readonly string[]): void {
  for (const part of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(dir, part), { force: true });
  appendTo(dir, ...plants(names));
}

// The signer reads the tree of any event store; the checker has the tree of an EventStoreDB.
test.each<[what: string, change: typeof rewrite, names: string[]]>([
  ['an altered last event', rewrite, ['Fern', 'Moss', 'Elm']],
  ['its last event removed', rewrite, ['Fern', 'Moss']],
  ['been replaced by another one', replace, ['Ash', 'Yew', 'Ivy', 'Rue']],
  ['an altered event, and more', rewrite, ['Fern', 'Elm', 'Oak', 'Ivy']],
])('nothing is signed for a log that has %s', async (_, change, names) => {
  const dir = tempDir();
  rewrite(dir, NAMES);
  const note = await signed({ DATA_DIR: dir });
  expect(readFileSync(signedFile(dir), 'utf8')).toBe(note);

  change(dir, names);
  const size = names.length;
  const service = await startServiceWithTree({ DATA_DIR: dir, METRICS_PORT: '0' });
  const { get, request } = auditor(service);
  // Until the tree has read the log, the last checkpoint is served.
  await expect.poll(async () => (await get('/checkpoint')).status).toBe(503);
  const message = await refusedWith(50304, await get('/checkpoint'));
  expect(message).toMatch(/^The log contradicts a checkpoint that it has signed/);
  await refusedWith(50304, await get('/proofs/plants?id=1&user=alice'));
  const replay = await request('/events');
  expect([replay.status, replay.headers.get('checkpoint')]).toEqual([200, null]);
  expect((await replay.text()).split('\n')).toHaveLength(size + 1);
  const listed = await untilAvailable(() => service.as('alice').get());
  expect(await listed.json()).toHaveLength(size);
  expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
  await refusedWith(50304, await get('/checkpoint'));
  expect(contradictions(service)).toMatchObject([
    {
      signed: expect.stringMatching(/^3:[\da-f]{64}$/),
      log: expect.stringMatching(RegExp(`^${size}:[\\da-f]{64}$`)),
    },
  ]);
  const refused = samplesOf(await scrape(service.metricsUrl), 'plant_store_checkpoints_refused');
  expect(refused).toEqual({ '{reason="log_contradicts"}': 1, '{reason="file_unusable"}': 0 });
  expect((await service.as('bob').create(9, { name: 'Late' })).status).toBe(200);
  await refusedWith(50304, await get('/checkpoint'));
  expect(readFileSync(signedFile(dir), 'utf8')).toBe(note);
  const kept = `${VIEWS.merkleTree.file(dir)}.mismatch`;
  expect(existsSync(kept)).toBe(true);
  const rebuilding = service.log().find(({ view, copy }) => view === 'merkleTree' && copy);
  expect(rebuilding).toMatchObject({ msg: 'rebuilding view', copy: kept });

  await service.close(); // saves the tree
  const contradiction = /the log was signed as 3:[\da-f]{64}, and is now \d:/;
  for (const args of [
    ['--user', 'bob', '--id', '9'],
    ['--from', '1'],
  ])
    expectRefused(await runCli(['prove', ...args], { DATA_DIR: dir }), contradiction);
});

test('the operator goes on with another key and origin, or restores the log', async () => {
  const dir = tempDir();
  rewrite(dir, NAMES);
  const note = await signed({ DATA_DIR: dir });
  rewrite(dir, ['Elm']);
  const LOG_KEY_FILE = join(tempDir(), 'log-key.json');
  const service = await startServiceWithTree({ DATA_DIR: dir, LOG_KEY_FILE, LOG_ORIGIN: 'new.example' });
  expect(await auditor(service).checkpoint()).toMatch(/^new\.example\n1\n/);
  const start = service.log().filter(({ msg }) => /checkpoints start again/.test(msg));
  expect(start).toMatchObject([{ level: 40, histories: [basename(signedFile(dir))] }]);
  await service.close();
  rewrite(dir, NAMES);
  expect(await signed({ DATA_DIR: dir })).toBe(note);
});

describe('a service', () => {
  test('rebuilds a tree whose file was altered consistently, and signs the same root again', async () => {
    const dir = logWith({ events: 300 });
    const note = await signed({ DATA_DIR: dir });
    const forged = tempDir();
    copyFileSync(join(dir, 'log.db'), join(forged, 'log.db'));
    alterLog(forged, "UPDATE events SET data = replace(data, 'plant 2', 'plant X') WHERE position = 2");
    await signed({ DATA_DIR: forged });
    cpSync(VIEWS.merkleTree.file(forged), VIEWS.merkleTree.file(dir));
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
    const refused = service.log().find(({ msg }) => msg === 'request failed');
    expect(refused?.reason).toBe(`cannot use ${signedFile(dir)}: the text is not a signed note`);
    rmSync(signedFile(dir));
    await expect.poll(auditor(service).checkpoint).toMatch(/^urn:plant-store\n3\n/);
    await expect.poll(async () => (await request('/events')).headers.get('checkpoint')).toMatch(/^3 /);
  });

  test('and prove beside it sign the same history', async () => {
    const service = await startServiceWithTree({ DATA_DIR: logWith({ events: 2 }) });
    const { checkpoint } = auditor(service);
    for (let id = 10; id < 13; id++) {
      await service.as('bob').create(id, { name: 'Ivy' });
      await expect.poll(checkpoint).toMatch(RegExp(`^urn:plant-store\n${id - 7}\n`)); // then nothing more is signed
      const proof = succeeded(await runCli(['prove', '--from', '1'], { DATA_DIR: service.dir }));
      const note = proof.slice(proof.indexOf('\n\n') + 2);
      expect(readFileSync(signedFile(service.dir), 'utf8')).toBe(note);
      expect(await checkpoint()).toBe(note);
    }
    expect(contradictions(service)).toEqual([]);
  });
});

test('while the tree cannot be saved, nothing more is signed, and the last checkpoint is served', async () => {
  const service = await startServiceWithTree({ DATA_DIR: logWith({ events: 2 }) });
  const { as } = service;
  const { get, request } = auditor(service);
  expect((await get('/checkpoint')).status).toBe(200);
  await expect.poll(async () => (await request('/events')).headers.get('checkpoint')).toMatch(/^2 /);
  const other = new DatabaseSync(VIEWS.merkleTree.file(service.dir));
  // Once the tree is saved: simulates a full disk.
  await expect.poll(() => other.exec('BEGIN IMMEDIATE')).toBeUndefined();
  await service.as('bob').create(9, { name: 'Late' });
  expect(await (await request('/checkpoint')).text()).toMatch(/^urn:plant-store\n2\n/);
  const replay = await request('/events');
  expect(replay.status).toBe(200);
  expect((await replay.text()).trimEnd().split('\n')).toHaveLength(3);
  other.exec('ROLLBACK');
  other.close();
  await expect
    .poll(async () => (await get('/checkpoint')).text(), { timeout: 10_000 })
    .toMatch(/^urn:plant-store\n3\n/);
  expect((await as('bob').request('/proofs/plants?id=9')).status).toBe(200);
});

import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type EventStore, START } from '@event-sourced/event-log';
import { makeDraft } from '@event-sourced/event-log/disk';
import { type Follower, ViewBehind } from '@event-sourced/event-log/views';
import { filesWith } from '@event-sourced/testing/filesWith';
import { alterLog } from '@event-sourced/testing/logs';
import { refusedWith } from '@event-sourced/testing/refusal';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test, vi } from 'vitest';
import { SILENT } from '../../packages/event-log/src/logger.ts';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { Erasures } from '../../src/erasures.ts';
import { runCli, succeeded } from '../support/cli.ts';
import { listed } from '../support/eventStoreDbService.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { checkpointOf, startService, startServiceWithTree } from '../support/service.ts';

type Service = Awaited<ReturnType<typeof startService>>;
type Erased = { events: number; records: number[]; scrubbed: boolean };

function erase({ as }: Service, body: unknown, scope: string | undefined = 'erase'): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return as('dana', scope).request('/erasures', { method: 'POST', headers, body: JSON.stringify(body) });
}

async function erased(service: Service, user: string): Promise<Erased> {
  const response = await erase(service, { user });
  expect(response.status).toBe(200);
  return response.json() as Promise<Erased>;
}

/** The same on a slow machine, which may need more than one response until the files are scrubbed. */
async function scrubbed(service: Service, user: string): Promise<unknown> {
  const first = await erased(service, user);
  for (let last = first; !last.scrubbed; ) last = await erased(service, user);
  return first.events;
}

const unscrubbedOf = async ({ metricsUrl }: Service): Promise<string | undefined> =>
  /^plant_store_unscrubbed (\d)$/m.exec(await (await fetch(`${metricsUrl}`)).text())?.[1];

async function plantsOf(service: Service, user: string, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await service.as(user).create(i, { name: `herb of ${user}` });
}

const ALTER_1 = "UPDATE events SET data = replace(data, 'herb', 'weed') WHERE position = 1";
const INVALID_ID = '00000000-0000-7000-8000-000000000009';

/** A directory with a plant of alice, in the view too, and then an event on which the view halts. */
async function dirWithInvalidEvent(): Promise<string> {
  const service = await startServiceWithTree();
  await plantsOf(service, 'alice', 1);
  await service.close();
  using db = new DatabaseSync(join(service.dir, 'log.db'));
  db.exec(
    `INSERT INTO events SELECT NULL, '${INVALID_ID}', 'plant-bob/1', 0, type, '{}', metadata, recorded_at FROM events`,
  );
  return service.dir;
}

describe('POST /erasures', () => {
  test('erases all plants of a user, and of no other; again it erases nothing', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'alice', 3);
    for (const user of ['alice2', 'alice/0']) await plantsOf(service, user, 1);
    expect(await listed(service.as('alice'))).toHaveLength(3);
    const ids = service.events('alice').map(({ id }) => id);
    await treeSaved(service.dir, 5);
    expect(await scrubbed(service, 'alice')).toBe(3);
    expect(await listed(service.as('alice'))).toEqual([]);
    for (const user of ['alice2', 'alice/0'])
      expect(await listed(service.as(user))).toEqual([{ name: `herb of ${user}` }]);
    // With an ID, a hash shows whether a guess is right.
    expect(filesWith(service.dir, 'herb of alice"', ...ids)).toEqual([]);
    expect(await scrubbed(service, 'alice')).toBe(0);
    expect((await service.as('alice').create(0, { name: 'Moss' })).status).toBe(200); // the IDs are free
    expect(await listed(service.as('alice'))).toEqual([{ name: 'Moss' }]);
  });

  test('leaves a line with the number of events, and without the name', async () => {
    const service = await startServiceWithTree();
    for (const id of [1, 2]) await service.as('alice').create(id, { name: 'Fern' });
    await erased(service, 'alice');
    const lines = service.log().filter(({ msg }) => msg === 'events erased');
    expect(lines).toMatchObject([{ level: 30, events: 2, records: [2] }]);
    expect(JSON.stringify(lines)).not.toContain('alice');
  });

  test('keeps receipts, checkpoints and proofs valid', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'alice', 2);
    await plantsOf(service, 'bob', 2);
    const auditor = service.as('carol', 'audit');
    const get = async (path: string) => (await auditor.request(path)).text();
    const key = (await get('/log-key')).trim();
    const earlier = join(tempDir(), 'earlier.checkpoint');
    const receipt = await (await service.as('alice').request('/proofs/plants?id=1')).text();
    const note = await checkpointOf(4, auditor);
    await writeFile(earlier, note);
    const entries = await get('/tile/entries/000.p/4');
    const [, size, root] = note.split('\n');
    const expected = `${size}:${Buffer.from(root as string, 'base64').toString('hex')}`;
    expect(await scrubbed(service, 'alice')).toBe(2);
    await refusedWith(40402, await service.as('alice').request('/proofs/plants?id=1'));
    await checkpointOf(5, auditor);
    expect(await get('/tile/entries/000.p/4')).toBe(entries);
    const checked = async (proof: string, ...args: string[]) =>
      succeeded(await runCommand(['check-proof', '--key', key, ...args], { input: [proof] }));
    expect(await checked(receipt)).toContain('of "plant-alice/1" with the data {"id":"1"');
    await service.close();
    const env = { DATA_DIR: service.dir, MERKLE_TREE: 'on' };
    const growth = succeeded(await runCli(['prove', '--from', earlier], env));
    expect(await checked(growth, '--expect', earlier)).toContain(`${expected} is the beginning of 5:`);
    const verified = await runCli(['verify', '--expect', expected], env);
    expect(verified.stdout).toContain('the log begins with');
    expect(verified).toMatchObject({ code: 0, stderr: '' });
  });

  test('returns the indices of its records, whose receipts name the events', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'bob', 1);
    await plantsOf(service, 'alice', 2);
    const receipt = await (await service.as('alice').request('/proofs/plants?id=1')).text();
    expect(await erased(service, 'alice')).toMatchObject({ events: 2, records: [3] });
    for (const [caller, scope] of [
      ['dana', 'erase'],
      ['carol', 'audit'],
    ] as const) {
      const response = await service.as(caller, scope).request('/proofs/erasures?index=3');
      expect(response.headers.get('content-disposition')).toBe('attachment; filename="record-3.tlog-proof"');
      const file = join(tempDir(), 'record.tlog-proof');
      await writeFile(file, await response.text());
      const key = (await (await service.as(caller, scope).request('/log-key')).text()).trim();
      const check = async (proof: string, ...more: string[]) =>
        succeeded(await runCommand(['check-proof', '--key', key, ...more], { input: [proof] }));
      expect(await check(await readFile(file, 'utf8'))).toMatch(
        /^record 3 names 2 events \(1, 2\) as erased, in the log urn:plant-store 4:/,
      );
      expect(await check(receipt, '--record', file)).toMatch(
        /^event ".*" of "plant-alice\/1" .* is at index 2 of .*; record 3 names it as erased\n$/,
      );
    }
    await refusedWith(40301, await service.as('alice').request('/proofs/erasures?index=3'));
    for (const index of [0, 1, 4, 999_999_999_999])
      await refusedWith(40403, await service.as('dana', 'erase').request(`/proofs/erasures?index=${index}`));
    for (const query of ['', '?index=', '?index=-1', '?index=03', '?index=x', '?index=1&index=2'])
      await refusedWith(40004, await service.as('dana', 'erase').request(`/proofs/erasures${query}`));
  });

  test('refuses an altered event with 50003, and changes nothing, also if the tree was built again', async () => {
    const first = await startServiceWithTree();
    await plantsOf(first, 'alice', 2);
    await checkpointOf(2, first.as('carol', 'audit'));
    await first.close();
    for (const name of ['merkleTree.db', 'view.db']) await rm(join(first.dir, name));
    alterLog(first.dir, ALTER_1);
    const service = await startServiceWithTree({ DATA_DIR: first.dir, METRICS_PORT: '0' });
    const before = service.events();
    await vi.waitFor(async () => refusedWith(50003, await erase(service, { user: 'alice' })), 300_000);
    expect(service.events()).toEqual(before);
    expect(service.log()).toContainEqual(
      expect.objectContaining({ err: expect.objectContaining({ type: 'ErasureRefused' }) }),
    );
    const metrics = await (await fetch(`${service.metricsUrl}`)).text();
    expect(metrics).toMatch(/^plant_store_erasures_refused_total [1-9]/m);
    await service.close();
    const { code, stderr } = await runCli(['erase', 'alice', '--yes'], { DATA_DIR: first.dir });
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('the log contradicts its last signed checkpoint; nothing was erased'),
    ]);
  });

  test('without the Merkle tree is 50102; the command builds the tree', async () => {
    const service = await startService();
    await plantsOf(service, 'alice', 2);
    const message = await refusedWith(50102, await erase(service, { user: 'alice' }));
    expect(message).toContain('`bin/plant-store erase`');
    expect(await listed(service.as('alice'))).toHaveLength(2);
    await service.close();
    const env = { DATA_DIR: service.dir, MERKLE_TREE: 'off' };
    const command = await runCli(['erase', 'alice', '--yes'], env);
    expect(command).toMatchObject({ code: 0, stdout: 'erased 2 events; records: 2\n' });
    expect(filesWith(service.dir, 'alice')).toEqual([]);
    expect((await runCli(['verify'], env)).stdout).toContain('erased    2 events (1 record)');
  });

  test('requires the scope erase: 40301, and a user: 40002', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'alice', 1);
    for (const body of [
      {},
      { user: '' },
      { user: 1 },
      { user: null },
      { user: 'a\n' },
      { user: 'a'.repeat(256) },
      [],
    ])
      await refusedWith(40002, await erase(service, body));
    for (const scope of ['erasure', 'audit'])
      await refusedWith(40301, await erase(service, { user: 'alice' }, scope));
    await refusedWith(40301, await erase(service, {}, 'audit')); // before validation
    expect(await listed(service.as('alice'))).toHaveLength(1);
  });

  test('runs one after the other, beside POSTs of the same user', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'alice', 20);
    const posts = Array.from({ length: 30 }, (_, i) => service.as('alice').create(100 + i, { name: 'late' }));
    const results = await Promise.all(Array.from({ length: 5 }, () => erased(service, 'alice')));
    for (const response of await Promise.all(posts)) expect(response.status).toBe(200);
    const left = await listed(service.as('alice'));
    const events = results.reduce<number>((sum, result) => sum + (result as { events: number }).events, 0);
    expect(events + left.length).toBe(50);
  });

  test('removes drafts of processes that were killed', async () => {
    const dir = tempDir();
    const service = await startServiceWithTree({ DATA_DIR: dir, METRICS_PORT: '0' });
    await vi.waitFor(async () => expect(await unscrubbedOf(service)).toBe('0'), 300_000); // of the start
    await plantsOf(service, 'alice', 1);
    makeDraft(dir)[Symbol.dispose]();
    await mkdir(join(dir, 'drafts', 'of-a-killed-process'));
    await writeFile(join(dir, 'drafts', 'of-a-killed-process', 'plantsByUser.db'), 'alice');
    for (const name of ['verify-backup', 'verify-202611', 'nightly.partial']) {
      await mkdir(join(dir, name));
      await writeFile(join(dir, name, 'copy.db'), 'of the operator');
    }
    expect(await scrubbed(service, 'alice')).toBe(1);
    expect(filesWith(dir, 'alice')).toEqual([]);
    expect(filesWith(dir, 'of the operator')).toHaveLength(3);
  });

  test('goes on at a start with a draft that is in use', async () => {
    const dir = tempDir();
    const draft = makeDraft(dir);
    await mkdir(join(dir, 'drafts', 'of-a-killed-process'));
    await writeFile(join(dir, 'drafts', 'of-a-killed-process', 'plantsByUser.db'), 'alice');
    const service = await startServiceWithTree({ DATA_DIR: dir, METRICS_PORT: '0' });
    await plantsOf(service, 'bob', 1);
    expect(await listed(service.as('bob'))).toHaveLength(1); // the view has caught up
    expect(await unscrubbedOf(service)).toBe('1');
    draft[Symbol.dispose]();
    await vi.waitFor(async () => expect(await unscrubbedOf(service)).toBe('0'), 300_000);
    expect(filesWith(dir, 'alice')).toEqual([]);
  }, 300_000);

  test('while a view has halted erases the log, and is scrubbed: false', async () => {
    const dir = await dirWithInvalidEvent();
    const halted = await startServiceWithTree({ DATA_DIR: dir });
    await vi.waitFor(() => expect(JSON.stringify(halted.log())).toContain('projection halted'), 300_000);
    expect(await erased(halted, 'alice')).toEqual({ events: 1, records: [2], scrubbed: false });
    await vi.waitFor(() => expect(filesWith(dir, 'alice')).toEqual(['view.db']), 300_000);
    await halted.close();
    const restarted = await startServiceWithTree({ DATA_DIR: dir, METRICS_PORT: '0' });
    await vi.waitFor(() => expect(JSON.stringify(restarted.log())).toContain('projection halted'), 300_000);
    expect(await unscrubbedOf(restarted)).toBe('1');
    await restarted.close();
    const skipping = await startServiceWithTree({ DATA_DIR: dir, SKIP_EVENTS: INVALID_ID });
    expect(await scrubbed(skipping, 'alice')).toBe(0);
    expect(filesWith(dir, 'alice')).toEqual([]);
  });

  test('waits for the scrub of the log when a view has halted, and shares a scrub', async () => {
    const scrubbing = Promise.withResolvers<boolean>();
    const lastPosition = async () => START;
    const readAll = async () => ({ events: [], position: START, isEnd: true });
    const scrub = vi.fn(() => scrubbing.promise);
    const reads = { lastPosition, readAll };
    const log = { ...reads, forHashing: reads, logId: async () => 'm' };
    const store = { ...log, erase: async () => [], spaceToErase: async () => 0 };
    const reached = () => Promise.reject(new ViewBehind('unavailable'));
    const follower = { reached, isHalted: true, notReady: 'plantsByUser has halted' };
    const erasures = new Erasures({
      store: { ...store, scrub } as unknown as EventStore,
      followers: [follower as unknown as Follower],
      tree: {
        tree: { reached: async () => {}, readable: { head: { position: START } } } as never,
        assertTreeExtends: async () => {},
      },
      dataDir: tempDir(),
      now: () => new Date(),
      logger: SILENT,
    });
    const erased = await Promise.all(['alice', 'bob'].map((user) => erasures.erase(user)));
    const all = Promise.allSettled(erased.map(({ scrubbed }) => scrubbed));
    let isSettled = false;
    all.finally(() => (isSettled = true));
    await vi.waitFor(() => expect(scrub).toHaveBeenCalledOnce(), 300_000);
    for (let i = 0; i < 10; i++) await nextTurn();
    expect(isSettled).toBe(false);
    scrubbing.resolve(true);
    const reason = new Error('plantsByUser has halted; SKIP_EVENTS skips the event');
    expect(await all).toEqual([
      { status: 'rejected', reason },
      { status: 'rejected', reason },
    ]);
    expect(erasures.isScrubbed).toBe(false);
  });

  test('with a log in EventStoreDB is 50101, and erases nothing', async () => {
    const server = await startFakeServer();
    const service = await startService({ EVENTSTOREDB_URL: server.url });
    await plantsOf(service, 'alice', 1);
    const response = await erase(service, { user: 'alice' });
    await refusedWith(50101, response);
    expect(await listed(service.as('alice'))).toHaveLength(1);
  });
});

describe('after a restore', () => {
  const MSG = 'erased again what a restore has brought back';
  const dir = (service: Service) => join(service.dir, 'log.db');
  const env = (service: Service, merkleTree = 'on') => ({ DATA_DIR: service.dir, MERKLE_TREE: merkleTree });

  async function backupOf(service: Service): Promise<string> {
    const backup = join(tempDir(), 'copy.db');
    expect(await runCli(['backup', backup], env(service))).toMatchObject({ code: 0 });
    return backup;
  }

  /** Alice is erased after a backup, which is then restored. */
  async function restored(): Promise<Service> {
    const service = await startServiceWithTree();
    for (const user of ['alice', 'bob']) await plantsOf(service, user, 2);
    const backup = await backupOf(service);
    await plantsOf(service, 'carol', 1);
    await scrubbed(service, 'alice');
    await service.close();
    await copyFile(backup, dir(service));
    expect(filesWith(service.dir, 'alice')).toEqual(['log.db']);
    return service;
  }

  test.each(['on', 'off'])('the start erases again, and says so, with MERKLE_TREE=%s', async (merkleTree) => {
    const before = await restored();
    const service = await startService(env(before, merkleTree));
    expect(await listed(service.as('alice'))).toEqual([]);
    expect(await listed(service.as('bob'))).toHaveLength(2);
    expect(service.log()).toContainEqual(
      expect.objectContaining({ level: 40, msg: MSG, events: 2, records: [4] }),
    );
    await vi.waitFor(() => expect(filesWith(service.dir, 'alice')).toEqual([]), 300_000);
    await service.close();
    expect((await runCli(['verify'], env(before, merkleTree))).stdout).toContain(
      'erased    2 events (1 record)',
    );
    const next = await startService(env(before, merkleTree));
    expect(next.log().map(({ msg }) => msg)).not.toContain(MSG);
  });

  test('an older backup without the events is left as it is; a line names other events in their places', async () => {
    const service = await startServiceWithTree();
    await plantsOf(service, 'bob', 1);
    const backup = await backupOf(service);
    await plantsOf(service, 'alice', 1);
    await scrubbed(service, 'alice');
    await service.close();
    await copyFile(backup, dir(service));
    for (const name of await readdir(service.dir)) // as with a new key and origin
      if (/^checkpoint|^log-key/.test(name)) await rm(join(service.dir, name));
    const second = await startServiceWithTree(env(service));
    const warnings = second.log().filter(({ level }) => level > 30);
    expect(warnings.filter(({ msg }) => msg !== 'rebuilding view')).toEqual([]);
    await plantsOf(second, 'carol', 1);
    await second.close();
    const third = await startServiceWithTree(env(service));
    expect(third.log()).toContainEqual(
      expect.objectContaining({
        level: 40,
        events: 1,
        msg: 'other events are in the places of erased ones; they were not erased',
      }),
    );
    expect(await listed(third.as('carol'))).toHaveLength(1);
  });

  test('copy and erase erase again before they do anything else', async () => {
    const [source, other] = [await restored(), await restored()];
    const target = join(tempDir(), 'data');
    const copied = await runCli(['copy', '--from', source.dir, '--to', target]);
    expect(copied.stderr).toContain(MSG);
    expect(copied.stdout).toContain('both logs have the same 5 events');
    expect(filesWith(target, 'alice')).toEqual([]);
    const service = await startServiceWithTree({ DATA_DIR: target });
    await vi.waitFor(
      async () => expect(await readFile(join(target, 'erased'), 'utf8')).toMatch(/\n$/),
      300_000,
    );
    await service.close();
    // Nothing of this key is left to contradict.
    for (const name of await readdir(other.dir))
      if (/^checkpoint/.test(name)) await rm(join(other.dir, name));
    const erasing = await runCli(['erase', 'bob', '--yes'], { DATA_DIR: other.dir });
    expect(erasing.stderr).toContain(MSG);
    expect(erasing.stdout).toBe('erased 2 events; records: 5\n');
    expect(filesWith(other.dir, 'alice', 'bob')).toEqual([]);
  });

  test('a start fails if the file of what was erased cannot be read', async () => {
    const { dir } = await restored();
    await writeFile(join(dir, 'erased'), 'alice\n');
    await expect(startService({ DATA_DIR: dir })).rejects.toThrow(
      `cannot repeat erasures of ${join(dir, 'erased')}: a line names no erased events`,
    );
  });
});

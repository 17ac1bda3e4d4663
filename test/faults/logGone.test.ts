import { hash } from 'node:crypto';
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { alterLog, logWith } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { FakeLog } from '../../packages/event-store-db/src/testing/server.ts';
import { expectRefused, runCli } from '../support/cli.ts';
import { expectStartFailure } from '../support/disk.ts';
import { listed, serviceOver } from '../support/eventStoreDbService.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { checkpointOf, startService, startServiceWithTree } from '../support/service.ts';

const PLANTS = 20;
const LOG_FILES = ['log.db', 'log.db-wal', 'log.db-shm'];

/** A data directory of a service that was stopped, with plants of alice and bob, a view, a tree and a signed checkpoint. */
async function stopped(): Promise<string> {
  const { dir, as, close } = await startServiceWithTree();
  for (let id = 0; id < PLANTS; id++)
    expect((await as(id % 2 === 0 ? 'alice' : 'bob').create(id, { name: `plant ${id}` })).status).toBe(200);
  await as('alice').list();
  await treeSaved(dir, PLANTS);
  await checkpointOf(PLANTS, as('auditor', 'audit'));
  await close();
  return dir;
}

/** The files with content, without what a reader of a SQLite file creates. */
const contents = (dir: string) =>
  readdirSync(dir)
    .filter(
      (name) => !name.endsWith('-shm') && !(name.endsWith('-wal') && statSync(join(dir, name)).size === 0),
    )
    .map((name) => `${name} ${hash('sha256', readFileSync(join(dir, name)))}`);

const removeLog = (dir: string): void => {
  for (const name of LOG_FILES) rmSync(join(dir, name), { force: true });
};

const FOUND = [
  RegExp(`view\\.db \\(log s[\\da-f]{12}, position ${PLANTS}\\)`),
  RegExp(`merkleTree\\.db \\(log s[\\da-f]{12}, position ${PLANTS}\\)`),
  RegExp(`checkpoint-[\\da-f]{8} \\(${PLANTS} events of urn:plant-store\\)`),
];

describe('a start beside the view, the tree and the signed checkpoint of a log', () => {
  test.for<[what: string, lose: (dir: string) => void]>([
    ['was emptied', (dir) => truncateSync(join(dir, 'log.db'))],
    ['was removed', removeLog],
  ])('that %s is refused, names them, and changes nothing', async ([, lose]) => {
    const dir = await stopped();
    const saved = join(tempDir(), 'saved.db');
    copyFileSync(join(dir, 'log.db'), saved);
    lose(dir);
    const before = contents(dir);
    const line = await expectStartFailure(
      { env: { DATA_DIR: dir } },
      `cannot use the log ${join(dir, 'log.db')}`,
    );
    for (const found of FOUND) expect(line).toMatch(found);
    expect(line).toMatch(/restore the log, or move these files away/);
    expect(contents(dir)).toEqual(before);

    copyFileSync(saved, join(dir, 'log.db'));
    const { as } = await startService({ DATA_DIR: dir });
    for (const user of ['alice', 'bob']) expect(await as(user).list()).toHaveLength(PLANTS / 2);
  });

  test.for(['view.db', 'merkleTree.db', 'checkpoint-'])(
    'that is gone is refused also if only %s is left',
    async (kept) => {
      const dir = await stopped();
      for (const name of readdirSync(dir)) if (!name.startsWith(kept)) rmSync(join(dir, name));
      const [name = ''] = readdirSync(dir);
      await expectStartFailure({ env: { DATA_DIR: dir } }, `has files of a log: ${name} (`);
      renameSync(join(dir, name), join(tempDir(), name));
      const { as } = await startService({ DATA_DIR: dir });
      expect(await as('alice').list()).toEqual([]);
    },
  );

  test.for<[what: string, empty: (dir: string) => void]>([
    [
      'of another ID is in its place',
      (dir) => copyFileSync(join(logWith({ events: 0 }), 'log.db'), join(dir, 'log.db')),
    ],
    [
      'of the same ID is left, since its write-ahead log was removed',
      (dir) => alterLog(dir, 'DELETE FROM events'),
    ],
  ])('is refused also if an empty log %s', async ([, empty]) => {
    const dir = await stopped();
    empty(dir);
    const before = contents(dir);
    const line = await expectStartFailure({ env: { DATA_DIR: dir } }, 'it has no events, but');
    for (const found of FOUND) expect(line).toMatch(found);
    expect(contents(dir)).toEqual(before);
  });
});

test.for(['log.db', 'view.db', 'merkleTree.db', 'lock.db'])(
  'a start whose %s is a symbolic link is refused, and changes nothing',
  async (name) => {
    const dir = await stopped();
    const target = join(tempDir(), name);
    renameSync(join(dir, name), target);
    symlinkSync(target, join(dir, name));
    const before = readdirSync(dir);
    await expectStartFailure(
      { env: { DATA_DIR: dir, MERKLE_TREE: 'on' } },
      `${join(dir, name)} is a symbolic link: move or link its whole directory instead`,
    );
    expect(readdirSync(dir)).toEqual(before);
  },
);

test('a copy is not made beside files of another log', async () => {
  const [dir, other] = [await stopped(), await stopped()];
  removeLog(other);
  const before = contents(other);
  expectRefused(await runCli(['copy', '--from', dir, '--to', other]), /--to: .*has files of a log: view\.db/);
  expect(contents(other)).toEqual(before);
});

describe('a start over an empty EventStoreDB', () => {
  /** A data directory of a service over a server, and the log of the server. */
  async function stoppedOver() {
    const server = await startFakeServer();
    const { dir, alice, bob, close } = await serviceOver(server.url);
    for (const user of [alice, bob]) {
      expect((await user.create(1, { name: 'Fern' })).status).toBe(200);
      expect(await listed(user)).toEqual([{ name: 'Fern' }]); // the view has it
    }
    await close();
    await server.stop();
    return { dir, log: server.log };
  }

  test('beside the view of a log is refused, and the view is kept', async () => {
    const { dir, log } = await stoppedOver();
    const { url } = await startFakeServer({ log: new FakeLog() });
    const before = contents(dir);
    const start = serviceOver(url, { DATA_DIR: dir });
    await expect(start).rejects.toThrow(
      /^cannot use EVENTSTOREDB_URL: .*has files of a log: view\.db \(log e[\da-f]{12}, position \d+\).*; restore/,
    );
    expect(contents(dir)).toEqual(before);
    const again = await serviceOver((await startFakeServer({ log })).url, { DATA_DIR: dir });
    for (const user of [again.alice, again.bob]) expect(await listed(user)).toEqual([{ name: 'Fern' }]);
  });

  test('that responds only after the start appends nothing beside the view of a log, which is kept', async () => {
    const { dir } = await stoppedOver();
    const server = await startFakeServer({ log: new FakeLog() });
    await server.stop();
    const service = await serviceOver(server.url, { DATA_DIR: dir, EVENTSTOREDB_TIMEOUT: '2' });
    await server.restart();
    for (let attempt = 0; attempt < 2; attempt++)
      expect((await service.alice.create(2, { name: 'Moss' })).status).toBe(503);
    await expect.poll(async () => (await service.readiness()).text()).toContain('it has no events');
    expect(server.log.all).toEqual([]);
    await service.close();
    using view = new DatabaseSync(join(dir, 'view.db'), { readOnly: true });
    expect(view.prepare('SELECT user FROM plants ORDER BY user').all()).toEqual([
      { user: 'alice' },
      { user: 'bob' },
    ]);
  });

  test('beside the view of an embedded log is refused, too, and the other way round', async () => {
    const { dir } = await stoppedOver();
    await expect(startService({ DATA_DIR: dir })).rejects.toThrow(/view\.db \(log e/);
    const embedded = await stopped();
    const { url } = await startFakeServer();
    await expect(serviceOver(url, { DATA_DIR: embedded })).rejects.toThrow(/view\.db \(log s/);
  });
});

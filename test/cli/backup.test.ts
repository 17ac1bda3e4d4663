import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { alterLog, logWith, rowsIn } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { damageFirstRows } from '../support/damage.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { startService, startServiceWithTree } from '../support/service.ts';

const backup = (file: string, DATA_DIR: string) => runCli(['backup', file], { DATA_DIR });

describe('backup of a stopped service', () => {
  test('makes an exact copy, which is append-only, too', async () => {
    const [dir, file] = [logWith({ events: 1_001 }), join(tempDir(), 'copy.db')];
    const { code, stdout } = await backup(file, dir);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^1001:[\da-f]{64}\n$/) });
    expect(rowsIn(file)).toEqual(rowsIn(join(dir, 'log.db')));
    using db = new DatabaseSync(file);
    expect(() => db.exec("UPDATE events SET type = 'x'")).toThrow(/append-only/);
    expect(() => db.exec('DELETE FROM events')).toThrow(/append-only/);
    const restored = tempDir();
    copyFileSync(file, join(restored, 'log.db'));
    const verified = await runCli(['verify', '--expect', stdout.trim()], { DATA_DIR: restored });
    expect(verified).toMatchObject({ code: 0 });
  });

  test('copies an empty log', async () => {
    const file = join(tempDir(), 'copy.db');
    expect((await backup(file, logWith({ events: 0 }))).stdout).toMatch(/^0:e3b0c44298fc1c14[\da-f]{48}\n$/);
    expect(rowsIn(file)).toEqual([]);
  });
});

const ALTERED = "UPDATE events SET type = 'Altered' WHERE position =";

/** The SIZE:ROOT that a backup prints. */
async function rootOfBackup(file: string, dir: string): Promise<string> {
  const { code, stdout, stderr } = await backup(file, dir);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringMatching(/^backed up \d+ events to .*\n$/),
  });
  return stdout.trim();
}

/** A data directory with a Merkle tree of its log, and a backup of this number of its events. */
async function backedUp(events: number) {
  const dir = logWith({ events });
  const file = join(tempDir(), 'copy.db');
  await updateTree(dir, events);
  await rootOfBackup(file, dir);
  return { dir, log: join(dir, 'log.db'), file };
}

/** Starts a service until its tree is saved up to a position. */
async function updateTree(dir: string, position: number): Promise<void> {
  const { close } = await startServiceWithTree({ DATA_DIR: dir });
  await treeSaved(dir, position);
  await close();
}

const rootIn = async (dir: string): Promise<string | undefined> =>
  /^expect +(\S+)$/m.exec((await runCli(['verify'], { DATA_DIR: dir })).stdout)?.[1];

describe('backup to an earlier backup', () => {
  const [OLD, NEW] = [700, 300];

  test.for([
    ['of a running service with a Merkle tree', async (dir: string) => updateTree(dir, OLD + NEW)],
    ['of a log that its Merkle tree is behind', async () => {}],
    ['of a log without a Merkle tree', async (dir: string) => rmSync(join(dir, 'merkleTree.db'))],
  ] as const)('adds the new events %s', async ([, prepare]) => {
    const { dir, log, file } = await backedUp(OLD);
    const { ino } = statSync(file);
    logWith({ dir, events: NEW, after: OLD });
    await prepare(dir);
    const root = await rootOfBackup(file, dir);
    expect(root).toBe(await rootIn(dir));
    expect(rowsIn(file)).toEqual(rowsIn(log));
    expect(statSync(file).ino).toBe(ino);
    expect(readdirSync(dirname(file))).toEqual(['copy.db']);
    expect(await rootOfBackup(file, dir)).toBe(root); // nothing is new
    const restored = tempDir();
    copyFileSync(file, join(restored, 'log.db'));
    succeeded(await runCli(['verify', '--expect', root], { DATA_DIR: restored }));
    const { as } = await startService({ DATA_DIR: restored });
    expect((await as('carol').create(1, { name: 'Fern' })).status).toBe(200);
    expect(await as('carol').list()).toEqual([{ name: 'Fern' }]);
  });

  test('does not read events of the log again that its saved Merkle tree has', async () => {
    const { dir, log, file } = await backedUp(OLD);
    logWith({ dir, events: NEW, after: OLD });
    await updateTree(dir, OLD + NEW);
    const root = await rootIn(dir);
    damageFirstRows(log, 'events');
    expect(await rootOfBackup(file, dir)).toBe(root);
  });

  /** Changes the backup, whose triggers do not matter. */
  const alterBackup = (file: string, sql: string): void => {
    using db = new DatabaseSync(file);
    db.exec(`DROP TRIGGER events_are_never_updated; DROP TRIGGER events_are_never_deleted; ${sql}`);
  };

  test.for<[what: string, change: (home: { dir: string; file: string }) => unknown, message: RegExp]>([
    [
      'the log is another one',
      ({ dir }) => rmSync(join(dir, 'log.db')) ?? logWith({ dir, events: OLD + NEW }),
      /copy\.db: it is a backup of another log/,
    ],
    [
      'the log has lost events',
      ({ dir }) => alterLog(dir, `DELETE FROM events WHERE position >= ${OLD}`),
      /copy\.db: it has events that the log does not have/,
    ],
    [
      'it has got events of its own',
      ({ file }) =>
        new DatabaseSync(file).exec(
          `INSERT INTO events SELECT 9999, 'x', 'x', 0, type, data, metadata, recorded_at FROM events LIMIT 1`,
        ),
      /copy\.db: it has events that the log does not have/,
    ],
    [
      'an event was removed from it',
      ({ file }) => alterBackup(file, 'DELETE FROM events WHERE position = 2'),
      /does not match the log/,
    ],
    [
      'an event was removed from it, and the log has no Merkle tree',
      ({ dir, file }) => {
        rmSync(join(dir, 'merkleTree.db'));
        alterBackup(file, 'DELETE FROM events WHERE position = 2');
      },
      /does not match the log/,
    ],
    ['an event of it was altered', ({ file }) => alterBackup(file, `${ALTERED} 1`), /does not match the log/],
    [
      'an event that it has was altered in the log, and hashed again',
      async ({ dir }) => {
        alterLog(dir, `${ALTERED} 1`);
        rmSync(join(dir, 'merkleTree.db'));
        await updateTree(dir, OLD);
      },
      /does not match the log/,
    ],
    [
      'a new event was altered after it was hashed',
      async ({ dir }) => {
        logWith({ dir, events: NEW, after: OLD });
        await updateTree(dir, OLD + NEW);
        alterLog(dir, `${ALTERED} ${OLD + 1}`);
      },
      /does not match the log/,
    ],
    ['it is empty', ({ file }) => truncateSync(file), /copy\.db: it is empty: remove it, for a new backup/],
    [
      'a service uses it as its log',
      async ({ file }) => new DatabaseSync(file).exec('PRAGMA journal_mode = WAL'),
      /it is the log of a service/,
    ],
  ])('is refused, and changes nothing, if %s', async ([, change, message]) => {
    const { dir, file } = await backedUp(OLD);
    await change({ dir, file });
    await expectUnchanged(file, dir, message);
  });

  async function expectUnchanged(file: string, dir: string, message: RegExp): Promise<void> {
    const before = readFileSync(file);
    expectRefused(await backup(file, dir), message);
    expect(readFileSync(file).equals(before)).toBe(true);
  }
});

test('backup to a symbolic link looks for a write-ahead log beside its target', async () => {
  const { dir, file } = await backedUp(3);
  const link = join(tempDir(), 'link.db');
  symlinkSync(file, link);
  writeFileSync(`${file}-wal`, 'of another file');
  expectRefused(await backup(link, dir), /copy\.db-wal belongs to another copy\.db/);
  rmSync(`${file}-wal`);
  expect(await rootOfBackup(link, dir)).toBe(await rootIn(dir));
});

test('backup to a new file reads all of a log that was restored from a backup', async () => {
  const { dir, file } = await backedUp(700);
  copyFileSync(file, join(dir, 'log.db'));
  damageFirstRows(join(dir, 'log.db'), 'events');
  expectRefused(await backup(`${file}.new`, dir), /malformed/);
  copyFileSync(file, join(dir, 'log.db'));
  alterLog(dir, `${ALTERED} 2`);
  expectRefused(await backup(`${file}.new`, dir), /does not match the log/);
});

test('backup reports a log that was altered after it was hashed, and makes no file', async () => {
  const { dir, file } = await backedUp(3);
  alterLog(dir, `${ALTERED} 2`);
  expectRefused(await backup(`${file}.new`, dir), /does not match the log; .* run verify/);
  expect(readdirSync(dirname(file))).toEqual(['copy.db']);
});

describe('backup reports in one line, and changes nothing, for', () => {
  test('an existing file of any kind', async () => {
    const [dir, place] = [logWith({ events: 3 }), tempDir()];
    writeFileSync(join(place, 'photo.jpg'), 'a photo');
    mkdirSync(join(place, 'photos'));
    symlinkSync(join(place, 'nowhere'), join(place, 'link'));
    for (const name of ['photo.jpg', 'photos', 'link'])
      expectRefused(await backup(join(place, name), dir), RegExp(name));
    expect(readdirSync(place).sort()).toEqual(['link', 'photo.jpg', 'photos']);
    expect(readFileSync(join(place, 'photo.jpg'), 'utf8')).toBe('a photo');
    expect(readdirSync(join(place, 'photos'))).toEqual([]);
    const log = join(dir, 'log.db');
    expectRefused(await backup(log, dir), RegExp(log));
    expect(rowsIn(log)).toHaveLength(3);
  });

  test('a path where the file cannot be created', async () => {
    const [dir, place] = [logWith({ events: 3 }), tempDir()];
    const missing = join(place, 'no', 'copy.db');
    for (const file of [missing, '', `file:${place}/copy.db`])
      expectRefused(await backup(file, dir), /unable|cannot|no such|already/);
    expect((await backup(missing, dir)).stderr).toContain(missing);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a damaged log', async () => {
    const [damaged, place] = [logWith({ events: 2_000 }), tempDir()];
    const log = join(damaged, 'log.db');
    writeFileSync(log, readFileSync(log).fill(0xff, 40_960, 49_152));
    expectRefused(await backup(join(place, 'copy.db'), damaged), /malformed/);
    expect(readdirSync(place)).toEqual([]);
  });

  test('a log in EventStoreDB', async () => {
    const { url } = await startFakeServer();
    const place = tempDir();
    const refused = await runCli(['backup', join(place, 'copy.db')], { EVENTSTOREDB_URL: url });
    expectRefused(refused, /EventStoreDB/);
    expect(readdirSync(place)).toEqual([]);
  });
});

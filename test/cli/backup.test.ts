import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
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
  ] as const)('replaces it by one %s', async ([, prepare]) => {
    const { dir, log, file } = await backedUp(OLD);
    const kept = join(tempDir(), 'kept.db');
    linkSync(file, kept);
    logWith({ dir, events: NEW, after: OLD });
    await prepare(dir);
    const root = await rootOfBackup(file, dir);
    expect(root).toBe(await rootIn(dir));
    expect(rowsIn(file)).toEqual(rowsIn(log));
    expect(rowsIn(kept)).toHaveLength(OLD);
    expect(readdirSync(dirname(file))).toEqual(['copy.db']);
    expect(await rootOfBackup(file, dir)).toBe(root); // nothing is new
    const restored = tempDir();
    copyFileSync(file, join(restored, 'log.db'));
    succeeded(await runCli(['verify', '--expect', root], { DATA_DIR: restored }));
    const { as } = await startService({ DATA_DIR: restored });
    expect((await as('carol').create(1, { name: 'Fern' })).status).toBe(200);
    expect(await as('carol').list()).toEqual([{ name: 'Fern' }]);
  });

  test.for<[what: string, change: (home: { dir: string; file: string }) => unknown, message: RegExp]>([
    [
      'the log is another one',
      ({ dir }) => rmSync(join(dir, 'log.db')) ?? logWith({ dir, events: OLD + NEW }),
      /copy\.db: it is a backup of another log/,
    ],
    [
      'the log has lost events',
      ({ dir }) => alterLog(dir, `DELETE FROM events WHERE position >= ${OLD}`),
      /copy\.db: a new backup would lack its last event/,
    ],
    [
      'it has got events of its own',
      ({ file }) =>
        new DatabaseSync(file).exec(
          `INSERT INTO events SELECT 9999, 'x', 'x', 0, type, data, metadata, recorded_at FROM events LIMIT 1`,
        ),
      /copy\.db: a new backup would lack its last event/,
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
    ['it is empty', ({ file }) => truncateSync(file), /copy\.db: it is a SQLite file, but not an event log/],
    [
      'a service uses it as its log',
      async ({ file }) => new DatabaseSync(file).exec('PRAGMA journal_mode = WAL'),
      /copy\.db: it is the log of a service/,
    ],
    [
      'a journal is beside it',
      ({ file }) => writeFileSync(`${file}-journal`, 'x'),
      /apply .*copy\.db-journal/,
    ],
    [
      'a write-ahead log is beside it',
      ({ file }) => writeFileSync(`${file}-wal`, 'x'),
      /apply .*copy\.db-wal/,
    ],
  ])('is refused, and changes nothing, if %s', async ([, change, message]) => {
    const { dir, file } = await backedUp(OLD);
    await change({ dir, file });
    const [before, names] = [readFileSync(file), readdirSync(dirname(file))];
    expectRefused(await backup(file, dir), message);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readdirSync(dirname(file))).toEqual(names);
  });
});

test('two backups to one file at once leave a whole one', async () => {
  const { dir, file } = await backedUp(3);
  const ended = await Promise.all([backup(file, dir), backup(file, dir)]);
  for (const one of ended) if (one.code !== 0) expectRefused(one, /another process uses .*copy\.db\.partial/);
  expect(ended.map(({ code }) => code)).toContain(0);
  expect(rowsIn(file)).toHaveLength(3);
  expect(readdirSync(dirname(file))).toEqual(['copy.db']);
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
  });

  test('the log itself by any name, and other files of a service', async () => {
    const { dir, log } = await backedUp(3);
    const place = tempDir();
    linkSync(log, join(place, 'linked.db'));
    symlinkSync(log, join(place, 'link.db'));
    symlinkSync(dir, join(place, 'data'));
    const other = logWith({ events: 3 });
    const files = readdirSync(dir);
    for (const [file, message] of [
      [log, /it is the log itself/],
      [join(place, 'linked.db'), /it is the log itself/],
      [join(place, 'data', 'log.db'), /it is the log itself/],
      [join(place, 'link.db'), /it is not a regular file/],
      [join(other, 'log.db'), /it is the log of a service/],
      [join(dir, 'key.json'), /it is not a database|file is not a database/],
      [join(dir, 'lock.db'), /not an event log/],
      [join(dir, 'view.db'), /it is the log of a service/],
    ] as const)
      expectRefused(await backup(file, dir), message);
    expect(rowsIn(log)).toHaveLength(3);
    expect(readdirSync(dir)).toEqual(files);
    expect(readdirSync(place).sort()).toEqual(['data', 'link.db', 'linked.db']);
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

test('backup to a file of any name in the data directory has its draft in the drafts, which erasures empty', async () => {
  const dir = logWith({ events: 3 });
  await rootOfBackup(join(dir, 'nightly'), dir);
  expect(readdirSync(dir).filter((name) => !name.startsWith('log.db'))).toEqual(['drafts', 'nightly']);
  expect(readdirSync(join(dir, 'drafts'))).toEqual(['drafts.lock']);
  expect(rowsIn(join(dir, 'nightly'))).toHaveLength(3);
});

test('backup refuses a directory of others in the place of its draft, and keeps it', async () => {
  const dir = logWith({ events: 3 });
  const place = tempDir();
  mkdirSync(join(place, 'copy.db.partial'));
  writeFileSync(join(place, 'copy.db.partial', 'report.txt'), 'kept');
  expectRefused(await backup(join(place, 'copy.db'), dir), /copy\.db\.partial has no drafts .* move it away/);
  expect(readdirSync(join(place, 'copy.db.partial'))).toEqual(['report.txt']);
});

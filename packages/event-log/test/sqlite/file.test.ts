import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { startService } from '../../../../test/support/service.ts';
import { tempDir } from '../../../../test/support/tempDir.ts';
import { openLogFile } from '../../src/sqlite/file.ts';

/** The one line with which a start with this data directory fails. */
async function refusal(DATA_DIR: string): Promise<string> {
  const outcome = await startService({ DATA_DIR }).catch((error: Error) => error);
  expect(outcome).toBeInstanceOf(Error);
  const { message } = outcome as Error;
  expect(message).toMatch(/^[^\n]+$/);
  return message;
}

const NOT_A_LOG = /not an event log/;

/** Creates a SQLite database with these statements. */
const sqlite = (sql: string) => (file: string) => {
  using db = new DatabaseSync(file);
  db.exec(sql);
};

function newerLog(file: string): void {
  using db = openLogFile(file);
  db.exec('PRAGMA user_version = 7');
}

function damagedLog(file: string): void {
  openLogFile(file).close();
  writeFileSync(file, readFileSync(file).fill(0xff, 100, 200));
}

describe('a log.db', () => {
  const MUSIC = 'CREATE TABLE music (title TEXT); INSERT INTO music VALUES (1)';
  const WAL_MODE = 'PRAGMA journal_mode = WAL';
  test.for<[string, make: (file: string) => void, reason: RegExp]>([
    ['that is garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage')), /not a database/],
    ['that is a line of text', (file) => writeFileSync(file, 'hello\n'), /not a database/],
    ['that is another SQLite database', sqlite(MUSIC), NOT_A_LOG],
    ['that is another SQLite database in WAL mode', sqlite(`${WAL_MODE}; ${MUSIC}`), NOT_A_LOG],
    ['that has lost its tables', sqlite(`${WAL_MODE}; CREATE TABLE t (a); DROP TABLE t`), NOT_A_LOG],
    ['with the application ID of another program', sqlite('PRAGMA application_id = 1234'), NOT_A_LOG],
    ['of a newer version', newerLog, /version 7\b.*\bup to 1\b/],
    ['with damage in its first page', damagedLog, /malformed/],
  ])('%s is reported with its path and not changed', async ([, make, reason]) => {
    const dir = tempDir();
    const file = join(dir, 'log.db');
    make(file);
    const before = readFileSync(file);
    const message = await refusal(dir);
    expect(message).toContain(file);
    expect(message).toMatch(reason);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test('that is a directory is reported with its path', async () => {
    const dir = tempDir();
    mkdirSync(join(dir, 'log.db'));
    expect(await refusal(dir)).toContain(join(dir, 'log.db'));
  });

  test('that is missing beside its write-ahead log makes a start fail, until it is restored', async () => {
    const [dir, elsewhere] = [tempDir(), tempDir()];
    const { as } = await startService({ DATA_DIR: elsewhere });
    await as('alice').create(1, { name: 'Fern' });
    const file = join(dir, 'log.db');
    copyFileSync(join(elsewhere, 'log.db-wal'), `${file}-wal`); // as after a crash
    const wal = readFileSync(`${file}-wal`);
    expect(await refusal(dir)).toContain(file);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    copyFileSync(join(elsewhere, 'log.db'), file);
    const again = await startService({ DATA_DIR: dir });
    expect(await again.as('alice').list()).toEqual([{ name: 'Fern' }]);
  });
});

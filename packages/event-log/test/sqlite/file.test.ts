import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { openLogFile, UnusableLog } from '../../src/sqlite/file.ts';
import { openLogReader } from '../../src/sqlite/read.ts';
import { openSqliteStore } from '../../src/sqlite/store.ts';

/** Expects that neither a store nor a reader opens a log, for a reason that is one line with its path. */
async function expectRefused(file: string, reason: RegExp): Promise<void> {
  for (const open of [() => openSqliteStore({ file }), async () => openLogReader(file)]) {
    const error = await open().catch((error: Error) => error);
    expect(error).toBeInstanceOf(UnusableLog);
    const { message } = error as Error;
    expect(message).toContain(file);
    expect(message).toMatch(/^[^\n]+$/);
    expect(message).toMatch(reason);
  }
}

const contentOf = (file: string) => statSync(file).isFile() && readFileSync(file, 'hex');

const NOT_A_LOG = /not an event log/;

/** Creates a SQLite database with these statements. */
const sqlite = (sql: string) => (file: string) => {
  using db = new DatabaseSync(file);
  db.exec(sql);
};

/** Creates a log, and executes these statements in it. */
const alteredLog = (sql: string) => (file: string) => {
  using db = openLogFile(file);
  db.exec(sql);
};

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
    ['of a newer version', alteredLog('PRAGMA user_version = 7'), /version 7\b.*\bup to 4\b/],
    ['without its events', alteredLog('DROP TABLE events'), /no such table/],
    ['without its log ID', alteredLog('DELETE FROM log'), /its log ID is missing/],
    ['whose log ID is no UUID', alteredLog("UPDATE log SET id = 'ü.1'"), /its log ID is missing or altered/],
    ['with damage in its first page', damagedLog, /malformed/],
    ['that is a directory', mkdirSync, /unable to open|disk I\/O error/],
  ])('%s is reported with its path and not changed', async ([, make, reason]) => {
    const file = join(tempDir(), 'log.db');
    make(file);
    const before = contentOf(file);
    await expectRefused(file, reason);
    expect(contentOf(file)).toEqual(before);
  });

  test.each([
    ['missing', () => {}],
    ['empty', (file: string) => writeFileSync(file, '')],
  ])('that is %s beside a write-ahead log is not created', async (_, make) => {
    const file = join(tempDir(), 'log.db');
    make(file);
    writeFileSync(`${file}-wal`, 'the last events');
    await expect(openSqliteStore({ file })).rejects.toThrow('found log.db-wal without log.db');
    expect(readFileSync(`${file}-wal`, 'utf8')).toBe('the last events');
  });
});

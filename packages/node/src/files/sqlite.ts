import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { hasSqliteCode, SQLITE } from './sqliteCode.ts';

/** A file differs from what was written to it, and SQLite cannot detect it. */
export class DamagedFile extends Error {
  override readonly name = 'DamagedFile';
}

export const isDamage = (error: unknown): boolean => hasSqliteCode(error, SQLITE.CORRUPT, SQLITE.NOTADB);

/**
 * Opens a database for reading only. In a read-only directory, SQLite cannot create the files that it shares with a
 * writer. Without a write-ahead log there is no writer, and SQLite reads without these files.
 */
export function openReadOnly(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    db.prepare('SELECT 1 FROM sqlite_schema').get();
    return db;
  } catch (error) {
    db.close();
    if (!hasSqliteCode(error, SQLITE.CANTOPEN, SQLITE.READONLY) || fileSize(file) === 0) throw error;
    if (existsSync(`${file}-wal`)) {
      const cure = `copy ${file} and ${file}-wal to a directory that can be written`;
      throw new Error(`its directory cannot be written; ${cure}`, { cause: error });
    }
    const url = pathToFileURL(file);
    url.searchParams.set('immutable', '1'); // https://sqlite.org/uri.html
    return new DatabaseSync(url, { readOnly: true });
  }
}

/** SQLite would open a file without write permission for reading. @throws Error */
export function assertWritable(file: string): void {
  if (existsSync(file)) accessSync(file, constants.W_OK);
}

/** Prepares a statement that reads rows as arrays, and integers as bigint. */
export function prepareArrays(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true); // half the cost of objects
  return statement;
}

/** Empties the write-ahead log, without waiting; false if a reader needs an earlier state. */
export function truncateWal(db: DatabaseSync): boolean {
  const { timeout } = db.prepare('PRAGMA busy_timeout').get() as { timeout: number };
  db.exec('PRAGMA busy_timeout = 0');
  try {
    const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    return busy === 0;
  } finally {
    db.exec(`PRAGMA busy_timeout = ${timeout}`);
  }
}

/** Size in bytes; 0 if the file does not exist. */
export function fileSize(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

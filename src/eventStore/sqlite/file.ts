import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fsyncPath } from '../../disk/fsyncPath.ts';
import { fileSize, readHeader } from '../../disk/sqlite.ts';

/** 'PLog' in ASCII: the application ID in the header of a log file. */
const APPLICATION_ID = 0x504c6f67;
const VERSION = 1;

/** The schema of the log on disk. It is permanent: add to it, never change it. */
const SCHEMA = `
  CREATE TABLE log (id TEXT NOT NULL) STRICT;

  CREATE TABLE events (
    position    INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    stream      TEXT    NOT NULL,
    revision    INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    data        TEXT    NOT NULL,
    metadata    TEXT    NOT NULL,
    recorded_at TEXT    NOT NULL,
    UNIQUE (stream, revision)
  ) STRICT;

  CREATE TRIGGER events_are_never_updated BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
  CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
`;

/** The log file cannot be used. The message is for the operator. */
export class UnusableLog extends Error {
  override readonly name = 'UnusableLog';
}

/**
 * Opens the log for appending, and creates it if it does not exist. Every commit is durable before it
 * returns: WAL with synchronous=FULL (https://sqlite.org/pragma.html#pragma_synchronous). The caller runs
 * checkpoints, since SQLite ignores a failed fsync in an automatic one.
 * @throws UnusableLog; a file that is not a log is not changed
 */
export function openLogFile(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    if (fileSize(file) === 0 && fileSize(`${file}-wal`) > 0)
      throw new Error(`found ${basename(file)}-wal without ${basename(file)}`);
    db = new DatabaseSync(file, { timeout: 5_000 });
    // The first read also rolls back a creation that was interrupted. A log gets its tables before it is in
    // WAL mode, so a file that is not empty has them.
    const isEmpty = db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (isEmpty && fileSize(file) === 0) create(db);
    assertIsLog(db);
    db.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA recursive_triggers = ON; -- without it INSERT OR REPLACE would bypass the DELETE trigger
      DELETE FROM log WHERE FALSE; -- fails if SQLite could open the file only for reading
    `);
    // SQLite ignores a failed fsync of the directory, without which a power cut could remove the files.
    fsyncPath(dirname(file));
    return db;
  } catch (error) {
    db?.close();
    throw unusable(file, error);
  }
}

/**
 * Makes the write-ahead log that a crash has left durable, before SQLite treats it as committed. It may never
 * have reached the disk, and after a failed fsync the system would not try again, so the same bytes are
 * written once more and synced.
 * @throws UnusableLog
 */
export function recoverWal(file: string): void {
  const wal = `${file}-wal`;
  if (fileSize(wal) === 0) return;
  let fd: number | undefined;
  try {
    fd = openSync(wal, 'r+');
    const bytes = Buffer.alloc(1024 * 1024);
    for (let at = 0, read = -1; read !== 0; at += read) {
      read = readSync(fd, bytes, 0, bytes.length, at);
      writeSync(fd, bytes, 0, read, at);
    }
    fsyncSync(fd);
  } catch (error) {
    throw unusable(file, error);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** @throws Error if the header is not that of a log, or of a newer version */
export function assertIsLog(db: DatabaseSync): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== APPLICATION_ID) throw new Error('it is a SQLite file, but not a plant store log');
  if (version > VERSION) {
    throw new Error(
      `it has format version ${version}; this version of the plant store supports up to ${VERSION}`,
    );
  }
}

function create(db: DatabaseSync): void {
  db.exec('BEGIN EXCLUSIVE');
  db.exec(SCHEMA);
  db.prepare('INSERT INTO log VALUES (?)').run(crypto.randomUUID());
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`);
}

function unusable(file: string, error: unknown): UnusableLog {
  return new UnusableLog(`cannot use the log ${file}: ${(error as Error).message}`, { cause: error });
}

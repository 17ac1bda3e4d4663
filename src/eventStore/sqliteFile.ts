import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { fileSize, marksOf } from '../sqliteDatabase.ts';

/** 'PLog' in ASCII: marks a SQLite file as a log of ours. */
const APPLICATION_ID = 0x504c6f67;
const VERSION = 1;

/** The shape of the log on disk. It is for ever: add, never change. */
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

/** The file is no log, or one that this version cannot use. The message is for an operator. */
export class UnusableLog extends Error {
  override readonly name = 'UnusableLog';
}

/**
 * Opens the log for appending, and makes it where there is none.
 * Every commit is on disk before it returns: WAL with synchronous=FULL (https://sqlite.org/pragma.html#pragma_synchronous).
 * Checkpoints are the caller's business, since SQLite would swallow a failed fsync in one of its own.
 * @throws UnusableLog; a file that is not ours is left as it is
 */
export function openLogFile(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    if (fileSize(file) === 0 && fileSize(`${file}-wal`) > 0)
      throw new Error('its write-ahead log is there without it');
    db = new DatabaseSync(file, { timeout: 5_000 });
    // This first look also undoes a creation that was cut short. A log is made whole before it gets a write-ahead log,
    // so that a file with something in it always has its tables.
    const isEmpty = db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (isEmpty && fileSize(file) === 0) create(db);
    mustBeLog(db);
    db.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA recursive_triggers = ON; -- without it INSERT OR REPLACE slips past the DELETE trigger
    `);
    return db;
  } catch (error) {
    db?.close();
    throw new UnusableLog(`the log ${file} cannot be used: ${(error as Error).message}`);
  }
}

/**
 * Puts on the disk what a crash has left in the write-ahead log, before SQLite takes it for committed. It may never have
 * got there, and after a failed fsync the system would not try again by itself: the same bytes are written once more.
 * @throws UnusableLog
 */
export function settleLogFile(file: string): void {
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
    throw new UnusableLog(`the log ${file} cannot be used: ${(error as Error).message}`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** @throws Error, to be read after the name of the file */
export function mustBeLog(db: DatabaseSync): void {
  const { application, version } = marksOf(db);
  if (application !== APPLICATION_ID) throw new Error('it is a SQLite file, but not a plant store log');
  if (version > VERSION) {
    throw new Error(
      `it was made by a newer version of the plant store (format ${version}, known ${VERSION})`,
    );
  }
}

function create(db: DatabaseSync): void {
  db.exec('BEGIN EXCLUSIVE');
  db.exec(SCHEMA);
  db.prepare('INSERT INTO log VALUES (?)').run(randomUUID());
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`);
}

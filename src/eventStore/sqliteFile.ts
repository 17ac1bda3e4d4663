import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

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

/** SQLite's extended result code (https://sqlite.org/rescode.html), or undefined for any other error. */
export function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : undefined;
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
    const isNew = sizeOf(file) === 0;
    if (isNew && sizeOf(`${file}-wal`) > 0) throw new Error('its write-ahead log is there without it');
    db = new DatabaseSync(file, { timeout: 5_000 });
    // Made before the write-ahead log, so that the file is never without its tables.
    if (isNew) create(db);
    check(db);
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
 * Moves what a crash has left in the write-ahead log into the database. It is committed, but perhaps never reached the
 * disk; nothing may be built on it, or acknowledged again, before it has.
 * @throws UnusableLog
 */
export function settleLogFile(db: DatabaseSync): void {
  try {
    const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    if (busy !== 0) throw new Error('another process is reading it');
  } catch (error) {
    const file = db.location();
    db.close();
    throw new UnusableLog(`the log ${file} cannot be used: ${(error as Error).message}`);
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function check(db: DatabaseSync): void {
  const { application_id: application } = db.prepare('PRAGMA application_id').get() as {
    application_id: number;
  };
  if (application !== APPLICATION_ID) throw new Error('it is a SQLite file, but not a plant store log');
  const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number };
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

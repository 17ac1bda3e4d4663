import { closeSync, existsSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { assertWritable, fileSize, fsyncPath, isDamage, openReadOnly } from '@event-sourced/node/files';
import { readHeader } from '../disk/header.ts';
import { StoreUnavailable } from '../eventStore.ts';

/** 'PLog' in ASCII: the application ID in the header of a log file. */
const APPLICATION_ID = 0x504c6f67;
const VERSION = 1;
/** The version of a log with stubs: earlier programs, which would hash them like events, do not open it. */
export const HAS_STUBS = 4;
/** The versions of a log with stubs that hold leaf hashes: no entry can be computed from these. */
const HAS_FORMER_STUBS = [2, 3];

export const NEVER_UPDATED = `CREATE TRIGGER events_are_never_updated BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END`;

/** The schema of the log on disk. It is permanent: add to it, never change it. */
export const SCHEMA = `
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

  ${NEVER_UPDATED};
  CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
`;

/** The log file cannot be used. The message is for the operator. */
export class UnusableLog extends Error {
  override readonly name = 'UnusableLog';
}

/**
 * Opens the log for appending, and creates it if it does not exist. Every commit is durable before it returns: WAL with
 * synchronous=FULL (https://sqlite.org/pragma.html#pragma_synchronous). The caller runs WAL checkpoints: in an automatic
 * one, SQLite ignores a failed fsync. @throws Error; a file that is not a log is unchanged
 */
export function openLogFile(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    assertWritable(file);
    db = new DatabaseSync(file, { timeout: 5_000 });
    // The first read also rolls back an interrupted creation. A log gets its tables before WAL mode, so a file that is
    // not empty has its tables.
    const isEmpty = db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (isEmpty && fileSize(file) === 0) create(db);
    assertIsLog(db);
    db.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA secure_delete = ON;
      PRAGMA recursive_triggers = ON; -- without it INSERT OR REPLACE would bypass the DELETE trigger
      DELETE FROM log WHERE FALSE; -- fails if SQLite could open the file only for reading
    `);
    // SQLite ignores a failed fsync of the directory, without which a power cut could remove the files.
    fsyncPath(dirname(file));
    return db;
  } catch (error) {
    db?.close();
    throw error;
  }
}

/**
 * Call it before opening a log. If the log was not closed, makes its write-ahead log durable, and checks that it
 * belongs to this file and not to a later version of it. @throws Error
 */
export function recover(file: string): void {
  recoverWal(file);
  assertWalFits(file);
  using db = openReadOnly(file); // closing it runs no WAL checkpoint
  const { page_count: pages } = db.prepare('PRAGMA page_count').get() as { page_count: number };
  const pagesByWal = pagesInWalIndex(file);
  if (pages === pagesByWal || pagesByWal === 0) return;
  const cure = `restore a backup; if ${basename(file)} is one already, ${REMOVE_WAL(file)}`;
  throw new Error(`it has ${pages} pages, but ${pagesByWal} according to its write-ahead log; ${cure}`);
}

/**
 * Makes the write-ahead log of a crashed process durable, before SQLite treats it as committed. It may not be on disk,
 * and the system does not retry a failed fsync: so the same bytes are written again and synced.
 */
export function recoverWal(file: string): void {
  const fd = openSync(`${file}-wal`, 'r+');
  try {
    const bytes = Buffer.alloc(1024 * 1024);
    for (let at = 0, read = -1; read !== 0; at += read) {
      read = readSync(fd, bytes, 0, bytes.length, at);
      writeSync(fd, bytes, 0, read, at);
    }
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Whether the log has a write-ahead log: a clean stop moves it into the log and removes it. */
export const wasNotClosed = (file: string): boolean => fileSize(`${file}-wal`) > 0;

/**
 * The problems that a SQLite check finds in a database and its write-ahead log, at most `max` lines
 * (https://sqlite.org/pragma.html). @throws Error, also if the disk cannot read it
 */
export function findDamage(file: string, check: 'quick_check' | 'integrity_check', max: number): string[] {
  const found = findings(file, check, max);
  if (found.length > 0) assertReadable(file);
  return found;
}

function findings(file: string, check: string, max: number): string[] {
  try {
    using db = openReadOnly(file);
    const rows = db.prepare(`PRAGMA ${check}(${max})`).all() as Record<string, string>[];
    const texts = rows.map((row) => row[check] as string);
    return texts.filter((text) => text !== 'ok').map((text) => text.replaceAll(/\s*\n\s*/g, ' '));
  } catch (error) {
    if (isDamage(error)) return [(error as Error).message];
    throw error;
  }
}

/** An error of a database, or why the disk cannot read it: SQLite reports that as damage, too. See `assertReadable`. */
export function causeOf(error: unknown, file: string): Error {
  try {
    if (isDamage(error)) assertReadable(file);
    return error as Error;
  } catch (failure) {
    return failure as Error;
  }
}

/**
 * Reads a database and its write-ahead log. Not for a process that writes it: see `assertWalFits`.
 * @throws StoreUnavailable if the disk does not return all bytes
 */
export function assertReadable(file: string): void {
  const bytes = Buffer.alloc(1024 * 1024);
  for (const path of [file, `${file}-wal`].filter((path) => existsSync(path))) {
    const fd = openSync(path, 'r');
    try {
      while (readSync(fd, bytes) > 0);
    } catch (error) {
      throw new StoreUnavailable(`the disk cannot read ${path}: ${(error as Error).message}`, {
        cause: error,
      });
    } finally {
      closeSync(fd);
    }
  }
}

const REMOVE_WAL = (file: string): string => `remove ${basename(file)}-wal and ${basename(file)}-shm`;

/** Whether a database is in WAL mode, read from its header without opening it (https://sqlite.org/fileformat.html). */
export const isInWalMode = (file: string): boolean => readBytes(file, 18, 1)[0] === 2;

/**
 * A backup is not in WAL mode: a write-ahead log beside it belongs to another file, but SQLite would apply it. Call
 * this before the process opens the file: closing a second descriptor would release SQLite's locks
 * (https://sqlite.org/howtocorrupt.html, section 2.2). @throws Error
 */
export function assertWalFits(file: string): void {
  if (!wasNotClosed(file)) return;
  const name = basename(file);
  if (fileSize(file) === 0) throw new Error(`found ${name}-wal without ${name}`);
  if (!isInWalMode(file))
    throw new Error(`${name}-wal belongs to another ${name}; if this one is a backup, ${REMOVE_WAL(file)}`);
}

/** The size in pages after the last commit in the write-ahead log; 0 without one. */
function pagesInWalIndex(file: string): number {
  // https://sqlite.org/walformat.html, in the machine's byte order
  const [pages] = new Uint32Array(readBytes(`${file}-shm`, 20, 4).buffer);
  return pages as number;
}

function readBytes(file: string, at: number, length: number): Uint8Array<ArrayBuffer> {
  const fd = openSync(file, 'r');
  try {
    const bytes = new Uint8Array(length);
    readSync(fd, bytes, 0, length, at);
    return bytes;
  } finally {
    closeSync(fd);
  }
}

/** @throws Error if the file is not a log, or has a newer version */
export function assertIsLog(db: DatabaseSync): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== APPLICATION_ID) throw new Error('it is a SQLite file, but not an event log');
  if (HAS_FORMER_STUBS.includes(version))
    throw new Error('version 1 of this program has erased events in it, and only version 1 can read them');
  if (version > HAS_STUBS)
    throw new Error(`it has format version ${version}; this program supports up to ${HAS_STUBS}`);
}

function create(db: DatabaseSync): void {
  db.exec('BEGIN EXCLUSIVE');
  db.exec(SCHEMA);
  db.prepare('INSERT INTO log VALUES (?)').run(crypto.randomUUID());
  db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`);
}

import type { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { failedWith, SQLITE } from '../sqliteDatabase.ts';
import { openLogFile } from './sqliteFile.ts';

// The one writer of the embedded log, on a thread of its own, so that no request ever waits behind an fsync.

/** One append: id, stream, expected revision, type, data and metadata as JSON text. */
export type Append = [string, string, bigint, string, string, string];

export type Outcome =
  | { position: bigint; revision: bigint; repeated: boolean }
  | { wrongRevision: true }
  | { refused: string };

/** A transaction: appends that arrived together share it, and its one fsync. */
export type Commit = { appends: Append[]; recordedAt: string };

/** `lost`: nothing of the transaction is in the log. `untrusted`: no fsync after this one can be believed. */
export type Committed = { outcomes: Outcome[] } | { lost: string } | { untrusted: string };

/** Bytes written between checkpoints: pages that are hot are then copied back once, not once per commit. */
const CHECKPOINT_AFTER = 64 * 1024 * 1024;
const PAGE = 4096;

function appender(db: DatabaseSync) {
  const insert = db.prepare(
    'INSERT INTO events (stream, revision, id, type, data, metadata, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const last = db.prepare('SELECT max(revision) AS revision FROM events WHERE stream = ?');
  const at = db.prepare('SELECT id, position FROM events WHERE stream = ? AND revision = ?');
  for (const statement of [insert, last, at]) statement.setReadBigInts(true);
  let sinceCheckpoint = 0;

  function append([id, stream, expected, type, data, metadata]: Append, recordedAt: string): Outcome {
    const revision = expected + 1n;
    // For a first event the unique index is the whole check: no look-up.
    if (revision > 0n) {
      const found = last.get(stream) as { revision: bigint | null };
      if ((found.revision ?? -1n) < expected) return { wrongRevision: true };
    }
    try {
      const { lastInsertRowid } = insert.run(stream, revision, id, type, data, metadata, recordedAt);
      sinceCheckpoint += data.length + metadata.length + 2 * PAGE;
      return { position: BigInt(lastInsertRowid), revision, repeated: false };
    } catch (error) {
      if (!failedWith(error, SQLITE.CONSTRAINT)) throw error;
      const found = at.get(stream, revision) as { id: string; position: bigint } | undefined;
      if (!found) return { refused: (error as Error).message };
      return found.id === id
        ? { position: found.position, revision, repeated: true }
        : { wrongRevision: true };
    }
  }

  function commit({ appends, recordedAt }: Commit): Committed {
    try {
      db.exec('BEGIN IMMEDIATE');
      const outcomes = appends.map((one) => append(one, recordedAt));
      db.exec('COMMIT');
      return { outcomes };
    } catch (error) {
      const { message } = error as Error;
      if (isFailedFsync(error)) return { untrusted: message };
      if (db.isTransaction) db.exec('ROLLBACK'); // after a full disk SQLite has done so itself
      return { lost: message };
    }
  }

  /**
   * Moves the write-ahead log into the database. Where that fails it can be done later, and nothing is lost; only an
   * fsync that failed is worth a word.
   */
  function checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): string | undefined {
    try {
      db.exec(`PRAGMA wal_checkpoint(${mode})`);
      sinceCheckpoint = 0;
    } catch (error) {
      if (isFailedFsync(error)) return (error as Error).message;
    }
    return undefined;
  }

  const checkpointIfDue = () => (sinceCheckpoint < CHECKPOINT_AFTER ? undefined : checkpoint('PASSIVE'));

  return { commit, checkpoint, checkpointIfDue };
}

const isFailedFsync = (error: unknown): boolean =>
  failedWith(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC);

if (parentPort) {
  const port = parentPort;
  const db = openLogFile(workerData as string);
  db.exec('PRAGMA cache_size = -16384'); // KiB: the pages of the indexes that are written again and again
  const { commit, checkpoint, checkpointIfDue } = appender(db);
  port.on('message', (message: Commit | 'close') => {
    const closing = message === 'close';
    if (closing) db.exec('PRAGMA busy_timeout = 0'); // a reader may keep the rest for the next start
    if (!closing) port.postMessage(commit(message));
    const untrusted = closing ? checkpoint('TRUNCATE') : checkpointIfDue();
    if (untrusted) port.postMessage({ untrusted } satisfies Committed);
    if (closing) {
      db.close();
      port.close();
    }
  });
  port.postMessage('ready');
}

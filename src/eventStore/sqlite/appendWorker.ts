import type { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { hasSqliteCode, SQLITE } from '../../disk/sqlite.ts';
import { openLogFile } from './file.ts';
import {
  type AppendRequest,
  type AppendResult,
  type CommitReply,
  type CommitRequest,
  READY,
} from './protocol.ts';

// The only writer of the embedded log runs on its own thread, so that no request waits for an fsync.

/**
 * Bytes written to the write-ahead log between two checkpoints: a page that many commits write is copied back
 * once.
 */
const CHECKPOINT_BYTES = 64 * 1024 * 1024;
const PAGE_BYTES = 4096;

/** Appends to the log file, one transaction per commit. */
class LogWriter {
  readonly #db: DatabaseSync;
  readonly #insert;
  readonly #lastRevision;
  readonly #eventAt;
  #bytesSinceCheckpoint = 0;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#insert = db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#lastRevision = db.prepare('SELECT max(revision) AS revision FROM events WHERE stream = ?');
    this.#eventAt = db.prepare('SELECT id, position FROM events WHERE stream = ? AND revision = ?');
    for (const statement of [this.#insert, this.#lastRevision, this.#eventAt]) statement.setReadBigInts(true);
  }

  commit({ appends, recordedAt }: CommitRequest): CommitReply {
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const results = appends.map((append) => this.#append(append, recordedAt));
      this.#db.exec('COMMIT');
      return { results };
    } catch (error) {
      const { message } = error as Error;
      if (isFailedFsync(error)) return { fsyncFailed: message };
      // When the disk is full, SQLite has rolled back itself.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      return { rolledBack: message };
    }
  }

  #append([id, stream, expected, type, data, metadata]: AppendRequest, recordedAt: string): AppendResult {
    const revision = expected + 1n;
    // A stream's first event needs no look-up: the unique index on stream and revision is the whole check.
    if (revision > 0n) {
      const last = this.#lastRevision.get(stream) as { revision: bigint | null };
      if ((last.revision ?? -1n) < expected) return { wrongRevision: true };
    }
    try {
      const { lastInsertRowid } = this.#insert.run(stream, revision, id, type, data, metadata, recordedAt);
      this.#bytesSinceCheckpoint += data.length + metadata.length + 2 * PAGE_BYTES;
      return { position: BigInt(lastInsertRowid), revision, isDuplicate: false };
    } catch (error) {
      if (!hasSqliteCode(error, SQLITE.CONSTRAINT)) throw error;
      const existing = this.#eventAt.get(stream, revision) as { id: string; position: bigint } | undefined;
      if (!existing) return { rejected: (error as Error).message };
      return existing.id === id
        ? { position: existing.position, revision, isDuplicate: true }
        : { wrongRevision: true };
    }
  }

  /**
   * Checkpoints when enough has been written since the last one. Returns the message of an fsync that failed.
   */
  checkpointIfDue(): string | undefined {
    return this.#bytesSinceCheckpoint < CHECKPOINT_BYTES ? undefined : this.#checkpoint('PASSIVE');
  }

  /** Returns the message of an fsync that failed. */
  close(): string | undefined {
    this.#db.exec('PRAGMA busy_timeout = 0'); // what a reader keeps back is checkpointed at the next start
    const failed = this.#checkpoint('TRUNCATE');
    this.#db.close();
    return failed;
  }

  /**
   * Moves the write-ahead log into the database. Any failure but that of an fsync loses nothing, and is
   * retried later.
   */
  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): string | undefined {
    try {
      this.#db.exec(`PRAGMA wal_checkpoint(${mode})`);
      this.#bytesSinceCheckpoint = 0;
    } catch (error) {
      if (isFailedFsync(error)) return (error as Error).message;
    }
    return undefined;
  }
}

const isFailedFsync = (error: unknown): boolean =>
  hasSqliteCode(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC);

if (parentPort) {
  const port = parentPort;
  const db = openLogFile(workerData as string);
  db.exec('PRAGMA cache_size = -16384'); // KiB: the index pages that most commits write
  const writer = new LogWriter(db);
  port.on('message', (message: CommitRequest | 'close') => {
    const isClosing = message === 'close';
    if (!isClosing) port.postMessage(writer.commit(message));
    const fsyncFailed = isClosing ? writer.close() : writer.checkpointIfDue();
    if (fsyncFailed) port.postMessage({ fsyncFailed } satisfies CommitReply);
    if (isClosing) port.close();
  });
  port.postMessage(READY);
}

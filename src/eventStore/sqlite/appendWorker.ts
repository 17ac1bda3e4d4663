import type { DatabaseSync } from 'node:sqlite';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { fileIdentity } from '../../disk/fileIdentity.ts';
import { hasSqliteCode, isDamage, SQLITE } from '../../disk/sqlite.ts';
import { openLogFile } from './file.ts';
import {
  type AppendBatch,
  type AppendRequest,
  type AppendResult,
  type CommitReply,
  READY,
} from './protocol.ts';

// The only writer of the embedded log runs on its own thread, so that no request waits for an fsync.

/**
 * Bytes written to the write-ahead log between two checkpoints: a page that many commits write is copied back
 * once.
 */
const CHECKPOINT_BYTES = 64 * 1024 * 1024;
const PAGE_BYTES = 4096;
/** How often an idle writer checks that its files are still there, in milliseconds. */
const FILE_CHECK_INTERVAL_MS = 1_000;

/** Appends to the log file, one transaction per commit. */
class LogWriter {
  readonly #db: DatabaseSync;
  readonly #insert;
  readonly #lastRevision;
  readonly #eventAt;
  /** The files that are open, by path: what is written to them is lost once they are deleted or replaced. */
  readonly #files: Map<string, string | undefined>;
  #bytesSinceCheckpoint = 0;

  constructor(db: DatabaseSync, file: string) {
    this.#db = db;
    this.#files = new Map([file, `${file}-wal`, `${file}-shm`].map((path) => [path, fileIdentity(path)]));
    this.#insert = db.prepare(
      'INSERT INTO events (stream, revision, id, type, data, metadata, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#lastRevision = db.prepare('SELECT max(revision) AS revision FROM events WHERE stream = ?');
    this.#eventAt = db.prepare('SELECT id, position FROM events WHERE stream = ? AND revision = ?');
    for (const statement of [this.#insert, this.#lastRevision, this.#eventAt]) statement.setReadBigInts(true);
  }

  /** Commits all batches in one transaction. */
  commit(batches: AppendBatch[]): CommitReply[] {
    const count = batches.reduce((sum, { appends }) => sum + appends.length, 0);
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const results = this.#appendAll(batches);
      this.#db.exec('COMMIT');
      const replaced = this.checkFiles();
      return replaced.length > 0 ? replaced : [{ count, ...results }];
    } catch (error) {
      const ending = endingReplies(error);
      if (ending.some((reply) => 'fatal' in reply)) return ending;
      // When the disk is full, SQLite has rolled back itself.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      return [{ count, rolledBack: (error as Error).message }, ...ending];
    }
  }

  #appendAll(batches: AppendBatch[]): { first: bigint; others: Map<number, AppendResult> } {
    const others = new Map<number, AppendResult>();
    let first: bigint | undefined;
    let next = 0n;
    let index = 0;
    for (const { appends, recordedAt } of batches)
      for (const append of appends) {
        const result = this.#append(append, recordedAt);
        const isNew = 'position' in result && !result.isDuplicate;
        if (isNew && first === undefined) first = next = result.position;
        if (isNew && result.position === next) next++;
        else others.set(index, result);
        index++;
      }
    return { first: first ?? 0n, others };
  }

  /** Whether the open files are still those at their paths, as a reply if they are not. */
  checkFiles(): CommitReply[] {
    for (const [path, identity] of this.#files)
      if (isOther(path, identity))
        return [{ fatal: `${path} was deleted or replaced while the service was running` }];
    return [];
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

  /** Checkpoints when enough has been written since the last one. */
  checkpointIfDue(): CommitReply[] {
    return this.#bytesSinceCheckpoint < CHECKPOINT_BYTES ? [] : this.#checkpoint('PASSIVE');
  }

  close(): CommitReply[] {
    this.#db.exec('PRAGMA busy_timeout = 0'); // what a reader keeps back is checkpointed at the next start
    const failed = this.#checkpoint('TRUNCATE');
    this.#db.close();
    return failed;
  }

  /**
   * Moves the write-ahead log into the database. A failure without a reply loses nothing, and is retried
   * later.
   */
  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): CommitReply[] {
    const replaced = this.checkFiles();
    if (replaced.length > 0) return replaced;
    try {
      this.#db.exec(`PRAGMA wal_checkpoint(${mode})`);
      this.#bytesSinceCheckpoint = 0;
      return [];
    } catch (error) {
      return endingReplies(error);
    }
  }
}

/** The reply to an error after which nothing can be appended; none for others. */
function endingReplies(error: unknown): CommitReply[] {
  const { message } = error as Error;
  if (hasSqliteCode(error, SQLITE.IOERR_FSYNC, SQLITE.IOERR_DIR_FSYNC))
    return [{ fatal: `fsync failed; durability cannot be guaranteed: ${message}` }];
  return isDamage(error) ? [{ damaged: message }] : [];
}

function isOther(path: string, identity: string | undefined): boolean {
  try {
    return fileIdentity(path) !== identity;
  } catch {
    return false; // unknown, as in a directory without access
  }
}

type Message = AppendBatch | 'close';

/** The messages that have arrived meanwhile. */
function* waitingMessages(port: MessagePort): Generator<Message> {
  for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) yield next.message;
}

if (parentPort) {
  const port = parentPort;
  const file = workerData as string;
  const db = openLogFile(file);
  db.exec('PRAGMA cache_size = -16384'); // KiB: the index pages that most commits write
  const writer = new LogWriter(db, file);
  const post = (replies: CommitReply[]): void => {
    for (const reply of replies) port.postMessage(reply);
  };
  port.on('message', (message: Message) => {
    const messages = [message, ...waitingMessages(port)];
    const batches = messages.filter((it) => it !== 'close');
    if (batches.length > 0) post(writer.commit(batches));
    post(writer.checkpointIfDue());
    if (messages.length === batches.length) return;
    post(writer.close());
    port.close();
  });
  setInterval(() => post(writer.checkFiles()), FILE_CHECK_INTERVAL_MS).unref();
  port.postMessage(READY);
}

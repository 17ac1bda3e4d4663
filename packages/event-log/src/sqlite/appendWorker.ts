import type { DatabaseSync } from 'node:sqlite';
import { fileIdentity } from '../disk/fileIdentity.ts';
import { hasSqliteCode, SQLITE } from '../disk/sqlite.ts';
import { serve, threadData } from '../threads/thread.ts';
import { openLogFile } from './file.ts';
import {
  type AppendBatch,
  type AppendRequest,
  type AppendResult,
  type CommitReply,
  endingReplies,
  type WriterOperations,
} from './protocol.ts';

// The only writer of the embedded log runs on its own thread, so that no request waits for an fsync.

/** Of the write-ahead log between two checkpoints: a page that many commits write is copied back once. */
const CHECKPOINT_BYTES = 64 * 1024 * 1024;
const PAGE_BYTES = 4096;
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
  #isCheckpointRunning = false;
  /** Why nothing is written any more. */
  #ended: string | undefined;

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
    const rolledBack = (reason: string): CommitReply => ({
      count: batches.flatMap(({ appends }) => appends).length,
      rolledBack: reason,
    });
    if (this.#ended !== undefined) return [rolledBack(this.#ended)];
    const begun = performance.now();
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const results = batches.flatMap(({ appends, recordedAt }) =>
        appends.map((append) => this.#append(append, recordedAt)),
      );
      this.#db.exec('COMMIT');
      const seconds = (performance.now() - begun) / 1_000;
      const replaced = this.checkFiles();
      return replaced.length > 0 ? replaced : [{ results, seconds }];
    } catch (error) {
      const ending = endingReplies(error);
      if (ending.some((reply) => 'fatal' in reply)) return ending;
      // When the disk is full, SQLite has rolled back itself.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      return [rolledBack((error as Error).message), ...ending];
    }
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
      return BigInt(lastInsertRowid);
    } catch (error) {
      if (!hasSqliteCode(error, SQLITE.CONSTRAINT)) throw error;
      const existing = this.#eventAt.get(stream, revision) as { id: string; position: bigint } | undefined;
      if (!existing) return { rejected: (error as Error).message };
      return existing.id === id ? { repeated: existing.position } : { wrongRevision: true };
    }
  }

  /** Asks for a checkpoint by another thread, if one is due: then appends do not wait for it. */
  checkpointIfDue(): CommitReply[] {
    const isDue = this.#bytesSinceCheckpoint >= CHECKPOINT_BYTES && this.#ended === undefined;
    if (!isDue || this.#isCheckpointRunning) return [];
    this.#isCheckpointRunning = true;
    const [[file, identity]] = [...this.#files] as [[string, string | undefined]];
    return [{ checkpointDue: { file, identity } }];
  }

  /** To be called with a reply after which nothing may be written. */
  end(reason: string): void {
    this.#ended ??= reason;
  }

  /** TRUNCATE moves all of the write-ahead log, which begins again. A failure without a reply is retried later. */
  checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): CommitReply[] {
    this.#bytesSinceCheckpoint = 0;
    this.#isCheckpointRunning = false;
    const replaced = this.checkFiles();
    if (replaced.length > 0 || this.#ended !== undefined) return replaced;
    try {
      this.#db.exec(`PRAGMA wal_checkpoint(${mode})`);
      return [];
    } catch (error) {
      return endingReplies(error);
    }
  }

  close(): CommitReply[] {
    this.#db.exec('PRAGMA busy_timeout = 0'); // what a reader keeps back is checkpointed at the next start
    const failed = this.checkpoint('TRUNCATE');
    this.#db.close();
    return failed;
  }
}

function isOther(path: string, identity: string | undefined): boolean {
  try {
    return fileIdentity(path) !== identity;
  } catch {
    return false; // unknown, as in a directory without access
  }
}

const file = threadData<string>();
const db = openLogFile(file);
db.exec('PRAGMA cache_size = -16384'); // KiB: the index pages that most commits write
const writer = new LogWriter(db, file);
let waiting: AppendBatch[] = [];

const sendEvent = serve<WriterOperations, void, CommitReply>(
  {
    commit(batch) {
      // In one transaction with those that have arrived meanwhile.
      if (waiting.push(batch) === 1) setImmediate(commitWaiting);
    },
    checkpoint: () => send(writer.checkpoint('PASSIVE')),
    close() {
      commitWaiting();
      send(writer.close());
    },
  },
  undefined,
);
setInterval(() => send(writer.checkFiles()), FILE_CHECK_INTERVAL_MS).unref();

function commitWaiting(): void {
  if (waiting.length === 0) return;
  const batches = waiting;
  waiting = [];
  send(writer.commit(batches));
  send(writer.checkpointIfDue());
}

function send(replies: CommitReply[]): void {
  for (const reply of replies) {
    if ('fatal' in reply) writer.end(reply.fatal);
    if ('damaged' in reply) writer.end(reply.damaged);
    sendEvent(reply);
  }
}

import type { DatabaseSync } from 'node:sqlite';
import { fileIdentity, hasSqliteCode, SQLITE, truncateWal } from '@event-sourced/node/files';
import { serve, threadData } from '@event-sourced/node/threads';
import { readHeader } from '../disk/header.ts';
import { EVENT_ERASED } from '../erasure/erasure.ts';
import { openLogFile } from './file.ts';
import { keepFromEarlierPrograms, overwriteEvents, rewritePages, setScrubbed } from './overwrite.ts';
import {
  type AppendBatch,
  type AppendResult,
  type AppendRow,
  type CommitReply,
  type ErasureRows,
  endingReplies,
  type WriterOperations,
} from './protocol.ts';

// The only writer of the embedded log. It runs on its own thread, so an fsync does not block the event loop.

/** A WAL checkpoint is due at this size of the write-ahead log: it copies each page once, even if many commits wrote it. */
const WAL_CHECKPOINT_BYTES = 64 * 1024 * 1024;
const PAGE_BYTES = 4096;
/** A stub has a random ID, by which two indexes are sorted. */
const PAGES_PER_STUB = 3;
const FILE_CHECK_INTERVAL_MS = 1_000;

/** Appends to the log file, one transaction per commit. */
class LogWriter {
  readonly #db: DatabaseSync;
  readonly #insert;
  readonly #lastRevision;
  readonly #eventAt;
  /** The open files by path: after a file is deleted or replaced, writes to it are lost. */
  readonly #files: Map<string, string | undefined>;
  #bytesSinceWalCheckpoint = 0;
  #isWalCheckpointRunning = false;
  /** Whether the pages were rewritten after the last erasure. */
  #isRewritten = false;
  /** Why nothing may be written; undefined while the log is writable. */
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
    const begun = performance.now();
    return this.#transaction(rolledBack, () => {
      const results = batches.flatMap((batch) => this.#appendAll(batch));
      return () => ({ results, seconds: (performance.now() - begun) / 1_000 });
    });
  }

  /** Overwrites events with stubs and appends the records, in one transaction. */
  erase({ stubs, ...records }: ErasureRows): CommitReply[] {
    return this.#transaction(
      (notErased) => ({ notErased }),
      () => {
        const appended = this.#appendAll(records);
        const positions = appended.filter((result) => typeof result === 'bigint');
        if (positions.length < appended.length) throw new Error('a record of the erasure was not appended');
        overwriteEvents(this.#db, stubs);
        this.#bytesSinceWalCheckpoint += stubs.length * PAGES_PER_STUB * PAGE_BYTES;
        this.#isRewritten = false;
        return () => ({ erased: positions });
      },
    );
  }

  /** A step of the scrub; false if another step must follow. The first one may take seconds per million events. */
  scrub(): boolean {
    if (!readHeader(this.#db).isUnscrubbed) return true;
    if (this.#ended !== undefined) throw new Error(this.#ended);
    if (!this.#isRewritten) {
      rewritePages(this.#db);
      this.#isRewritten = true;
      return false;
    }
    if (!truncateWal(this.#db)) return false;
    setScrubbed(this.#db);
    return true;
  }

  /** Commits what `run` writes. The reply, which `run` returns, is created after the commit. */
  #transaction(rolledBack: (reason: string) => CommitReply, run: () => () => CommitReply): CommitReply[] {
    if (this.#ended !== undefined) return [rolledBack(this.#ended)];
    try {
      this.#db.exec('BEGIN IMMEDIATE');
      const reply = run();
      this.#db.exec('COMMIT');
      const committed = reply();
      const replaced = this.checkFiles();
      return replaced.length > 0 ? replaced : [committed];
    } catch (error) {
      const ending = endingReplies(error);
      if (ending.some((reply) => 'fatal' in reply)) return ending;
      // On a full disk, SQLite has already rolled back.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      return [rolledBack((error as Error).message), ...ending];
    }
  }

  #appendAll({ appends, recordedAt }: AppendBatch): AppendResult[] {
    return appends.map((append) => this.#append(append, recordedAt));
  }

  /** Checks that the open files are still at their paths; if not, returns a reply. */
  checkFiles(): CommitReply[] {
    for (const [path, identity] of this.#files)
      if (isOther(path, identity))
        return [{ fatal: `${path} was deleted or replaced while the service was running` }];
    return [];
  }

  #append([id, stream, expected, type, data, metadata]: AppendRow, recordedAt: string): AppendResult {
    const revision = expected + 1n;
    // A stream's first event needs no look-up: the unique index on stream and revision enforces the check.
    if (revision > 0n) {
      const last = this.#lastRevision.get(stream) as { revision: bigint | null };
      if ((last.revision ?? -1n) < expected) return { wrongRevision: true };
    }
    try {
      const { lastInsertRowid } = this.#insert.run(stream, revision, id, type, data, metadata, recordedAt);
      if (type === EVENT_ERASED) keepFromEarlierPrograms(this.#db);
      this.#bytesSinceWalCheckpoint += data.length + metadata.length + 2 * PAGE_BYTES;
      return BigInt(lastInsertRowid);
    } catch (error) {
      if (!hasSqliteCode(error, SQLITE.CONSTRAINT)) throw error;
      const existing = this.#eventAt.get(stream, revision) as { id: string; position: bigint } | undefined;
      if (!existing) return { rejected: (error as Error).message };
      return existing.id === id ? { repeated: existing.position } : { wrongRevision: true };
    }
  }

  /** Requests a WAL checkpoint if one is due. Another thread runs it, so appends do not wait. */
  walCheckpointIfDue(): CommitReply[] {
    const isDue = this.#bytesSinceWalCheckpoint >= WAL_CHECKPOINT_BYTES && this.#ended === undefined;
    if (!isDue || this.#isWalCheckpointRunning) return [];
    this.#isWalCheckpointRunning = true;
    const [[file, identity]] = [...this.#files] as [[string, string | undefined]];
    return [{ walCheckpointDue: { file, identity } }];
  }

  /** Call it with the reason after which nothing may be written. */
  end(reason: string): void {
    this.#ended ??= reason;
  }

  /** TRUNCATE moves the whole write-ahead log and restarts it. A failure without a reply is retried later. */
  walCheckpoint(mode: 'PASSIVE' | 'TRUNCATE'): CommitReply[] {
    this.#bytesSinceWalCheckpoint = 0;
    this.#isWalCheckpointRunning = false;
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
    this.#db.exec('PRAGMA busy_timeout = 0'); // if a reader blocks the WAL checkpoint, the next start runs it
    const failed = this.walCheckpoint('TRUNCATE');
    this.#db.close();
    return failed;
  }
}

function isOther(path: string, identity: string | undefined): boolean {
  try {
    return fileIdentity(path) !== identity;
  } catch {
    return false; // unknown, for example in a directory without access
  }
}

const file = threadData<string>();
const db = openLogFile(file);
db.exec('PRAGMA cache_size = -16384'); // KiB: the index pages that most commits write
const writer = new LogWriter(db, file);
let waiting: AppendBatch[] = [];

const sendEvent = serve<WriterOperations, void, CommitReply>({
  commit(batch) {
    // Batches that arrive in the same turn share a transaction.
    if (waiting.push(batch) === 1) setImmediate(commitWaiting);
  },
  erase(erasure) {
    commitWaiting(); // replies are in the order of the requests
    send(writer.erase(erasure));
    send(writer.walCheckpointIfDue());
  },
  scrub() {
    try {
      return writer.scrub();
    } catch (error) {
      send(endingReplies(error));
      throw error;
    }
  },
  walCheckpoint: () => send(writer.walCheckpoint('PASSIVE')),
  close() {
    commitWaiting();
    send(writer.close());
  },
});
setInterval(() => send(writer.checkFiles()), FILE_CHECK_INTERVAL_MS).unref();

function commitWaiting(): void {
  if (waiting.length === 0) return;
  const batches = waiting;
  waiting = [];
  send(writer.commit(batches));
  send(writer.walCheckpointIfDue());
}

function send(replies: CommitReply[]): void {
  for (const reply of replies) {
    if ('fatal' in reply) writer.end(reply.fatal);
    if ('damaged' in reply) writer.end(reply.damaged);
    sendEvent(reply);
  }
}

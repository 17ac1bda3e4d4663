import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { isThreadOf, serve, Thread } from '../threads/thread.ts';
import { fileIdentity } from './fileIdentity.ts';

// Checkpoints take tens of milliseconds and an fsync. One thread runs those of all SQLite files of a process, beside
// their writers: this file is both sides.

/** A SQLite file, and its identity when its writer opened it. */
export type OpenFile = Readonly<{ file: string; identity: string | undefined }>;

/** An error of SQLite, as it crosses threads: a structured clone of an error would lose its code. */
export type SqliteFailure = Readonly<{ errcode: number | undefined; message: string }>;

type Operations = { checkpoint: (file: OpenFile) => SqliteFailure | undefined };

/** In each round there is only what was written during the one before. */
const ROUNDS = 3;

/** Moves write-ahead logs into their databases. The thread starts with the first checkpoint. */
export class CheckpointThread {
  #thread: Thread<Operations> | undefined;

  /**
   * Moves what a writer has committed, except what readers of earlier snapshots still need. Only the writer can let its
   * write-ahead log restart then: by a small passive checkpoint of its own, between two transactions.
   * Resolves with the error, if any; without a thread, as with too few file descriptors, nothing is moved.
   */
  async checkpoint(file: OpenFile): Promise<SqliteFailure | undefined> {
    this.#thread ??= new Thread(new URL(import.meta.url));
    try {
      return await this.#thread.call('checkpoint', file);
    } catch (error) {
      this.#thread = undefined;
      return { errcode: undefined, message: (error as Error).message };
    }
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    await this.#thread?.close().catch(() => {});
  }
}

/** Opens the writer's file: another one at its path would take over the write-ahead log, or remove it. */
function open({ file, identity }: OpenFile): DatabaseSync {
  if (fileIdentity(file) !== identity) throw new Error(`${file} was deleted or replaced`);
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw'); // https://sqlite.org/uri.html: it is not created
  const db = new DatabaseSync(url, { timeout: 5_000 });
  db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0');
  return db;
}

/** Opens the file for this checkpoint only, so that its writer is the last to close it. */
function checkpoint(file: OpenFile): SqliteFailure | undefined {
  try {
    using db = open(file);
    for (let i = 0; i < ROUNDS; i++) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
    return undefined;
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number };
    return { errcode, message };
  }
}

if (isThreadOf(import.meta.url)) serve<Operations>({ checkpoint }, undefined);

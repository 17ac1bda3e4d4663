import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fileIdentity, truncateWal } from '@event-sourced/node/files';
import { isThreadFor, serve, Thread } from '@event-sourced/node/threads';

// A WAL checkpoint takes tens of milliseconds and an fsync. One thread runs the WAL checkpoints of all SQLite files of a
// process, beside their writers. This file has the code of both threads.

/** A SQLite file, and its identity when its writer opened it. */
export type OpenFile = Readonly<{ file: string; identity: string | undefined }>;

/** A SQLite error in a form that crosses threads: a structured clone of an error loses its code. */
type SqliteFailure = Readonly<{ errcode: number | undefined; message: string }>;

/** A file to scrub; `isRewritten`: its pages have no deleted rows, or were rewritten since. */
type ScrubbedFile = OpenFile & { isRewritten: boolean };

type Operations = {
  walCheckpoint: (file: OpenFile) => SqliteFailure | undefined;
  scrub: (file: ScrubbedFile) => boolean | SqliteFailure;
};

/** Each round moves what was written during the previous round. */
const ROUNDS = 3;

/** Moves write-ahead logs into their databases. The thread starts with the first WAL checkpoint. */
export class WalThread {
  #thread: Thread<Operations> | undefined;

  /**
   * Moves what a writer has committed, except what readers of earlier snapshots still need. Then only the writer can
   * restart its write-ahead log, by a small passive WAL checkpoint between two transactions. Resolves with the error, if
   * any; if no thread can start, for example without file descriptors, nothing is moved.
   */
  async walCheckpoint(file: OpenFile): Promise<SqliteFailure | undefined> {
    return this.#run((thread) => thread.call('walCheckpoint', file));
  }

  /**
   * Removes the bytes of deleted rows from a file and its write-ahead log; resolves with false if a reader still needs the
   * old pages. Its writer must not write meanwhile. @throws Error
   */
  async scrub(file: ScrubbedFile): Promise<boolean> {
    const result = await this.#run((thread) => thread.call('scrub', file));
    if (typeof result === 'object') throw new Error(result.message);
    return result;
  }

  async #run<T>(call: (thread: Thread<Operations>) => Promise<T>): Promise<T | SqliteFailure> {
    this.#thread ??= new Thread(new URL(import.meta.url));
    try {
      return await call(this.#thread);
    } catch (error) {
      this.#thread = undefined;
      return { errcode: undefined, message: (error as Error).message };
    }
  }

  /** Waits for a running WAL checkpoint. */
  async close(): Promise<void> {
    await this.#thread?.close().catch(() => {});
  }
}

/** Opens the writer's file. A different file at its path would take over the write-ahead log, or remove it. */
function open({ file, identity }: OpenFile): DatabaseSync {
  if (fileIdentity(file) !== identity) throw new Error(`${file} was deleted or replaced`);
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw'); // https://sqlite.org/uri.html: never creates the file
  const db = new DatabaseSync(url, { timeout: 5_000 });
  db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0');
  return db;
}

/** Opens the file for this WAL checkpoint only: its writer must be the last to close it. */
function walCheckpoint(file: OpenFile): SqliteFailure | undefined {
  return withFile(file, (db) => {
    for (let i = 0; i < ROUNDS; i++) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
    return undefined;
  });
}

function withFile<T>(file: OpenFile, use: (db: DatabaseSync) => T): T | SqliteFailure {
  try {
    using db = open(file);
    return use(db);
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number };
    return { errcode, message };
  }
}

const scrub = ({ isRewritten, ...file }: ScrubbedFile): boolean | SqliteFailure =>
  withFile(file, (db) => scrubFile(db, isRewritten));

/** VACUUM, since splitting a page leaves copies of its rows. False if a reader still needs the old pages. */
export function scrubFile(db: DatabaseSync, isRewritten: boolean): boolean {
  db.exec('PRAGMA secure_delete = ON');
  if (!isRewritten) db.exec('VACUUM');
  return truncateWal(db);
}

if (isThreadFor(import.meta.url)) serve<Operations>({ walCheckpoint, scrub });

import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fileIdentity } from '../disk/fileIdentity.ts';
import { isThreadOf, serve, Thread, threadData } from '../threads/thread.ts';
import { type CommitReply, endingReplies } from './protocol.ts';

// Moves the write-ahead log into the database beside the writer, on a thread of its own, so that no append waits:
// this file is both sides.

/** In each round there is only what was written during the one before. */
const ROUNDS = 3;

/** The log file, and its identity when the writer opened it. */
type OpenLog = { file: string; identity: string | undefined };

type Operations = { checkpoint: () => CommitReply[] };

/** Runs checkpoints on a thread of its own, which starts with the first one. */
export class WalCheckpointer {
  isRunning = false;
  readonly #log: OpenLog;
  readonly #onDone: (failures: CommitReply[]) => void;
  #thread: Thread<Operations> | undefined;

  /** `onDone` gets the failures after which nothing can be appended; others lose nothing. */
  constructor(log: OpenLog, onDone: (failures: CommitReply[]) => void) {
    this.#log = log;
    this.#onDone = onDone;
  }

  async run(): Promise<void> {
    this.isRunning = true;
    this.#thread ??= new Thread(new URL(import.meta.url), { data: this.#log });
    const failures = await this.#thread.call('checkpoint', undefined).catch((): CommitReply[] => {
      this.#thread = undefined;
      return []; // without a thread, as with too few file descriptors, the writer does all of it
    });
    this.isRunning = false;
    this.#onDone(failures);
  }

  /** Waits for a running checkpoint. */
  async close(): Promise<void> {
    await this.#thread?.close().catch(() => {});
  }
}

/** Opens the writer's file: another one at its path would take over the write-ahead log, or remove it. */
function open({ file, identity }: OpenLog): DatabaseSync {
  if (fileIdentity(file) !== identity) throw new Error(`${file} was deleted or replaced`);
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw'); // https://sqlite.org/uri.html: it is not created
  const db = new DatabaseSync(url, { timeout: 5_000 });
  db.exec('PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0');
  return db;
}

function checkpoint(db: DatabaseSync): CommitReply[] {
  try {
    for (let i = 0; i < ROUNDS; i++) db.exec('PRAGMA wal_checkpoint(PASSIVE)');
    return [];
  } catch (error) {
    return endingReplies(error);
  }
}

if (isThreadOf(import.meta.url)) {
  const db = open(threadData());
  serve<Operations>({ checkpoint: () => checkpoint(db), close: () => db.close() }, undefined);
}

import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { fsyncPath } from '../src/disk/fsyncPath.ts';
import {
  assertWritable,
  fileSize,
  isDamage as isDamagedFile,
  openReadOnly,
  readHeader,
} from '../src/disk/sqlite.ts';
import { START } from '../src/eventStore/eventStore.ts';
import type { Checkpoint } from './view.ts';

// The SQLite file of a view: what every view needs, whatever its tables are.

/** What distinguishes the file of one view from others, and how to create and empty it. */
export type ViewFormat = {
  /** The application ID in the file's header. */
  applicationId: number;
  /** A file of another version is replaced, and the view rebuilt. */
  version: number;
  /** Creates the view's tables. */
  schema: string;
  /** Empties them. */
  empty: string;
};

const CHECKPOINT_SCHEMA = `
  CREATE TABLE checkpoint (log_id TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
  INSERT INTO checkpoint VALUES ('', 0, '');
`;
const READ_CHECKPOINT = 'SELECT log_id AS logId, position, event_id AS eventId FROM checkpoint';
const NO_CHECKPOINT: Checkpoint = { logId: '', position: START, eventId: '' };

/** The view's file was damaged and has been replaced by an empty one: the view has to be rebuilt. */
export class ViewDamaged extends Error {
  override readonly name = 'ViewDamaged';
}

/** The file is not one of this view, or of another version. */
class WrongFormat extends Error {}

/** The open file of a view with its prepared statements, for its only writer. */
export class ViewFile<S extends Record<string, StatementSync>> {
  /** Why the file was replaced by an empty one; undefined if it was not. */
  replaced: string | undefined;
  /** Called when the file turns out to be damaged; it has been removed. */
  onDamage = () => {};
  readonly #file: string;
  readonly #format: ViewFormat;
  readonly #prepare: (db: DatabaseSync) => S;
  #open: Opened<S>;
  #checkpoint: Checkpoint;

  /**
   * Opens the file. One that does not exist, is damaged, or is of another version, is replaced by an empty
   * one.
   */
  constructor(file: string, format: ViewFormat, prepare: (db: DatabaseSync) => S) {
    this.#file = file;
    this.#format = format;
    this.#prepare = prepare;
    try {
      this.#open = openForWriting(file, format, prepare);
    } catch (error) {
      if (!isDamage(error))
        throw new Error(`cannot use the view ${file}: ${(error as Error).message}`, { cause: error });
      this.replaced = (error as Error).message;
      removeViewFile(file);
      this.#open = openForWriting(file, format, prepare);
    }
    this.#checkpoint = this.#open.readCheckpoint.get() as Checkpoint;
  }

  /** The saved checkpoint. */
  get checkpoint(): Checkpoint {
    return this.#checkpoint;
  }

  /** Reads from the file. @throws ViewDamaged */
  read<T>(query: (statements: S) => T): T {
    return this.#run(({ statements }) => query(statements));
  }

  /** Writes to the file and moves the checkpoint, in one transaction. @throws ViewDamaged */
  save(checkpoint: Checkpoint, write: (statements: S) => void): void {
    this.#transaction(({ statements, moveCheckpoint }) => {
      write(statements);
      moveCheckpoint.run(checkpoint.logId, checkpoint.position, checkpoint.eventId);
    });
    this.#checkpoint = checkpoint;
  }

  /** Empties the view; from now on it belongs to the log with this ID. @throws ViewDamaged */
  reset(logId: string): void {
    const checkpoint = { ...NO_CHECKPOINT, logId };
    this.#transaction(({ db, moveCheckpoint }) => {
      db.exec(this.#format.empty);
      moveCheckpoint.run(logId, START, '');
    });
    this.#checkpoint = checkpoint;
  }

  close(): void {
    if (this.#open.db.isOpen) this.#open.db.close();
  }

  #transaction(write: (open: Opened<S>) => void): void {
    this.#run((open) => {
      open.db.exec('BEGIN IMMEDIATE');
      try {
        write(open);
        open.db.exec('COMMIT');
      } catch (error) {
        if (open.db.isTransaction) open.db.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #run<T>(use: (open: Opened<S>) => T): T {
    if (!this.#open.db.isOpen) this.#open = openForWriting(this.#file, this.#format, this.#prepare);
    try {
      return use(this.#open);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.replaced = (error as Error).message;
      this.#open.db.close();
      removeViewFile(this.#file);
      this.#checkpoint = NO_CHECKPOINT;
      this.onDamage();
      throw new ViewDamaged(`the view ${this.#file} was damaged and is being rebuilt`, { cause: error });
    }
  }
}

type Opened<S> = {
  db: DatabaseSync;
  statements: S;
  readCheckpoint: StatementSync;
  moveCheckpoint: StatementSync;
};

function openForWriting<S extends Record<string, StatementSync>>(
  file: string,
  format: ViewFormat,
  prepare: (db: DatabaseSync) => S,
): Opened<S> {
  assertWritable(file);
  const db = new DatabaseSync(file, { timeout: 1_000 });
  try {
    db.exec(
      'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000',
    );
    if (db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) create(db, format);
    assertIsView(db, format);
    const statements = prepare(db);
    const readCheckpoint = db.prepare(READ_CHECKPOINT);
    const moveCheckpoint = db.prepare('UPDATE checkpoint SET log_id = ?, position = ?, event_id = ?');
    for (const statement of [...Object.values(statements), readCheckpoint]) statement.setReadBigInts(true);
    // From here on a lock is retried by the follower: this thread serves requests.
    db.exec('PRAGMA busy_timeout = 0');
    return { db, statements, readCheckpoint, moveCheckpoint };
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * Opens the file of a view for reading only, also beside the server that writes it. The caller closes `db`.
 */
export function openViewReader<S extends Record<string, StatementSync>>(
  file: string,
  format: ViewFormat,
  prepare: (db: DatabaseSync) => S,
): { db: DatabaseSync; statements: S; checkpoint: () => Checkpoint } {
  const db = openReadOnly(file);
  try {
    db.exec('PRAGMA cache_size = -65536'); // KiB: rows are looked up in log order, and stored in another
    assertIsView(db, format);
    const statements = prepare(db);
    const readCheckpoint = db.prepare(READ_CHECKPOINT);
    for (const statement of [...Object.values(statements), readCheckpoint]) statement.setReadBigInts(true);
    return { db, statements, checkpoint: () => readCheckpoint.get() as Checkpoint };
  } catch (error) {
    db.close();
    throw error;
  }
}

function create(db: DatabaseSync, { applicationId, version, schema }: ViewFormat): void {
  db.exec(
    `BEGIN; ${schema} ${CHECKPOINT_SCHEMA} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`,
  );
}

function assertIsView(db: DatabaseSync, format: ViewFormat): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== format.applicationId) throw new WrongFormat('the file is not this view');
  if (version !== format.version) throw new WrongFormat(`it has version ${version}, not ${format.version}`);
  const { count } = db.prepare('SELECT count(*) AS count FROM checkpoint').get() as { count: number };
  if (count !== 1) throw new WrongFormat(`it has ${count} checkpoints`);
}

/** Whether a new file is the remedy. For a failing disk or a lock it is not. */
function isDamage(error: unknown): boolean {
  return error instanceof WrongFormat || isDamagedFile(error);
}

/**
 * Replaces a view's file by a closed draft. At every moment there is one complete view, or none if the old
 * one was incomplete. The old file's write-ahead log is removed first, or SQLite would apply it to the new
 * one.
 */
export function replaceViewFile(file: string, draft: string): void {
  if (!isComplete(draft)) throw new Error('the new view could not be written completely');
  if (existsSync(file) && !isComplete(file)) removeViewFile(file);
  for (const part of [`${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
  fsyncPath(dirname(file)); // else a power cut could bring them back beside the new file
  renameSync(draft, file);
}

/** Whether a view's file is complete without its write-ahead log, once SQLite has checkpointed it. */
function isComplete(file: string): boolean {
  try {
    using db = new DatabaseSync(file, { timeout: 1_000 });
    db.prepare('SELECT count(*) FROM sqlite_schema').get(); // closing the last connection checkpoints
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
  return fileSize(`${file}-wal`) === 0;
}

/** Removes a view's file with its write-ahead log. */
export function removeViewFile(file: string): void {
  for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
}

import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { CheckpointThread } from '../disk/checkpointThread.ts';
import { fileIdentity } from '../disk/fileIdentity.ts';
import {
  assertWritable,
  DamagedFile,
  fileSize,
  hasSqliteCode,
  isDamage as isDamagedDatabase,
  openReadOnly,
  readHeader,
  SQLITE,
} from '../disk/sqlite.ts';
import { type Position, START } from '../eventStore.ts';
import { prepareArrays } from './table.ts';

/** A view's progress: the position and ID of the last event in the log with this ID. */
export type ViewCheckpoint = Readonly<{ logId: string; position: Position; eventId: string }>;

/** The checkpoint of an empty view that belongs to no log. */
export const NO_CHECKPOINT: ViewCheckpoint = { logId: '', position: START, eventId: '' };

/** The identification of a view's file, and its tables. */
export type ViewFormat = Readonly<{
  applicationId: number;
  version: number;
  cacheKiB: number;
  schema: string;
}>;

/** Whether replacing the file fixes an error; it does not fix a failing disk or a lock. */
export const isDamage = (error: unknown): boolean =>
  error instanceof DamagedFile || isDamagedDatabase(error) || hasSqliteCode(error, SQLITE.IOERR_SHORT_READ);

/** Like `isDamage`, for a file that is being opened for writing: SQLite reports a missing table as a SQL error. */
export const isOtherFile = (error: unknown): boolean =>
  isDamage(error) || hasSqliteCode(error, SQLITE.ERROR, SQLITE.READONLY);

/** Moves write-ahead logs beside requests. Without a checkpointer, a commit moves them. */
export type Checkpointer = Pick<CheckpointThread, 'checkpoint'>;

const CHECKPOINT_SCHEMA = `
  CREATE TABLE checkpoint (log_id TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
  INSERT INTO checkpoint VALUES ('', 0, '');
`;
const OPEN_TIMEOUT_MS = 1_000;
/** A write-ahead log that is longer is moved; it is truncated to this size when it restarts. */
const MAX_WAL_BYTES = 32 * 1024 * 1024;
const MIN_WAL_BYTES = 1024 * 1024;

/** The SQLite file of a view: one connection, which reads and writes, and one open transaction. */
export class ViewFile {
  /** The checkpoint of the last commit. */
  checkpoint = NO_CHECKPOINT;
  /** Why the file was replaced; undefined if it was not. */
  replaced: string | undefined;
  readonly #path: string;
  readonly #format: ViewFormat;
  readonly #checkpointer: Checkpointer | undefined;
  #db: DatabaseSync | undefined;
  #moveCheckpoint!: StatementSync;
  /** Device, inode, size and modification time. Only moving the write-ahead log may change them. */
  #state = '';
  /** True while the write-ahead log is being moved, up to the last step. */
  #isMoving = false;
  #isMoved = false;
  /** While this is pending, nothing may be written: the rest of the write-ahead log is moved, so that it restarts. */
  pause: Promise<void> | undefined;

  constructor(path: string, format: ViewFormat, checkpointer?: Checkpointer) {
    this.#path = path;
    this.#format = format;
    this.#checkpointer = checkpointer;
    try {
      this.#open();
    } catch (error) {
      const { message } = error as Error;
      if (!isOtherFile(error)) throw new Error(`cannot use the view ${path}: ${message}`, { cause: error });
      this.replace(message);
    }
  }

  get isOpen(): boolean {
    return this.#db !== undefined;
  }

  get db(): DatabaseSync {
    if (!this.#db) throw new Error(`the view ${this.#path} is closed`);
    return this.#db;
  }

  begin(): void {
    if (!this.db.isTransaction) this.db.exec('BEGIN IMMEDIATE');
  }

  commit(checkpoint: ViewCheckpoint): void {
    this.#moveCheckpoint.run(checkpoint.logId, checkpoint.position, checkpoint.eventId);
    this.db.exec('COMMIT');
    this.checkpoint = checkpoint;
    this.#moveWal();
  }

  rollback(): void {
    if (this.db.isTransaction) this.db.exec('ROLLBACK');
  }

  /** @throws DamagedFile if another program has changed, removed or replaced the file */
  assertSame(): void {
    if (this.#db && !this.#isMoving && fileState(this.#path) !== this.#state)
      throw new DamagedFile('its file was changed, removed or replaced by another program');
  }

  /** Starts an empty file. The old one is removed or, with `keepAs`, renamed. */
  replace(reason: string, keepAs?: string): void {
    if (reason !== '') this.replaced = reason;
    this.checkpoint = NO_CHECKPOINT;
    const old = this.#db;
    this.#db = undefined;
    if (keepAs !== undefined) {
      old?.close(); // this moves its write-ahead log
      if (existsSync(this.#path)) renameSync(this.#path, keepAs);
    }
    try {
      removeViewFile(this.#path);
    } finally {
      if (old?.isOpen) old.close(); // closed after removal: its write-ahead log is not moved
    }
    this.#open();
  }

  close(): void {
    this.#db?.close();
    this.#db = undefined;
  }

  #open(): void {
    using opening = new DisposableStack();
    assertWritable(this.#path);
    const { cacheKiB } = this.#format;
    const db = opening.use(new DatabaseSync(this.#path, { timeout: OPEN_TIMEOUT_MS }));
    db.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -${cacheKiB}; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = ${MIN_WAL_BYTES}`,
    );
    if (db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) create(db, this.#format);
    assertIsView(db, this.#format);
    this.checkpoint = readCheckpoint(db);
    db.exec('BEGIN IMMEDIATE; UPDATE checkpoint SET position = position; ROLLBACK'); // its header may make it read-only
    this.#moveCheckpoint = db.prepare('UPDATE checkpoint SET log_id = ?, position = ?, event_id = ?');
    // From now on there must be no other writer: no request waits for one.
    db.exec('PRAGMA busy_timeout = 0');
    this.#state = fileState(this.#path);
    this.#isMoving = false;
    this.#isMoved = false;
    this.pause = undefined;
    this.#db = opening.move() && db;
  }

  /**
   * Called between two transactions. A thread moves a long write-ahead log beside further commits, and then, in a
   * pause, moves what they have added: SQLite only restarts a log that is moved completely.
   */
  #moveWal(): void {
    const isLong = this.#isMoved || fileSize(`${this.#path}-wal`) > MAX_WAL_BYTES;
    if (!isLong || this.#isMoving) return;
    if (!this.#checkpointer) {
      this.db.exec('PRAGMA wal_checkpoint(PASSIVE)');
      this.#state = fileState(this.#path);
      return;
    }
    const moving = this.#move(this.#checkpointer);
    if (this.#isMoved) this.pause = moving;
  }

  async #move(checkpointer: Checkpointer): Promise<void> {
    const db = this.#db;
    const identity = fileIdentity(this.#path);
    this.#isMoving = true;
    await checkpointer.checkpoint({ file: this.#path, identity });
    if (this.#db !== db) return;
    this.#isMoving = false;
    this.#isMoved = this.pause === undefined;
    this.pause = undefined;
    if (fileIdentity(this.#path) === identity) this.#state = fileState(this.#path);
  }
}

function fileState(path: string): string {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats ? [stats.dev, stats.ino, stats.size, stats.mtimeNs].join() : '';
}

function create(db: DatabaseSync, { applicationId, version, schema }: ViewFormat): void {
  db.exec(
    `BEGIN; ${schema} ${CHECKPOINT_SCHEMA} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`,
  );
}

/** @throws DamagedFile */
function assertIsView(db: DatabaseSync, format: ViewFormat): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== format.applicationId) throw new DamagedFile('the file is not this view');
  if (version !== format.version) throw new DamagedFile(`it has version ${version}, not ${format.version}`);
}

/** The saved checkpoint. @throws DamagedFile */
export function readCheckpoint(db: DatabaseSync): ViewCheckpoint {
  const rows = prepareArrays(db, 'SELECT log_id, position, event_id FROM checkpoint').all();
  const [logId, position, eventId] = (rows[0] ?? []) as unknown as unknown[];
  if (
    rows.length !== 1 ||
    typeof logId !== 'string' ||
    typeof position !== 'bigint' ||
    typeof eventId !== 'string'
  )
    throw new DamagedFile('its checkpoint is malformed');
  return { logId, position, eventId };
}

/** The checkpoint in the file of any view; undefined without a file, or if the view belongs to no log. @throws Error */
export function readViewCheckpoint(file: string): ViewCheckpoint | undefined {
  if (fileSize(file) === 0) return undefined;
  using db = openReadOnly(file);
  const checkpoint = readCheckpoint(db);
  return checkpoint.logId === NO_CHECKPOINT.logId ? undefined : checkpoint;
}

/** Opens the file of a view for reading only; its writer may be running. */
export function openForReading(file: string, format: ViewFormat): DatabaseSync {
  using opening = new DisposableStack();
  const db = opening.use(openReadOnly(file));
  assertIsView(db, format);
  opening.move();
  return db;
}

export function removeViewFile(file: string): void {
  for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
}

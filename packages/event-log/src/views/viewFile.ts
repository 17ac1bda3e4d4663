import { existsSync, renameSync, rmSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  assertWritable,
  DamagedFile,
  fileIdentity,
  fileSize,
  hasSqliteCode,
  isDamage as isDamagedDatabase,
  openReadOnly,
  prepareArrays,
  SQLITE,
} from '@event-sourced/node/files';
import { readHeader, writeVersion } from '../disk/header.ts';
import { scrubFile, type WalThread } from '../disk/walThread.ts';
import { type Position, START } from '../eventStore.ts';

/** The values of a row by column; integers are bigint. */
export type Row = Readonly<Record<string, unknown>>;

/** `event`: the event that differs, as its offset after a position. */
export type Difference = { problem: string; event?: { after: Position; offset: number } };

/** What a view is called, and what its file has. */
export type ViewDefinition = Readonly<{
  /** The name in logs and metrics. */
  name: string;
  /** The name in messages for clients. */
  title: string;
  /** The application ID in the header of the file. */
  applicationId: number;
  /** If the file has a different version, it is replaced and the view is rebuilt. */
  version: number;
  /** The page cache; scattered rows need a larger one. */
  cacheKiB: number;
  schema: string;
  /** The table that `verify` compares with the log. */
  table: string;
  /** Describes the first row that differs from the log, if a row has many events; by default all rows are described. */
  describe?: (expected: Row | undefined, found: Row | undefined) => Difference;
  /**
   * What happens when events are erased that the view has applied. `deleteRows`: each row of the table follows from the one
   * event at its `position`, and is deleted; the column needs an index. `keep`: the rows have nothing of the content of
   * events. By default, the view is rebuilt.
   */
  onErasure?: 'deleteRows' | 'keep';
}>;

/** The position and ID of the last event that a view has applied, in the log with this ID. */
export type Bookmark = Readonly<{ logId: string; position: Position; eventId: string }>;

/** The bookmark of an empty view that belongs to no log. */
export const NO_BOOKMARK: Bookmark = { logId: '', position: START, eventId: '' };

/** Whether replacing the file fixes an error; it does not fix a failing disk or a lock. */
export const isDamage = (error: unknown): boolean =>
  error instanceof DamagedFile || isDamagedDatabase(error) || hasSqliteCode(error, SQLITE.IOERR_SHORT_READ);

/** Like `isDamage`, for a file that is being opened: SQLite reports a missing table as a SQL error. */
export const isOtherFile = (error: unknown): boolean =>
  isDamage(error) || hasSqliteCode(error, SQLITE.ERROR, SQLITE.READONLY);

const BOOKMARK_SCHEMA = `
  CREATE TABLE bookmark (log_id TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
  INSERT INTO bookmark VALUES ('', 0, '');
`;
const OPEN_TIMEOUT_MS = 1_000;
/** A longer write-ahead log is moved into the file, beside further commits. */
const LONG_WAL_BYTES = 32 * 1024 * 1024;
/** With a longer one there are no commits until it is moved: SQLite only restarts a log that is moved completely. */
const MAX_WAL_BYTES = 48 * 1024 * 1024;
/** A write-ahead log that restarts is truncated to this size. */
const MIN_WAL_BYTES = 1024 * 1024;

type Opened<State> = Readonly<{
  db: DatabaseSync;
  identity: string | undefined;
  moveBookmark: StatementSync;
  state: State;
}>;

/** The SQLite file of a view, with its bookmark: one connection, which reads and writes, and one open transaction. */
export class ViewFile<State> {
  /** The bookmark of the last commit. */
  bookmark = NO_BOOKMARK;
  /** Why the file was replaced; undefined if it was not. */
  replaced: string | undefined;
  /** Whether the file may have bytes of deleted rows, or the IDs of erased events: those of earlier bookmarks. */
  isUnscrubbed = false;
  #isRewritten = false;
  #scrubbing: Promise<void> | undefined;
  #longWal: Promise<void> | undefined;
  readonly #path: string;
  readonly #definition: ViewDefinition;
  readonly #load: (db: DatabaseSync, bookmark: Bookmark) => State;
  readonly #walThread: WalThread | undefined;
  #opened: Opened<State> | undefined;
  #moving: Promise<void> | undefined;
  #isClosed = false;

  /** Opens the file. Without a thread, a commit moves a long write-ahead log itself. @throws Error for the operator */
  constructor(
    path: string,
    definition: ViewDefinition,
    load: (db: DatabaseSync, bookmark: Bookmark) => State,
    walThread?: WalThread,
  ) {
    this.#path = path;
    this.#definition = definition;
    this.#load = load;
    this.#walThread = walThread;
    try {
      this.#open();
    } catch (error) {
      const { message } = error as Error;
      if (!isOtherFile(error)) throw new Error(`cannot use the view ${path}: ${message}`, { cause: error });
      this.replaced = message;
      this.#openEmpty();
    }
  }

  get isOpen(): boolean {
    return this.#opened !== undefined;
  }

  /** Whether the file must be replaced before it is used. */
  get isDiscarded(): boolean {
    return !this.#opened && !this.#isClosed;
  }

  /** Whether a transaction is open. */
  get isChanging(): boolean {
    return this.#opened?.db.isTransaction ?? false;
  }

  get state(): State {
    return this.#assertOpen().state;
  }

  /** While this is pending, nothing may be written. */
  get pause(): Promise<void> | undefined {
    return this.#scrubbing ?? this.#longWal;
  }

  /** Deletes the rows of erased events, unless they are kept, in the open transaction. */
  erase(positions: readonly Position[]): void {
    const { db } = this.#assertOpen();
    const { table, version, onErasure } = this.#definition;
    if (onErasure === 'deleteRows') {
      const remove = db.prepare(`DELETE FROM ${table} WHERE position = ?`);
      for (const position of positions) remove.run(position);
    }
    writeVersion(db, { version, isUnscrubbed: true });
    this.isUnscrubbed = true;
    this.#isRewritten = false;
  }

  /**
   * Removes these bytes between two transactions, on that thread. False if a reader needs them.
   * @throws Error
   */
  async scrub(): Promise<boolean> {
    if (this.isDiscarded) return false;
    const { db, identity } = this.#assertOpen();
    if (!this.isUnscrubbed) return true;
    const file = this.#path;
    // The row of the bookmark never shrinks, so each one overwrites the one before: no other page had an ID.
    const isRewritten = this.#isRewritten || this.#definition.onErasure === 'keep';
    const run = async (): Promise<boolean> =>
      this.#walThread?.scrub({ file, identity, isRewritten }) ?? scrubFile(db, isRewritten);
    const scrubbing = run();
    this.#scrubbing = scrubbing.then(
      () => {},
      () => {},
    );
    try {
      const isDone = await scrubbing;
      if (this.#opened?.db !== db) return false; // the file was discarded
      this.#isRewritten = true;
      if (!isDone) return false;
      writeVersion(db, { version: this.#definition.version, isUnscrubbed: false });
      this.isUnscrubbed = false;
      return true;
    } finally {
      this.#scrubbing = undefined;
    }
  }

  begin(): void {
    const { db } = this.#assertOpen();
    if (db.isTransaction) return;
    try {
      db.exec('BEGIN IMMEDIATE');
    } catch (error) {
      if (!hasSqliteCode(error, SQLITE.BUSY)) throw error;
      throw new Error(`another program has locked ${this.#path}`, { cause: error });
    }
  }

  commit(bookmark: Bookmark): void {
    const { db, identity, moveBookmark } = this.#assertOpen();
    moveBookmark.run(bookmark.logId, bookmark.position, bookmark.eventId);
    db.exec('COMMIT');
    this.bookmark = bookmark;
    this.#moveWal(db, identity);
  }

  /** On a full disk, SQLite has already rolled back. @throws Error if the state cannot be loaded again */
  rollback(): void {
    const opened = this.#assertOpen();
    if (opened.db.isTransaction) opened.db.exec('ROLLBACK');
    this.isUnscrubbed = readHeader(opened.db).isUnscrubbed;
    this.#opened = { ...opened, state: this.#load(opened.db, this.bookmark) };
  }

  /** Closes a file that must be replaced. */
  discard(reason: string): void {
    this.replaced = reason;
    this.bookmark = NO_BOOKMARK;
    this.#closeFile();
  }

  /**
   * Starts an empty file when the thread has ended its work for the old one, which is removed or, with `keepAs`, renamed.
   * @throws Error, also if the view was closed meanwhile
   */
  async replace(keepAs?: string): Promise<void> {
    this.bookmark = NO_BOOKMARK;
    this.#closeFile(); // this moves its write-ahead log
    await Promise.all([this.#scrubbing, this.#moving]);
    if (this.#isClosed) this.#assertOpen();
    if (keepAs !== undefined && existsSync(this.#path)) renameSync(this.#path, keepAs);
    this.#openEmpty();
  }

  close(): void {
    this.#isClosed = true;
    this.#closeFile();
  }

  #closeFile(): void {
    this.#opened?.db.close();
    this.#opened = undefined;
  }

  #openEmpty(): void {
    removeViewFile(this.#path);
    this.#open();
  }

  #assertOpen(): Opened<State> {
    if (!this.#opened) throw new Error(`the view ${this.#path} is closed`);
    return this.#opened;
  }

  #open(): void {
    using opening = new DisposableStack();
    assertWritable(this.#path);
    const db = opening.use(new DatabaseSync(this.#path, { timeout: OPEN_TIMEOUT_MS }));
    db.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      PRAGMA cache_size = -${this.#definition.cacheKiB};
      PRAGMA wal_autocheckpoint = 0;
      PRAGMA secure_delete = ON;
      PRAGMA journal_size_limit = ${MIN_WAL_BYTES}`);
    if (db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) create(db, this.#definition);
    assertIsView(db, this.#definition);
    this.bookmark = readBookmark(db);
    this.isUnscrubbed = readHeader(db).isUnscrubbed;
    this.#isRewritten = false;
    db.exec('BEGIN IMMEDIATE; UPDATE bookmark SET position = position; ROLLBACK'); // its header may make it read-only
    const moveBookmark = db.prepare('UPDATE bookmark SET log_id = ?, position = ?, event_id = ?');
    const state = this.#load(db, this.bookmark);
    // From now on there must be no other writer: no request waits for one.
    db.exec('PRAGMA busy_timeout = 0');
    opening.move();
    this.#opened = { db, identity: fileIdentity(this.#path), moveBookmark, state };
  }

  /** Called between two transactions. */
  #moveWal(db: DatabaseSync, identity: string | undefined): void {
    const file = this.#path;
    const bytes = fileSize(`${file}-wal`);
    if (bytes <= LONG_WAL_BYTES) return;
    if (!this.#walThread) {
      db.exec('PRAGMA wal_checkpoint(PASSIVE)');
      return;
    }
    this.#moving ??= this.#walThread.walCheckpoint({ file, identity }).then(() => {
      this.#moving = undefined;
      this.#longWal = undefined;
    });
    this.#longWal = bytes > MAX_WAL_BYTES ? this.#moving : undefined;
  }
}

function create(db: DatabaseSync, { applicationId, version, schema }: ViewDefinition): void {
  db.exec(
    `BEGIN; ${schema}; ${BOOKMARK_SCHEMA} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`,
  );
}

/** @throws DamagedFile */
function assertIsView(db: DatabaseSync, definition: ViewDefinition): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== definition.applicationId) throw new DamagedFile('the file is not this view');
  if (version !== definition.version)
    throw new DamagedFile(`it has version ${version}, not ${definition.version}`);
}

/** The saved bookmark. @throws DamagedFile */
export function readBookmark(db: DatabaseSync): Bookmark {
  const rows = prepareArrays(db, 'SELECT log_id, position, event_id FROM bookmark').all();
  const [logId, position, eventId] = (rows[0] ?? []) as unknown as unknown[];
  if (
    rows.length !== 1 ||
    typeof logId !== 'string' ||
    typeof position !== 'bigint' ||
    typeof eventId !== 'string'
  )
    throw new DamagedFile('its bookmark is malformed');
  return { logId, position, eventId };
}

/** The bookmark in the file of any view; undefined without a file, or if the view belongs to no log. @throws Error */
export function readViewBookmark(file: string): Bookmark | undefined {
  if (fileSize(file) === 0) return undefined;
  using db = openReadOnly(file);
  const bookmark = readBookmark(db);
  return bookmark.logId === NO_BOOKMARK.logId ? undefined : bookmark;
}

/** Opens the file of a view for reading only; its writer may be running. */
export function openForReading(file: string, definition: ViewDefinition): DatabaseSync {
  using opening = new DisposableStack();
  const db = opening.use(openReadOnly(file));
  assertIsView(db, definition);
  opening.move();
  return db;
}

function removeViewFile(file: string): void {
  for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
}

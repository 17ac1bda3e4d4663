import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { assertWritable } from '../disk/sqlite.ts';
import type { ReadTo } from '../eventStore.ts';
import { NO_CHECKPOINT, type ViewCheckpoint } from './view.ts';
import {
  assertIsView,
  isDamage,
  readCheckpoint,
  removeViewFile,
  type SavedRow,
  type ViewFormat,
} from './viewDatabase.ts';

const CHECKPOINT_SCHEMA = `
  CREATE TABLE checkpoint (log_id TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
  INSERT INTO checkpoint VALUES ('', 0, '');
`;

/** How far the log had been read when the checkpoint was at `after`: later the row says nothing. */
const READ_TO_SCHEMA = `
  CREATE TABLE IF NOT EXISTS read_to (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    after    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    event_id TEXT    NOT NULL
  ) STRICT`;

type Opened = {
  db: DatabaseSync;
  insert: (rows: readonly SavedRow[]) => void;
  moveCheckpoint: StatementSync;
  saveReadTo: StatementSync;
};

/** The only writer of a view's file. Rows are kept in memory until they are saved with a checkpoint. */
export class ViewWriter {
  /** Why the file was replaced by an empty one when it was opened; undefined if it was not. */
  readonly replaced: string | undefined;
  /** As the file had it when it was opened. */
  checkpoint = NO_CHECKPOINT;
  /** How far the log had been read at this checkpoint, if that is known. */
  readTo: ReadTo | undefined;
  readonly #file: string;
  readonly #format: ViewFormat;
  /** Undefined once the file was damaged, until the view is reset. */
  #opened: Opened | undefined;
  #rows: SavedRow[] = [];

  /** A file that does not exist, is damaged, or is of another version, is replaced by an empty one. */
  constructor(file: string, format: ViewFormat) {
    this.#file = file;
    this.#format = format;
    try {
      this.#opened = this.#open();
    } catch (error) {
      const { message } = error as Error;
      if (!isDamage(error)) throw new Error(`cannot use the view ${file}: ${message}`, { cause: error });
      this.replaced = message;
      removeViewFile(file);
      this.#opened = this.#open();
    }
  }

  /** Keeps rows until they are saved. Those of a file that is gone are dropped. */
  add(rows: readonly SavedRow[]): void {
    if (this.#opened) this.#rows.push(...rows);
  }

  /** Verifies all rows of the open file, in steps between which it may be written. @throws DamagedView */
  *check(): Iterable<void> {
    if (this.#opened) yield* this.#format.check?.(this.#opened.db) ?? [];
  }

  /**
   * Saves the added rows, the checkpoint, and how far the log was read, in one transaction. Returns why the file was
   * damaged: then it is removed, with all rows. @throws Error if nothing has changed
   */
  save(checkpoint: ViewCheckpoint, readTo?: ReadTo): string | undefined {
    return this.#unlessDamaged(() => {
      if (!this.#opened) throw new Error('the view has to be reset first');
      const { db, insert, moveCheckpoint, saveReadTo } = this.#opened;
      transaction(db, () => {
        insert(this.#rows);
        moveCheckpoint.run(checkpoint.logId, checkpoint.position, checkpoint.eventId);
        if (readTo) saveReadTo.run(checkpoint.position, readTo.position, readTo.eventId);
      });
    });
  }

  /** Empties the view; from now on it belongs to the log with this ID. Returns and throws as `save`. */
  reset(logId: string): string | undefined {
    return this.#unlessDamaged(() => {
      this.#opened ??= this.#open();
      const { db, moveCheckpoint } = this.#opened;
      transaction(db, () => {
        db.exec(this.#format.empty);
        moveCheckpoint.run(logId, NO_CHECKPOINT.position, NO_CHECKPOINT.eventId);
      });
    });
  }

  /** Removes the damaged file. Returns why it cannot, if so: then the reset empties it, or removes it. */
  discard(): string | undefined {
    try {
      removeViewFile(this.#file); // before it is closed, which would checkpoint it
    } catch (error) {
      return (error as Error).message;
    } finally {
      this.close();
      this.#rows = [];
    }
    return undefined;
  }

  close(): void {
    this.#opened?.db.close();
    this.#opened = undefined;
  }

  /** Once rows are written, or are gone with the file, they are not kept. */
  #unlessDamaged(write: () => void): string | undefined {
    try {
      write();
      this.#rows = [];
      return undefined;
    } catch (error) {
      if (!isDamage(error)) throw error;
      const { message } = error as Error;
      const failure = this.discard();
      return failure === undefined ? message : `${message}; it cannot be removed: ${failure}`;
    }
  }

  #open(): Opened {
    const { insert, cacheKiB } = this.#format;
    assertWritable(this.#file);
    using opening = new DisposableStack();
    const db = opening.use(new DatabaseSync(this.#file, { timeout: 1_000 }));
    db.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -${cacheKiB}; PRAGMA wal_autocheckpoint = 4000`,
    );
    if (db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) createView(db, this.#format);
    assertIsView(db, this.#format);
    db.exec(READ_TO_SCHEMA);
    this.checkpoint = readCheckpoint(db);
    this.readTo = readReadTo(db);
    const opened = {
      db,
      insert: insert(db),
      moveCheckpoint: db.prepare('UPDATE checkpoint SET log_id = ?, position = ?, event_id = ?'),
      saveReadTo: db.prepare('INSERT OR REPLACE INTO read_to VALUES (1, ?, ?, ?)'),
    };
    opening.move();
    return opened;
  }
}

function transaction(db: DatabaseSync, write: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    write();
    db.exec('COMMIT');
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

function createView(db: DatabaseSync, { applicationId, version, schema }: ViewFormat): void {
  db.exec(
    `BEGIN; ${schema} ${CHECKPOINT_SCHEMA} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`,
  );
}

function readReadTo(db: DatabaseSync): ReadTo | undefined {
  const statement = db.prepare(
    'SELECT read_to.position, read_to.event_id AS eventId FROM read_to JOIN checkpoint ON after = checkpoint.position',
  );
  statement.setReadBigInts(true);
  return statement.get() as ReadTo | undefined;
}

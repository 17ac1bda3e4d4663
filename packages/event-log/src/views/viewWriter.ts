import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { ReadTo } from '../eventStore.ts';
import type { ViewCheckpoint } from './view.ts';
import {
  isDamage,
  MOVE_CHECKPOINT,
  openForWriting,
  readCheckpoint,
  readReadTo,
  removeViewFile,
  SAVE_READ_TO,
  type ViewFormat,
} from './viewDatabase.ts';
import { NO_CHECKPOINT, type Row, type WriteRequest, type WriteResult } from './viewProtocol.ts';

type Opened = {
  db: DatabaseSync;
  insert: (rows: readonly Row[]) => void;
  moveCheckpoint: StatementSync;
  saveReadTo: StatementSync;
  /** Verifies the rows that the file had when it was opened; undefined once it has, or they are gone. */
  checking: Iterator<void> | undefined;
  /** What the file had when it was opened. */
  found: { checkpoint: ViewCheckpoint; readTo: ReadTo | undefined };
};

/** The only writer of a view's file. Rows are kept in memory until they are saved with a checkpoint. */
export class ViewWriter {
  /** Why the file was replaced by an empty one when it was opened; undefined if it was not. */
  readonly replaced: string | undefined;
  /** As the file had it when it was opened. */
  readonly checkpoint: ViewCheckpoint;
  /** How far the log had been read at this checkpoint, if that is known. */
  readonly readTo: ReadTo | undefined;
  readonly #file: string;
  readonly #format: ViewFormat;
  /** Undefined once the file was damaged, until the view is reset. */
  #opened: Opened | undefined;
  #rows: Row[] = [];

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
    ({ checkpoint: this.checkpoint, readTo: this.readTo } = this.#opened.found);
  }

  /** Keeps rows until they are saved. Those of a file that is gone are dropped. */
  add(rows: Row[]): void {
    if (this.#opened) this.#rows.push(...rows);
  }

  /** Verifies some more rows of the file that was opened; false if there is nothing more to verify. @throws DamagedView */
  checkMore(): boolean {
    const { db, checking } = this.#opened ?? {};
    if (!db || !checking) return false;
    db.exec('BEGIN');
    try {
      if (checking.next().done && this.#opened) this.#opened.checking = undefined;
    } finally {
      db.exec('ROLLBACK');
    }
    return true;
  }

  close(): void {
    this.#opened?.db.close();
    this.#opened = undefined;
  }

  /** Does what a request asks for. */
  handle(request: WriteRequest): WriteResult {
    try {
      if ('discard' in request) this.#discard();
      else if ('save' in request) this.#save(request.save, request.readTo);
      else this.#reset(request.reset);
      return {};
    } catch (error) {
      return isDamage(error) ? this.#discardDamaged(error as Error) : { failed: error as Error };
    }
  }

  #save(checkpoint: ViewCheckpoint, readTo: ReadTo | undefined): void {
    this.#transaction(({ insert, moveCheckpoint, saveReadTo }) => {
      insert(this.#rows);
      moveCheckpoint.run(checkpoint.logId, checkpoint.position, checkpoint.eventId);
      if (readTo) saveReadTo.run(checkpoint.position, readTo.position, readTo.eventId);
    });
    this.#rows = [];
  }

  #reset(logId: string): void {
    this.#opened ??= this.#open();
    this.#opened.checking = undefined;
    this.#transaction(({ db, moveCheckpoint }) => {
      db.exec(this.#format.empty);
      moveCheckpoint.run(logId, NO_CHECKPOINT.position, NO_CHECKPOINT.eventId);
    });
    this.#rows = [];
  }

  #transaction(write: (opened: Opened) => void): void {
    if (!this.#opened) throw new Error('the view has to be reset first');
    const { db } = this.#opened;
    db.exec('BEGIN IMMEDIATE');
    try {
      write(this.#opened);
      db.exec('COMMIT');
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }

  #discardDamaged({ message }: Error): WriteResult {
    try {
      this.#discard();
      return { damaged: message };
    } catch (error) {
      return { failed: error as Error }; // and tried again with the next request
    }
  }

  #discard(): void {
    try {
      removeViewFile(this.#file); // before it is closed, which would checkpoint it
    } finally {
      this.#opened?.db.close();
      this.#opened = undefined;
      this.#rows = [];
    }
  }

  #open(): Opened {
    const { insert, check } = this.#format;
    const db = openForWriting(this.#file, this.#format);
    try {
      return {
        db,
        insert: insert(db),
        moveCheckpoint: db.prepare(MOVE_CHECKPOINT),
        saveReadTo: db.prepare(SAVE_READ_TO),
        checking: check?.(db),
        found: { checkpoint: readCheckpoint(db), readTo: readReadTo(db) },
      };
    } catch (error) {
      db.close();
      throw error;
    }
  }
}

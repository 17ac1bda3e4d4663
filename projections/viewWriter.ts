import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { ViewCheckpoint } from './view.ts';
import {
  isDamage,
  MOVE_CHECKPOINT,
  openForWriting,
  readCheckpoint,
  removeViewFile,
  type ViewFormat,
} from './viewDatabase.ts';
import {
  type AnsweredRequest,
  NO_CHECKPOINT,
  type Reply,
  type Row,
  type ThreadData,
} from './viewProtocol.ts';

type Opened = { db: DatabaseSync; insert: StatementSync; moveCheckpoint: StatementSync };

/** The only writer of a view's file. Rows are kept in memory until they are saved with a checkpoint. */
export class ViewWriter {
  /** Why the file was replaced by an empty one when it was opened; undefined if it was not. */
  readonly replaced: string | undefined;
  readonly #file: string;
  readonly #format: ViewFormat;
  /** Undefined once the file was damaged, until the view is reset. */
  #opened: Opened | undefined;
  #rows: Row[] = [];

  /** A file that does not exist, is damaged, or is of another version, is replaced by an empty one. */
  constructor({ file, format }: ThreadData) {
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

  get checkpoint(): ViewCheckpoint {
    return this.#opened ? readCheckpoint(this.#opened.db) : NO_CHECKPOINT;
  }

  /** Keeps rows until they are saved. Those of a file that is gone are dropped. */
  add(rows: Row[]): void {
    if (this.#opened) this.#rows.push(...rows);
  }

  close(): void {
    this.#opened?.db.close();
  }

  /** Does what a request asks for. */
  handle(request: AnsweredRequest): Reply {
    try {
      if ('discard' in request) this.#discard();
      else if ('save' in request) this.#save(request.save);
      else this.#reset(request.reset);
      return { done: true };
    } catch (error) {
      return isDamage(error) ? this.#discardDamaged(error as Error) : { failed: error as Error };
    }
  }

  /** The rows of one user, say, share pages, so they are written together. */
  #save(checkpoint: ViewCheckpoint): void {
    this.#rows.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : Number(a !== b)));
    this.#transaction(({ insert, moveCheckpoint }) => {
      for (const row of this.#rows) insert.run(...row);
      moveCheckpoint.run(checkpoint.logId, checkpoint.position, checkpoint.eventId);
    });
    this.#rows = [];
  }

  #reset(logId: string): void {
    this.#opened ??= this.#open();
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

  #discardDamaged({ message }: Error): Reply {
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
    const db = openForWriting(this.#file, this.#format);
    return { db, insert: db.prepare(this.#format.insert), moveCheckpoint: db.prepare(MOVE_CHECKPOINT) };
  }
}

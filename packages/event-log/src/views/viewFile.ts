import type { DatabaseSync } from 'node:sqlite';
import type { ReadTo } from '../eventStore.ts';
import { moduleBeside, Thread } from '../threads/thread.ts';
import type { Table } from './table.ts';
import { tableFormat } from './tableFormat.ts';
import { TableReader } from './tableReader.ts';
import { NO_CHECKPOINT, type ViewCheckpoint, ViewDamaged } from './view.ts';
import { isDamage, openForReading, type SavedRow } from './viewDatabase.ts';
import type { OpenedView, ViewOperations, ViewThreadData } from './viewThread.ts';

/** Rows are handed to the thread in portions, so that no request waits for a long one to be copied. */
const ROWS_PER_MESSAGE = 256;

/** The file of a view: read on this thread, written on another. Its view keeps what is added until it is saved. */
export class ViewFile {
  /** Why the file was replaced by an empty one; undefined if it was not. */
  replaced: string | undefined;
  /** Called when the file turns out to be damaged; it is being removed. */
  onDamage = () => {};
  checkpoint: ViewCheckpoint = NO_CHECKPOINT;
  /** How far the log had been read at the checkpoint of the file that was opened, if that is known. */
  readTo: ReadTo | undefined;
  readonly #file: string;
  readonly #table: Table;
  readonly #thread: Thread<ViewOperations, OpenedView, string>;
  /** Undefined once the file was damaged, until the view is reset. */
  #reader: { db: DatabaseSync; rows: TableReader } | undefined;
  #rows: SavedRow[] = [];
  /** How often the file was damaged: what was sent to the thread before is for a file that is gone. */
  #damages = 0;
  #isOpen = false;

  private constructor(file: string, table: Table) {
    this.#file = file;
    this.#table = table;
    this.#thread = new Thread(moduleBeside(import.meta.url, 'viewThread'), {
      data: { file, table } satisfies ViewThreadData,
      onEvent: (reason) => {
        if (this.#reader) this.#discard(new Error(reason)); // else it is being replaced already
      },
      onEnd: (error) => {
        if (this.#isOpen) throw error; // unforeseen, such as too little memory: the process ends
      },
    });
  }

  /**
   * Opens the file. One that does not exist, is damaged, or is of another version, is replaced by an empty
   * one. Its rows are verified later, on its thread. @throws Error with a message for the operator
   */
  static async open(file: string, table: Table): Promise<ViewFile> {
    const opened = new ViewFile(file, table);
    Object.assign(opened, await opened.#thread.started);
    opened.#isOpen = true;
    try {
      opened.#reader = opened.#openReader();
    } catch (error) {
      if (isDamage(error)) opened.#discard(error as Error);
      else {
        await opened.#thread.terminate();
        throw new Error(`cannot use the view ${file}: ${(error as Error).message}`, { cause: error });
      }
    }
    return opened;
  }

  /** Reads from one snapshot of the file, which may have more than was saved by the last checkpoint. @throws ViewDamaged */
  read<T>(query: (rows: TableReader) => T): T {
    const { rows } = this.#reader ?? {};
    if (!rows) throw this.#damaged();
    try {
      return rows.snapshot(() => query(rows));
    } catch (error) {
      if (!isDamage(error)) throw error;
      throw this.#discard(error as Error);
    }
  }

  /** Adds a row, to be saved with the next checkpoint. */
  add(row: SavedRow): void {
    this.#rows.push(row);
    if (this.#rows.length === ROWS_PER_MESSAGE) this.#handOver();
  }

  /** Saves the added rows, the checkpoint, and how far the log was read, in one transaction. @throws ViewDamaged */
  async save(checkpoint: ViewCheckpoint, readTo?: ReadTo): Promise<void> {
    this.#handOver();
    await this.#unlessDamaged(this.#thread.call('save', { checkpoint, readTo }));
    this.checkpoint = checkpoint;
  }

  /** Empties the view; from now on it belongs to the log with this ID. @throws ViewDamaged */
  async reset(logId: string): Promise<void> {
    this.#rows = [];
    this.checkpoint = NO_CHECKPOINT;
    await this.#unlessDamaged(this.#thread.call('reset', logId));
    if (this.#isOpen) this.#reader ??= this.#openReader();
    this.checkpoint = { ...NO_CHECKPOINT, logId };
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    this.#reader?.db.close(); // first: the last one to close checkpoints
    this.#reader = undefined;
    await this.#thread.close();
  }

  #handOver(): void {
    if (this.#rows.length > 0) this.#thread.post('add', this.#rows);
    this.#rows = [];
  }

  async #unlessDamaged(writing: Promise<string | undefined>): Promise<void> {
    const damages = this.#damages;
    const reason = await writing;
    if (damages !== this.#damages) throw this.#damaged();
    if (reason !== undefined) throw this.#forget(reason);
  }

  /** Has the damaged file removed. */
  #discard(error: Error): ViewDamaged {
    this.#thread.post('discard', undefined);
    return this.#forget(error.message, error);
  }

  #forget(reason: string, cause?: unknown): ViewDamaged {
    this.replaced = reason;
    this.#damages++;
    this.#reader?.db.close();
    this.#reader = undefined;
    this.#rows = [];
    this.checkpoint = NO_CHECKPOINT;
    this.onDamage();
    return this.#damaged(cause);
  }

  #damaged(cause?: unknown): ViewDamaged {
    return new ViewDamaged(`the view ${this.#file} was damaged and is being rebuilt`, { cause });
  }

  #openReader(): { db: DatabaseSync; rows: TableReader } {
    using opening = new DisposableStack();
    const db = opening.use(openForReading(this.#file, tableFormat(this.#table)));
    db.exec('PRAGMA cache_size = -16384'); // KiB
    const rows = new TableReader(db, this.#table);
    opening.move();
    return { db, rows };
  }
}

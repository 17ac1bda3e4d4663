import { once } from 'node:events';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import type { ReadTo } from '../eventStore.ts';
import { moduleBeside } from '../threads/thread.ts';
import type { Table } from './table.ts';
import { tableFormat } from './tableFormat.ts';
import { TableReader } from './tableReader.ts';
import type { ViewCheckpoint } from './view.ts';
import { isDamage, openForReading } from './viewDatabase.ts';
import {
  NO_CHECKPOINT,
  type Opened,
  type Reply,
  type Request,
  type Row,
  type ThreadData,
} from './viewProtocol.ts';

/** The view's file was damaged, and is removed: the view has to be reset and rebuilt. */
export class ViewDamaged extends Error {
  override readonly name = 'ViewDamaged';
}

/** Rows are handed to the thread in portions, so that no request waits for a long one to be copied. */
const ROWS_PER_MESSAGE = 256;

/**
 * The file of a view: read on this thread, written on a thread of its own. What has been added is in the file
 * once it is saved; until then its view keeps it in memory.
 */
export class ViewFile {
  /** Why the file was replaced by an empty one; undefined if it was not. */
  replaced: string | undefined;
  /** Called when the file turns out to be damaged; it is being removed. */
  onDamage = () => {};
  /** The saved checkpoint. */
  checkpoint: ViewCheckpoint = NO_CHECKPOINT;
  /** How far the log had been read at the checkpoint of the file that was opened, if that is known. */
  readTo: ReadTo | undefined;
  readonly #file: string;
  readonly #table: Table;
  readonly #thread: Worker;
  /** Undefined once the file was damaged, until the view is reset. */
  #reader: { db: DatabaseSync; rows: TableReader } | undefined;
  #rows: Row[] = [];
  /** The requests without a reply, by ID; those for a file that is gone are forgotten. */
  readonly #requests = new Map<number, PromiseWithResolvers<Opened | undefined>>();
  #lastId = -1;
  #isClosed = false;

  private constructor(file: string, table: Table) {
    this.#file = file;
    this.#table = table;
    const thread = moduleBeside(import.meta.url, 'viewThread');
    this.#thread = new Worker(thread, { workerData: { file, table } satisfies ThreadData });
    this.#thread.on('message', (reply) => this.#handle(reply));
  }

  /**
   * Opens the file. One that does not exist, is damaged, or is of another version, is replaced by an empty
   * one. Its rows are verified later, on its thread. @throws Error with a message for the operator
   */
  static async open(file: string, table: Table): Promise<ViewFile> {
    const opened = new ViewFile(file, table);
    const thread = opened.#thread;
    const { promise, reject } = opened.#expectReply();
    thread.once('error', reject);
    const found = await promise;
    thread.off('error', reject);
    thread.on('error', (error) => {
      throw error; // unforeseen, such as too little memory: the process ends
    });
    Object.assign(opened, found);
    try {
      opened.#reader = opened.#openReader();
    } catch (error) {
      if (isDamage(error)) opened.#discard(error as Error);
      else {
        await thread.terminate();
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
  add(row: Row): void {
    this.#rows.push(row);
    if (this.#rows.length === ROWS_PER_MESSAGE) this.#handOver();
  }

  /** Saves the added rows, the checkpoint, and how far the log was read, in one transaction. @throws ViewDamaged */
  async save(checkpoint: ViewCheckpoint, readTo?: ReadTo): Promise<void> {
    this.#handOver();
    const { promise, id } = this.#expectReply();
    this.#post({ id, save: checkpoint, readTo });
    await promise;
    this.checkpoint = checkpoint;
  }

  /** Empties the view; from now on it belongs to the log with this ID. @throws ViewDamaged */
  async reset(logId: string): Promise<void> {
    this.#rows = [];
    this.checkpoint = NO_CHECKPOINT;
    const { promise, id } = this.#expectReply();
    this.#post({ id, reset: logId });
    await promise;
    if (!this.#isClosed) this.#reader ??= this.#openReader();
    this.checkpoint = { ...NO_CHECKPOINT, logId };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#reader?.db.close(); // first: the last one to close checkpoints
    this.#reader = undefined;
    const exited = once(this.#thread, 'exit');
    this.#post({ close: true });
    await exited;
  }

  #handOver(): void {
    if (this.#rows.length > 0) this.#post({ rows: this.#rows });
    this.#rows = [];
  }

  #expectReply(): PromiseWithResolvers<Opened | undefined> & { id: number } {
    const id = ++this.#lastId;
    const request = Promise.withResolvers<Opened | undefined>();
    this.#requests.set(id, request);
    return { ...request, id };
  }

  #post(request: Request): void {
    this.#thread.postMessage(request);
  }

  /** Under `node --watch` there are other messages. */
  #handle(reply: Reply): void {
    if ('unsound' in reply) {
      if (this.#reader) this.#discard(new Error(reply.unsound)); // else it is being replaced already
      return;
    }
    const { id = -1, opened, failed, damaged } = reply;
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    if (damaged !== undefined && request) request.reject(this.#forget(damaged));
    else if (failed) request?.reject(failed);
    else request?.resolve(opened);
  }

  /** Has the damaged file removed. */
  #discard(error: Error): ViewDamaged {
    this.#post({ discard: true });
    return this.#forget(error.message, error);
  }

  /** The file is damaged and removed. */
  #forget(reason: string, cause?: unknown): ViewDamaged {
    this.replaced = reason;
    this.#reader?.db.close();
    this.#reader = undefined;
    this.#rows = [];
    this.checkpoint = NO_CHECKPOINT;
    const damaged = this.#damaged(cause);
    for (const { reject } of this.#requests.values()) reject(damaged);
    this.#requests.clear();
    this.onDamage();
    return damaged;
  }

  #damaged(cause?: unknown): ViewDamaged {
    return new ViewDamaged(`the view ${this.#file} was damaged and is being rebuilt`, { cause });
  }

  #openReader(): { db: DatabaseSync; rows: TableReader } {
    const db = openForReading(this.#file, tableFormat(this.#table));
    try {
      db.exec('PRAGMA cache_size = -16384'); // KiB
      return { db, rows: new TableReader(db, this.#table) };
    } catch (error) {
      db.close();
      throw error;
    }
  }
}

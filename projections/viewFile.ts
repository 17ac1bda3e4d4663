import { on, once } from 'node:events';
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import type { ReadTo } from '../src/eventStore/eventStore.ts';
import type { Table } from './table.ts';
import { tableFormat } from './tableFormat.ts';
import { TableReader } from './tableReader.ts';
import type { ViewCheckpoint } from './view.ts';
import { isDamage, openForReading } from './viewDatabase.ts';
import {
  type AnsweredRequest,
  isReply,
  NO_CHECKPOINT,
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

type Waiting = { resolve: () => void; reject: (error: Error) => void };

/**
 * The file of a view: read on this thread, written on a thread of its own. What has been added is in the file
 * once it is saved; until then its view keeps it in memory.
 */
export class ViewFile {
  /** Why the file was replaced by an empty one; undefined if it was not. */
  replaced: string | undefined;
  /** Called when the file turns out to be damaged; it is being removed. */
  onDamage = () => {};
  readonly #file: string;
  readonly #table: Table;
  readonly #thread: Worker;
  readonly #exited: Promise<unknown>;
  /** Undefined once the file was damaged, until the view is reset. */
  #reader: { db: DatabaseSync; rows: TableReader } | undefined;
  /** The saved checkpoint. */
  #checkpoint = NO_CHECKPOINT;
  /** How far the log had been read at the checkpoint of the file that was opened, if that is known. */
  readTo: ReadTo | undefined;
  #rows: Row[] = [];
  /** The requests without a reply, in order. */
  readonly #waiting: Waiting[] = [];
  /** So many replies belong to a file that is gone. */
  #lateReplies = 0;
  #isClosed = false;

  private constructor(file: string, table: Table) {
    this.#file = file;
    this.#table = table;
    const thread = new URL('./viewThread.ts', import.meta.url);
    this.#thread = new Worker(thread, { workerData: { file, table } satisfies ThreadData });
    this.#exited = once(this.#thread, 'exit');
    this.#exited.catch(() => {});
  }

  /**
   * Opens the file. One that does not exist, is damaged, or is of another version, is replaced by an empty
   * one. Its rows are verified later, on its thread. @throws Error with a message for the operator
   */
  static async open(file: string, table: Table): Promise<ViewFile> {
    const opened = new ViewFile(file, table);
    for await (const [message] of on(opened.#thread, 'message')) {
      if (!isReply(message) || !('opened' in message)) continue; // under `node --watch` there are others
      opened.#checkpoint = message.opened;
      opened.readTo = message.readTo;
      opened.replaced = message.replaced;
      break;
    }
    opened.#thread.on('message', (message) => {
      if (isReply(message)) opened.#handle(message);
    });
    opened.#thread.on('error', (error) => {
      throw error; // unforeseen, such as too little memory: the process ends
    });
    try {
      opened.#reader = opened.#openReader();
      return opened;
    } catch (error) {
      if (isDamage(error)) {
        opened.#discard(error as Error);
        return opened;
      }
      await opened.#thread.terminate();
      throw new Error(`cannot use the view ${file}: ${(error as Error).message}`, { cause: error });
    }
  }

  /** The saved checkpoint. */
  get checkpoint(): ViewCheckpoint {
    return this.#checkpoint;
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
    await this.#request({ save: checkpoint, readTo });
    this.#checkpoint = checkpoint;
  }

  /** Empties the view; from now on it belongs to the log with this ID. @throws ViewDamaged */
  async reset(logId: string): Promise<void> {
    this.#rows = [];
    this.#checkpoint = NO_CHECKPOINT;
    await this.#request({ reset: logId });
    if (!this.#isClosed) this.#reader ??= this.#openReader();
    this.#checkpoint = { ...NO_CHECKPOINT, logId };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#reader?.db.close(); // first: the last one to close checkpoints
    this.#reader = undefined;
    this.#post({ close: true });
    await this.#exited;
  }

  #handOver(): void {
    if (this.#rows.length > 0) this.#post({ rows: this.#rows });
    this.#rows = [];
  }

  #request(request: AnsweredRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#post(request);
    });
  }

  #post(request: Request): void {
    this.#thread.postMessage(request);
  }

  #handle(reply: Reply): void {
    if ('unsound' in reply) {
      if (this.#reader) this.#discard(new Error(reply.unsound)); // else it is being replaced already
      return;
    }
    if (this.#lateReplies > 0) {
      this.#lateReplies--;
      return;
    }
    const waiting = this.#waiting.shift() as Waiting;
    if ('damaged' in reply) waiting.reject(this.#forget(reply.damaged));
    else if ('failed' in reply) waiting.reject(reply.failed);
    else waiting.resolve();
  }

  /** Has the damaged file removed. */
  #discard(error: Error): ViewDamaged {
    this.#request({ discard: true }).catch(() => {});
    return this.#forget(error.message, error);
  }

  /** The file is damaged and removed. */
  #forget(reason: string, cause?: unknown): ViewDamaged {
    this.replaced = reason;
    this.#reader?.db.close();
    this.#reader = undefined;
    this.#rows = [];
    this.#checkpoint = NO_CHECKPOINT;
    const damaged = this.#damaged(cause);
    this.#lateReplies += this.#waiting.length;
    for (const { reject } of this.#waiting.splice(0)) reject(damaged);
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

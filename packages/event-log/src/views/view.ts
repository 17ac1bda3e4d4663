import type { DatabaseSync } from 'node:sqlite';
import { isSqliteError } from '../disk/sqlite.ts';
import type { EventLog, RecordedEvent } from '../eventStore.ts';
import {
  type Checkpointer,
  isDamage,
  isOtherFile,
  NO_CHECKPOINT,
  type ViewCheckpoint,
  ViewFile,
  type ViewFormat,
} from './viewFile.ts';
import { ViewBehind } from './waiting.ts';

/** How a view is called in logs, and in messages for clients; and its file. */
export type ViewKind = Readonly<{ name: string; title: string; format: ViewFormat }>;

/**
 * A fold of the log into tables of a SQLite file. Events are applied in an open transaction, and queries use the same
 * connection: they see every event that was applied. `save` commits the rows together with the checkpoint; what a crash
 * or a rollback loses is applied again.
 */
export abstract class View {
  readonly name: string;
  readonly title: string;
  readonly format: ViewFormat;
  /** The last event applied, whether it is saved or not. */
  applied: ViewCheckpoint;
  /** Called when the view has lost applied events: it is at its last checkpoint again, or its file is empty. */
  onLost = () => {};
  readonly #file: ViewFile;
  #isClosed = false;

  /** Opens the file; one that is damaged, or of another version, is replaced by an empty one. @throws Error for the operator */
  constructor(file: string, { name, title, format }: ViewKind, checkpointer?: Checkpointer) {
    this.name = name;
    this.title = title;
    this.format = format;
    this.#file = new ViewFile(file, format, checkpointer);
    this.applied = this.#file.checkpoint;
  }

  /** Why a new file was started; undefined if none was. */
  get replaced(): string | undefined {
    return this.#file.replaced;
  }

  /** To be called once by the subclass, when it is complete. */
  protected open(): this {
    try {
      this.load(this.#file.db);
    } catch (error) {
      if (!isOtherFile(error)) throw error;
      this.#replace((error as Error).message);
    }
    return this;
  }

  /** Prepares statements, and what is kept in memory: at the start, after a rollback, and for a new file. */
  protected abstract load(db: DatabaseSync): void;

  /** Applies one event. @throws InvalidEvent, before it has changed anything */
  protected abstract fold(event: RecordedEvent): void;

  /** Before a commit: writes what is kept in memory. */
  protected write(): void {}

  /** Applies events in log order, except those in `skip`. @throws InvalidEvent, with all before it applied; ViewBehind */
  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void {
    this.use(() => {
      this.#file.begin();
      let last: RecordedEvent | undefined;
      try {
        for (const event of events) {
          if (skip.size === 0 || !skip.has(event.id)) this.fold(event);
          last = event;
        }
      } finally {
        if (last) this.applied = { ...this.applied, position: last.position, eventId: last.id };
      }
    });
  }

  /** What contradicts a log that has the event at the checkpoint, before the view follows it. @throws StoreUnavailable */
  async mismatch(_log: EventLog): Promise<string | undefined> {
    return undefined;
  }

  /** Commits the applied events with the checkpoint. @throws Error, ViewBehind; then the view is at its last checkpoint */
  save(): void {
    const { position, logId } = this.#file.checkpoint;
    if (this.applied.position === position && this.applied.logId === logId) return;
    this.use(() => {
      this.#file.assertSame();
      this.#file.begin();
      this.write();
      this.#file.commit(this.applied);
    });
  }

  /** While it is pending, nothing may be applied: the last step of moving the write-ahead log. */
  get pause(): Promise<void> | undefined {
    return this.#file.pause;
  }

  /** Discards the view if another program has changed, removed or replaced its file. @throws ViewBehind */
  check(): void {
    this.use(() => this.#file.assertSame());
  }

  /** Starts the view of the log with this ID. The file of another one is removed, or, with `keepAs`, renamed. */
  reset(logId: string, keepAs?: string): void {
    if (this.applied.eventId !== '' || !this.#file.isOpen) this.#replace('', keepAs);
    this.applied = { ...NO_CHECKPOINT, logId };
    this.save();
  }

  /** Removes the file, for this reason. The view has to be reset and rebuilt. */
  discard(reason: string, cause?: unknown): ViewBehind {
    try {
      this.#replace(reason);
    } finally {
      this.onLost();
    }
    return new ViewBehind(`The ${this.title} is being rebuilt; retry.`, {
      cause: cause ?? new Error(reason),
    });
  }

  /** Saves, and closes the file. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      if (this.#file.isOpen) this.save();
    } catch (error) {
      if (!(error instanceof ViewBehind)) throw error; // the next start rebuilds it
    } finally {
      this.#file.close();
    }
  }

  /** Runs queries or changes. @throws ViewBehind if the file is damaged; what `run` throws */
  protected use<T>(run: () => T): T {
    try {
      return run();
    } catch (error) {
      if (isDamage(error)) throw this.discard((error as Error).message, error);
      if (isSqliteError(error)) this.#rollback();
      throw error;
    }
  }

  #replace(reason: string, keepAs?: string): void {
    this.applied = NO_CHECKPOINT;
    this.#file.replace(reason, keepAs);
    this.load(this.#file.db);
  }

  /** On a full disk, SQLite has rolled back itself. @throws ViewBehind if the file cannot be loaded again */
  #rollback(): void {
    this.#file.rollback();
    this.applied = this.#file.checkpoint;
    try {
      this.load(this.#file.db);
    } catch (error) {
      throw this.discard((error as Error).message, error);
    }
    this.onLost();
  }
}

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

/** The name of a view in logs, its title in messages for clients, and the format of its file. */
export type ViewKind = Readonly<{ name: string; title: string; format: ViewFormat }>;

/**
 * A fold of the log into tables of a SQLite file. Events are applied in an open transaction. Queries use the same
 * connection, so they see every applied event. `save` commits the rows together with the checkpoint; events that a
 * crash or a rollback undoes are applied again.
 */
export abstract class View {
  readonly name: string;
  readonly title: string;
  readonly format: ViewFormat;
  /** The last applied event, saved or not. */
  applied: ViewCheckpoint;
  /** Called when the view has lost applied events: it is back at its last checkpoint, or empty. */
  onLost = () => {};
  readonly #file: ViewFile;
  #isClosed = false;

  /** Opens the file. Replaces it if it is damaged or has another version. @throws Error for the operator */
  constructor(file: string, { name, title, format }: ViewKind, checkpointer?: Checkpointer) {
    this.name = name;
    this.title = title;
    this.format = format;
    this.#file = new ViewFile(file, format, checkpointer);
    this.applied = this.#file.checkpoint;
  }

  /** Why the file was replaced; undefined if it was not. */
  get replaced(): string | undefined {
    return this.#file.replaced;
  }

  /** The subclass calls it once, at the end of its construction. */
  protected open(): this {
    try {
      this.load(this.#file.db);
    } catch (error) {
      if (!isOtherFile(error)) throw error;
      this.#replace((error as Error).message);
    }
    return this;
  }

  /** Prepares statements and state in memory: at the start, after a rollback, and for a new file. */
  protected abstract load(db: DatabaseSync): void;

  /** Applies one event. @throws InvalidEvent, before it has changed anything */
  protected abstract fold(event: RecordedEvent): void;

  /** Writes state in memory to the file, before a commit. */
  protected write(): void {}

  /** Applies events in log order, except those in `skip`. @throws InvalidEvent, after all earlier events; ViewBehind */
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

  /** How the view contradicts its log, although the log has the event at the checkpoint. @throws StoreUnavailable */
  async mismatch(_log: EventLog): Promise<string | undefined> {
    return undefined;
  }

  /** Commits the applied events with the checkpoint. @throws Error, ViewBehind; then the last checkpoint is restored */
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

  /** While this is pending, nothing may be applied: the last step of moving the write-ahead log is running. */
  get pause(): Promise<void> | undefined {
    return this.#file.pause;
  }

  /** Discards the view if another program has changed, removed or replaced its file. @throws ViewBehind */
  check(): void {
    this.use(() => this.#file.assertSame());
  }

  /** Starts an empty view of the log with this ID. The old file is removed or, with `keepAs`, renamed. */
  reset(logId: string, keepAs?: string): void {
    if (this.applied.eventId !== '' || !this.#file.isOpen) this.#replace('', keepAs);
    this.applied = { ...NO_CHECKPOINT, logId };
    this.save();
  }

  /** Removes the file for this reason. Then the view must be reset and rebuilt. */
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

  /** Saves the view and closes its file. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      if (this.#file.isOpen) this.save();
    } catch (error) {
      if (!(error instanceof ViewBehind)) throw error; // the next start rebuilds the view
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

  /** On a full disk, SQLite has already rolled back. @throws ViewBehind if the file cannot be loaded again */
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

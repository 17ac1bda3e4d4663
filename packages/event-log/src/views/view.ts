import type { DatabaseSync } from 'node:sqlite';
import { isSqliteError } from '@event-sourced/node/files';
import type { WalThread } from '../disk/walThread.ts';
import type { EventLog, Position, RecordedEvent } from '../eventStore.ts';
import { type Bookmark, isDamage, NO_BOOKMARK, type ViewDefinition, ViewFile } from './viewFile.ts';
import { ViewBehind } from './waiting.ts';

/**
 * A view: a fold of the log into tables of a SQLite file. A subclass has the fold and the queries, and state of its
 * own: statements, and what it keeps in memory. Events are applied in an open transaction. Queries use the same
 * connection, so they see every applied event. `save` commits the rows together with the bookmark; events that a
 * crash or a rollback undoes are applied again.
 */
export abstract class View<State = unknown> {
  readonly name: string;
  readonly title: string;
  readonly definition: ViewDefinition;
  /** The last applied event, saved or not. */
  progress: Bookmark;
  /** Called when the view has lost applied events: it is back at its last bookmark, or empty. */
  onLost = () => {};
  readonly #file: ViewFile<State>;

  /**
   * Opens a file, or ':memory:'. Replaces the file if it is damaged or has another version.
   * @throws Error for the operator
   */
  constructor(path: string, definition: ViewDefinition, walThread?: WalThread) {
    this.name = definition.name;
    this.title = definition.title;
    this.definition = definition;
    this.#file = new ViewFile(path, definition, (...opened) => this.load(...opened), walThread);
    this.progress = this.#file.bookmark;
  }

  get isOpen(): boolean {
    return this.#file.isOpen;
  }

  /** Why the file was replaced; undefined if it was not. */
  get replaced(): string | undefined {
    return this.#file.replaced;
  }

  /**
   * Prepares the state at a bookmark: when a file is opened, and after a rollback. The constructor calls it, so it
   * uses only its arguments.
   */
  protected abstract load(db: DatabaseSync, bookmark: Bookmark): State;

  /** Applies one event. It reads no clock. @throws InvalidEvent, before it has changed anything */
  protected abstract fold(event: RecordedEvent, state: State): void;

  /** Removes rows from memory, after rows were deleted. */
  protected forget(_state: State): void {}

  /** Writes state in memory to the file, before a commit. */
  protected write(_state: State): void {}

  /** Runs queries or changes. @throws ViewBehind if the file is damaged; what `run` throws */
  protected use<T>(run: (state: State) => T): T {
    if (this.#file.isDiscarded) throw this.#rebuilding();
    try {
      return run(this.#file.state);
    } catch (error) {
      if (isDamage(error)) this.discard((error as Error).message, error);
      if (isSqliteError(error)) this.#rollback();
      throw error;
    }
  }

  /** Applies events in log order, except those in `skip`. @throws InvalidEvent, after all earlier events; ViewBehind */
  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void {
    this.use((state) => {
      this.#file.begin();
      for (const event of events) {
        const { position, id: eventId } = event;
        const { position: last } = this.progress;
        if (position <= last) throw new Error(`the log has position ${position} after position ${last}`);
        if (!skip.has(eventId)) this.fold(event, state);
        this.progress = { logId: this.progress.logId, position, eventId };
      }
    });
  }

  /** Removes what follows from the events at these positions. @throws ViewBehind if the view must be rebuilt */
  erase(positions: readonly Position[]): void {
    if (positions.length === 0) return;
    if (this.definition.onErasure === undefined) this.discard('events were erased');
    this.use((state) => {
      this.#file.begin();
      this.#file.erase(positions);
      this.forget(state);
    });
  }

  /** Removes bytes of erased events, after a `save`. False if it must be repeated: a reader needs them. @throws Error */
  scrub(): Promise<boolean> {
    return this.#file.scrub();
  }

  /** Commits the applied events with the bookmark. @throws Error, ViewBehind; then the last bookmark is restored */
  save(): void {
    const { position, logId } = this.#file.bookmark;
    const isSame = this.progress.position === position && this.progress.logId === logId;
    if (isSame && !this.#file.isChanging) return;
    this.use((state) => {
      this.#file.begin();
      this.write(state);
      this.#file.commit(this.progress);
    });
  }

  /** While this is pending, nothing may be applied: a long write-ahead log is being moved. */
  get pause(): Promise<void> | undefined {
    return this.#file.pause;
  }

  /** How the view contradicts its log, although the log has the event at the bookmark. @throws StoreUnavailable */
  async mismatch(_log: EventLog): Promise<string | undefined> {
    return undefined;
  }

  /** Makes an empty view one of the log with this ID. */
  bind(logId: string): void {
    this.progress = { ...NO_BOOKMARK, logId };
    this.save();
  }

  /** Starts an empty view of the log with this ID. The old file is removed or, with `keepAs`, renamed. */
  async reset(logId: string, keepAs?: string): Promise<void> {
    if (this.progress.eventId !== '' || !this.isOpen) {
      this.progress = NO_BOOKMARK;
      await this.#file.replace(keepAs);
    }
    this.bind(logId);
  }

  /** Closes the file for this reason. Then the view must be reset and rebuilt. @throws ViewBehind, always */
  discard(reason: string, cause: unknown = new Error(reason)): never {
    this.progress = NO_BOOKMARK;
    try {
      this.#file.discard(reason);
    } finally {
      this.onLost();
    }
    throw this.#rebuilding(cause);
  }

  /** Saves the view and closes its file. */
  close(): void {
    try {
      if (this.#file.isOpen) this.save();
    } catch (error) {
      if (!(error instanceof ViewBehind)) throw error; // the next start rebuilds the view
    } finally {
      this.#file.close();
    }
  }

  #rebuilding(cause?: unknown): ViewBehind {
    return new ViewBehind(`The ${this.title} is being rebuilt; retry.`, { cause });
  }

  /** @throws ViewBehind if the state cannot be loaded again */
  #rollback(): void {
    try {
      this.#file.rollback();
    } catch (error) {
      this.discard((error as Error).message, error);
    }
    this.progress = this.#file.bookmark;
    this.onLost();
  }
}

import { setImmediate as nextTurn } from 'node:timers/promises';
import { EVENTS_ERASED, isStub, parseRecord } from '../erasure/erasure.ts';
import {
  type EventLog,
  InvalidEvent,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../eventStore.ts';
import { type Logger, SILENT } from '../logger.ts';
import { backOff, finishedWithin, sleep } from '../time/sleep.ts';
import type { View } from './view.ts';
import { ViewBehind, Waiting } from './waiting.ts';

/** How far a view has caught up: the number of events applied since the start, its position, and the end of the log. */
export type Progress = { events: number; position: Position; end: Position };

type Options<V extends View> = {
  store: EventLog;
  view: V;
  /** IDs of events to skip. */
  skip?: ReadonlySet<string>;
  /** A path to which the file of a view is moved if it does not match its log; by default it is removed. */
  keepMismatchAs?: string;
  /** Awaited before each piece while the view catches up; by default the next turn of the event loop. */
  beforePiece?: () => Promise<unknown>;
  logger?: Logger;
  onProgress?: (progress: Progress) => void;
};

/** The number of events applied between two turns of the event loop: a few milliseconds. */
const PIECE_SIZE = 250;
export const SAVE_INTERVAL_MS = 1_000;
/** Applied events are committed after SAVE_INTERVAL_MS, or at this number: rows of ten thousand users take about 25 ms. */
export const SAVE_BATCH = 4_000;
/** While the view catches up, no reader waits, and larger commits write fewer pages. */
const CATCH_UP_SAVE_BATCH = 10_000;
const MAX_RETRY_DELAY_MS = 2_000;
const STOP_TIMEOUT_MS = 500;

/** Keeps a view up to date with its log: checks that the view belongs to the log, applies each event, and commits. */
export class Follower<V extends View = View> {
  readonly view: V;
  /** Called each time the view becomes readable. */
  onReady = () => {};
  /** Incremented when the view is reset: positions from before may no longer exist. */
  resets = 0;
  /** Incremented when the view is rebuilt because it was damaged or did not match its log. */
  rebuilds = 0;
  /** Incremented when following the log or a commit fails, before it is retried. */
  failures = 0;
  saveFailures = 0;
  /** Pending while the view's file may have bytes of erased events that the view has applied. */
  scrubbing: Promise<void> | undefined;
  readonly #options: Options<V> & Required<Pick<Options<V>, 'skip' | 'logger' | 'beforePiece'>>;
  /** Erasures up to this position were made before the view read its first event: it has nothing of their events. */
  #erasedBefore: Position = START;
  readonly #stopping = new AbortController();
  /** Aborts when the view has lost applied events, which must be read again. */
  #restart = new AbortController();
  /** The view has caught up: it stays readable while the event store is unavailable. */
  #isLive = false;
  /** The invalid event that has halted the projection. */
  #halted: string | undefined;
  /** Why the event store is unavailable; undefined while it is available. */
  #unavailable: string | undefined;
  readonly #waiting = new Waiting();
  readonly #running: Promise<void>;
  #saving: NodeJS.Timeout | undefined;
  /** The number of events since the last commit. */
  #unsaved = 0;
  #failedSaves = 0;

  constructor(options: Options<V>) {
    this.#options = { skip: new Set(), logger: SILENT, beforePiece: () => nextTurn(), ...options };
    this.view = options.view;
    this.view.onLost = () => {
      this.#isLive = false;
      this.#unsaved = 0;
      this.#restart.abort();
    };
    this.#running = this.#run();
  }

  /** Why the view cannot be read; undefined if it can. */
  get notReady(): string | undefined {
    const { name, progress } = this.view;
    if (this.#halted !== undefined) return `${name} has halted: ${this.#halted}`;
    if (this.#isLive) return undefined;
    if (this.#unavailable !== undefined) return `the event store is unavailable: ${this.#unavailable}`;
    return `${name} is catching up with the log, at position ${progress.position}`;
  }

  /** The readable view. @throws ViewBehind */
  get ready(): V {
    if (this.notReady === undefined) return this.view;
    throw new ViewBehind(this.#notUpToDate, { cause: new Error(this.notReady) });
  }

  get #notUpToDate(): string {
    return `The ${this.view.title} is not up to date yet; retry.`;
  }

  /**
   * Resolves once the view has caught up with the log with this ID, and has applied the event at this position.
   * @throws ViewBehind, after an optional timeout, and at once if the projection has halted
   */
  async reached(position: Position, logId?: string, timeoutMs?: number): Promise<void> {
    const isReached = (): boolean => {
      if (this.#halted !== undefined) throw new ViewBehind(`The ${this.view.title} is unavailable.`);
      const { progress } = this.view;
      const isSameLog = logId === undefined || progress.logId === logId;
      return this.#isLive && isSameLog && progress.position >= position;
    };
    if (isReached()) return;
    await this.#waiting.until(isReached, this.#notUpToDate, timeoutMs);
  }

  /** Commits now. @throws ViewBehind if that fails, or has failed and is not yet retried */
  save(): void {
    if (this.#failedSaves === 0) this.#save();
    if (this.#failedSaves > 0) throw new ViewBehind(`The ${this.view.title} cannot be saved; retry.`);
  }

  /** Stops following. Applied events may not be committed yet. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#saving);
    await finishedWithin(STOP_TIMEOUT_MS, Promise.all([this.#running, this.scrubbing]));
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 0; !signal.aborted; ) {
      const { position } = this.view.progress;
      try {
        await this.#follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof InvalidEvent) return this.#halt(error);
        if (error instanceof ViewBehind) continue; // the view is rebuilt, with a warning
        failures = this.view.progress.position > position ? 1 : failures + 1;
        const delayMs = backOff(failures, MAX_RETRY_DELAY_MS);
        this.#handleFailure(error as Error, delayMs);
        await sleep(delayMs, signal);
      }
    }
  }

  /** Follows the log from the view's checkpoint, until the view has lost events or the follower stops. */
  async #follow(): Promise<void> {
    const { store, view, logger, onProgress } = this.#options;
    this.#restart = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#restart.signal]);
    await this.#bind();
    const from = view.progress.position;
    const end = await store.lastPosition();
    this.#erasedBefore = from === START ? end : START;
    if (this.#unavailable !== undefined) logger.info({ view: view.name }, 'event store available');
    this.#unavailable = undefined;
    let applied = 0;
    for await (const { events, caughtUp } of store.subscribe({ after: from, signal })) {
      if (events.length > 0 && view.progress.logId === NO_LOG_ID) await this.#bind();
      await this.#applyInPieces(events, signal);
      if (signal.aborted) return;
      applied += events.length;
      if (!this.#isLive) {
        const { position } = view.progress;
        onProgress?.({ events: applied, position, end: caughtUp ? position : end });
        // Up to the end that the log had at the start, so reads never go back behind earlier reads.
        if (caughtUp && position >= end) this.#goLive(from);
      }
      this.#waiting.check();
    }
  }

  /** Resets a view of another log, or a view that has applied events that the log has lost. */
  async #bind(): Promise<void> {
    const { store, view, logger, keepMismatchAs } = this.#options;
    const { logId, eventId } = view.progress;
    const isEmpty = eventId === '';
    const current = await store.logId();
    if (current === NO_LOG_ID && !isEmpty)
      throw new StoreUnavailable(`it has no events, but the view ${view.name} is of log ${logId}`);
    const mismatch = await this.#mismatch(current);
    if (mismatch === undefined || this.#stopping.signal.aborted) return;
    const reason = isEmpty ? view.replaced : mismatch;
    const copy = isEmpty ? undefined : keepMismatchAs;
    if (reason) {
      this.rebuilds++;
      logger.warn({ view: view.name, reason, copy }, 'rebuilding view');
    }
    this.#isLive = false;
    if (logId !== NO_LOG_ID) this.resets++;
    view.reset(current, copy);
  }

  /** Why the view is not of the log with this ID; undefined if it is. */
  async #mismatch(current: string): Promise<string | undefined> {
    const { store, view } = this.#options;
    const { logId, position, eventId } = view.progress;
    if (logId !== current) return 'it belongs to another log';
    if (eventId === '') return undefined;
    store.hadPosition?.(position);
    const last = await store.readEvent(position);
    const hasEvent = last && (last.id === eventId || isStub(last));
    return hasEvent ? view.mismatch(store) : 'the log has lost events, as after a restore';
  }

  /** Ends early if the signal aborts: the view was reset after these events. */
  async #applyInPieces(events: readonly RecordedEvent[], signal: AbortSignal): Promise<void> {
    let isFirst = true;
    for (const piece of pieces(events)) {
      if (!this.#isLive) await this.#options.beforePiece();
      else if (!isFirst) await nextTurn();
      isFirst = false;
      await this.#eraseNamedBy(piece[0] as RecordedEvent, signal);
      while (this.view.pause) await this.view.pause;
      if (signal.aborted) return;
      this.#apply(piece);
    }
    const isErased = this.#isLive && this.view.isUnscrubbed && this.scrubbing === undefined;
    if (isErased && this.#failedSaves === 0) this.#save();
  }

  /**
   * Erases what a record names, piece by piece, before the record itself is applied: a commit in between is repeated after a
   * crash. Only stubs count: another program may have written the record.
   */
  async #eraseNamedBy({ type, data, position }: RecordedEvent, signal: AbortSignal): Promise<void> {
    const { store, view } = this.#options;
    const isNew = position > this.#erasedBefore;
    if (type !== EVENTS_ERASED || !isNew || !store.positionOf) return;
    const named = parseRecord(data) ?? [];
    for (let i = 0; i < named.length; i += PIECE_SIZE) {
      const positions = named.slice(i, i + PIECE_SIZE).map(store.positionOf);
      const found = await Promise.all(positions.map((at) => store.readEvent(at)));
      while (view.pause) await view.pause;
      if (signal.aborted) return;
      view.erase(positions.filter((at, j) => at < position && found[j] && isStub(found[j])));
      await nextTurn();
    }
  }

  #apply(events: readonly RecordedEvent[]): void {
    const { view, skip, logger } = this.#options;
    view.apply(events, skip);
    for (const { id, position } of events)
      if (skip.has(id))
        logger.warn({ view: view.name, eventId: id, position: String(position) }, 'event skipped');
    this.#unsaved += events.length;
    const batch = this.#isLive ? SAVE_BATCH : CATCH_UP_SAVE_BATCH;
    if (this.#unsaved >= batch && this.#failedSaves === 0) this.#save();
    else this.#scheduleSave();
  }

  #scheduleSave(): void {
    const delayMs =
      this.#failedSaves === 0 ? SAVE_INTERVAL_MS : backOff(this.#failedSaves, MAX_RETRY_DELAY_MS);
    this.#saving ??= setTimeout(() => this.#save(), delayMs).unref();
  }

  /** After a failure the view is at its last checkpoint: lost events are applied again, and saved later. */
  #save(): void {
    const { view, logger } = this.#options;
    clearTimeout(this.#saving);
    this.#saving = undefined;
    this.#unsaved = 0;
    try {
      view.save();
      this.#failedSaves = 0;
      this.#scrub();
    } catch (error) {
      if (error instanceof ViewBehind) return;
      logger.error({ view: view.name, err: error }, 'saving the view failed; retrying');
      this.saveFailures++;
      this.#failedSaves++;
      this.#scheduleSave();
    }
  }

  /** Removes bytes of erased events from the file, once for all erasures that the view catches up with. */
  #scrub(): void {
    if (this.#isLive && this.view.isUnscrubbed)
      this.scrubbing ??= this.#runScrub().finally(() => {
        this.scrubbing = undefined;
      });
  }

  async #runScrub(): Promise<void> {
    const { view, logger } = this.#options;
    const { signal } = this.#stopping;
    for (let attempts = 1; view.isUnscrubbed && !signal.aborted; attempts++) {
      try {
        await view.scrub();
      } catch (error) {
        logger.warn(
          { view: view.name, reason: (error as Error).message },
          'scrubbing the view failed; retrying',
        );
      }
      if (view.isUnscrubbed) await sleep(backOff(attempts, MAX_RETRY_DELAY_MS), signal);
    }
  }

  #goLive(from: Position): void {
    const { view, logger } = this.#options;
    const { position } = view.progress;
    this.#isLive = true;
    this.#scrub();
    if (position > from)
      logger.info({ view: view.name, from: String(from), to: String(position) }, 'view caught up');
    this.onReady();
  }

  #handleFailure(error: Error, delayMs: number): void {
    const { view, logger } = this.#options;
    if (error instanceof StoreUnavailable) {
      if (this.#unavailable === undefined)
        logger.warn(
          { view: view.name, reason: error.message },
          'event store unavailable; projection is waiting',
        );
      this.#unavailable = error.message;
    } else if (error instanceof LogReplaced) {
      logger.warn({ view: view.name, reason: error.message }, 'projection restarts');
    } else {
      this.failures++;
      logger.error({ view: view.name, err: error, delayMs }, 'projection failed; retrying');
    }
  }

  #halt(error: InvalidEvent): void {
    const { view, logger } = this.#options;
    this.#halted = error.message;
    logger.fatal(
      { view: view.name, err: error, eventId: error.eventId },
      `projection halted on an invalid event; SKIP_EVENTS=${error.eventId} skips it`,
    );
    this.#waiting.check();
  }
}

/** Pieces of at most PIECE_SIZE events. A record is the first event of its piece. */
function* pieces(events: readonly RecordedEvent[]): Generator<readonly RecordedEvent[]> {
  let start = 0;
  for (let end = 1; end <= events.length; end++) {
    const isEnd = end === events.length || events[end]?.type === EVENTS_ERASED;
    if (!isEnd && end - start < PIECE_SIZE) continue;
    yield events.slice(start, end);
    start = end;
  }
}

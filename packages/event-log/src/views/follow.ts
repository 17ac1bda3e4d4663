import { setImmediate as nextTurn } from 'node:timers/promises';
import { backOff, finishedWithin, sleep } from '@event-sourced/node/time';
import { EVENTS_ERASED, isStub } from '../erasure/erasure.ts';
import {
  type EventLog,
  EventUnreadable,
  InvalidEvent,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../eventStore.ts';
import { type Logger, SILENT } from '../logger.ts';
import { traceEvents } from '../tracing/spans.ts';
import { stubsNamedBy } from './erasedEvents.ts';
import { Saver } from './saver.ts';
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
const MAX_RETRY_DELAY_MS = 2_000;
const STOP_TIMEOUT_MS = 500;

/** Keeps a view up to date with its log: checks that the view belongs to the log, applies each event, and commits. */
export class Follower<V extends View = View> {
  readonly view: V;
  /** Called each time the view becomes readable. */
  onReady = () => {};
  /** Called when the view has applied erasures: its file must be scrubbed. */
  onErasure = () => {};
  /** Incremented when the view is reset: positions from before may no longer exist. */
  resets = 0;
  /** Incremented when the view is rebuilt because it was damaged or did not match its log. */
  rebuilds = 0;
  /** Incremented when following the log fails, before it is retried. */
  failures = 0;
  readonly #options: Options<V> & Required<Pick<Options<V>, 'skip' | 'logger' | 'beforePiece'>>;
  readonly #saver: Saver;
  readonly #waiting = new Waiting();
  readonly #stopping = new AbortController();
  /** Aborts when the view has lost applied events, which must be read again. */
  #restart = new AbortController();
  /** The view has caught up: it stays readable while the event store is unavailable. */
  #isLive = false;
  /** Why the view halts on an event, or waits for the event store. */
  #problem: { halted: string } | { unavailable: string } | undefined;
  /** Why following the log fails. */
  #failure: Error | undefined;
  readonly #running: Promise<void>;

  constructor(options: Options<V>) {
    this.#options = { skip: new Set(), logger: SILENT, beforePiece: () => nextTurn(), ...options };
    this.view = options.view;
    this.#saver = new Saver(this.view, this.#options.logger);
    this.view.onLost = () => {
      this.#isLive = false;
      this.#restart.abort();
    };
    this.#running = this.#run();
  }

  /** Incremented when a commit fails, before it is retried. */
  get saveFailures(): number {
    return this.#saver.failures;
  }

  /** Whether an event that is invalid, or cannot be read, has halted the projection. */
  get isHalted(): boolean {
    return this.#problem !== undefined && 'halted' in this.#problem;
  }

  /** Why the view cannot be read; undefined if it can. */
  get notReady(): string | undefined {
    const { name, progress } = this.view;
    const problem = this.#problem;
    if (problem && 'halted' in problem) return `${name} has halted: ${problem.halted}`;
    if (this.#isLive) return undefined;
    if (problem) return `the event store is unavailable: ${problem.unavailable}`;
    return `${name} is catching up with the log, at position ${progress.position}`;
  }

  /** The readable view. @throws ViewBehind */
  get readable(): V {
    if (this.notReady === undefined) return this.view;
    throw new ViewBehind(this.#notUpToDate, { cause: new Error(this.notReady) });
  }

  get #notUpToDate(): string {
    return `The ${this.view.title} is not up to date yet; retry.`;
  }

  /**
   * Resolves once the view has caught up with the log with this ID, and has applied the event at this position.
   * @throws ViewBehind, after an optional timeout, and at once if the projection has halted. Without a timeout, why
   * following the log fails, at once: the log may be damaged for good
   */
  async reached(position: Position, logId?: string, timeoutMs?: number): Promise<void> {
    const isReached = (): boolean => {
      if (this.isHalted) throw new ViewBehind(`The ${this.view.title} is unavailable.`);
      const { progress } = this.view;
      const isSameLog = logId === undefined || progress.logId === logId;
      if (this.#isLive && isSameLog && progress.position >= position) return true;
      if (this.#failure && timeoutMs === undefined) throw this.#failure;
      return false;
    };
    if (isReached()) return;
    await this.#waiting.until(isReached, this.#notUpToDate, timeoutMs);
  }

  /** Commits now. @throws ViewBehind if that fails, or has failed and is not yet retried */
  save(): void {
    this.#saver.save();
  }

  /** Commits, and removes bytes of erased events; false if that must be repeated. @throws ViewBehind, Error */
  async scrub(): Promise<boolean> {
    this.#saver.save();
    return this.view.scrub();
  }

  /** Stops following. Applied events may not be committed yet. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#saver.stop();
    await finishedWithin(STOP_TIMEOUT_MS, this.#running);
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
        this.#waiting.check();
        await sleep(delayMs, signal);
      }
    }
  }

  /** Follows the log from the view's bookmark, until the view has lost events or the follower stops. */
  async #follow(): Promise<void> {
    const { store, view, beforePiece, onProgress } = this.#options;
    this.#restart = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#restart.signal]);
    await this.#bind();
    const from = view.progress.position;
    const end = await store.lastPosition();
    let applied = 0;
    for await (const { events, caughtUp } of store.subscribe({ after: from, signal })) {
      this.#handleAvailable();
      if (events.length > 0 && view.progress.logId === NO_LOG_ID) await this.#bind();
      for (const [i, piece] of pieces(events).entries()) {
        if (i > 0 || !this.#isLive) await beforePiece();
        const isNew = piece[0].position > end;
        // A new view has nothing of what was erased before it read its first event.
        if (from > START || isNew) await this.#erase(piece[0], signal);
        while (view.pause) await view.pause;
        if (signal.aborted) return; // the view was reset after these events
        this.#apply(piece, isNew);
      }
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

  #apply(events: readonly RecordedEvent[], isNew: boolean): void {
    const { view, skip, logger } = this.#options;
    const startedAt = performance.now();
    view.apply(events, skip);
    // The traces of earlier events have ended.
    if (isNew) traceEvents('fold', events, startedAt, { view: view.name });
    for (const { id, position } of events)
      if (skip.has(id))
        logger.warn({ view: view.name, eventId: id, position: String(position) }, 'event skipped');
    this.#saver.applied(events.length, this.#isLive);
  }

  /** Erases what a record names, before the record itself is applied: a commit in between is repeated after a crash. */
  async #erase(record: RecordedEvent, signal: AbortSignal): Promise<void> {
    const { store, view } = this.#options;
    if (record.type !== EVENTS_ERASED) return;
    for await (const positions of stubsNamedBy(record, store)) {
      while (view.pause) await view.pause;
      if (signal.aborted) return;
      view.erase(positions);
      await nextTurn();
    }
    this.onErasure();
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
    await view.reset(current, copy);
  }

  /** Why the view is not of the log with this ID; undefined if it is. */
  async #mismatch(current: string): Promise<string | undefined> {
    const { store, view } = this.#options;
    const { logId, position, eventId } = view.progress;
    if (logId !== current || !view.isOpen) return 'it belongs to another log';
    if (eventId === '') return undefined;
    store.hadPosition?.(position);
    const last = await store.readEvent(position);
    const hasEvent = last && (last.id === eventId || isStub(last));
    return hasEvent ? view.mismatch(store) : 'the log has lost events, as after a restore';
  }

  #goLive(from: Position): void {
    const { view, logger } = this.#options;
    const { position } = view.progress;
    this.#isLive = true;
    if (position > from)
      logger.info({ view: view.name, from: String(from), to: String(position) }, 'view caught up');
    this.onReady();
  }

  #handleAvailable(): void {
    if (this.#problem) this.#options.logger.info({ view: this.view.name }, 'event store available');
    this.#problem = undefined;
    this.#failure = undefined;
  }

  #handleFailure(error: Error, delayMs: number): void {
    const { view, logger } = this.#options;
    if (!(error instanceof LogReplaced)) this.#failure = error;
    const isRepeated = this.#problem !== undefined && Object.values(this.#problem).includes(error.message);
    if (error instanceof EventUnreadable && (isRepeated || this.isHalted)) {
      // Not the first time: the server may have failed for another reason.
      if (!this.isHalted)
        logger.error(
          { view: view.name, reason: error.message },
          'projection halted on an event that cannot be read; retrying',
        );
      this.#problem = { halted: error.message };
    } else if (error instanceof StoreUnavailable) {
      if (!this.#problem)
        logger.warn(
          { view: view.name, reason: error.message },
          'event store unavailable; projection is waiting',
        );
      if (!this.isHalted) this.#problem = { unavailable: error.message };
    } else if (error instanceof LogReplaced) {
      logger.warn({ view: view.name, reason: error.message }, 'projection restarts');
    } else {
      this.failures++;
      logger.error({ view: view.name, err: error, delayMs }, 'projection failed; retrying');
    }
  }

  #halt(error: InvalidEvent): void {
    const { view, logger } = this.#options;
    this.#problem = { halted: error.message };
    logger.fatal(
      { view: view.name, err: error, eventId: error.eventId },
      `projection halted on an invalid event; SKIP_EVENTS=${error.eventId} skips it`,
    );
    this.#waiting.check();
  }
}

type Piece = readonly [RecordedEvent, ...RecordedEvent[]];

/** Pieces of at most PIECE_SIZE events. A record is the first event of its piece. */
function pieces(events: readonly RecordedEvent[]): Piece[] {
  const found: Piece[] = [];
  let start = 0;
  for (let end = 1; end <= events.length; end++) {
    const isEnd = end === events.length || events[end]?.type === EVENTS_ERASED;
    if (!isEnd && end - start < PIECE_SIZE) continue;
    found.push(events.slice(start, end) as unknown as Piece);
    start = end;
  }
  return found;
}

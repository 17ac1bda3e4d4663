import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type EventLog,
  InvalidEvent,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../eventStore.ts';
import { type Logger, SILENT } from '../logger.ts';
import { backOff, finishedWithin, sleep } from '../time/sleep.ts';
import type { View } from './view.ts';
import { ViewBehind, Waiting } from './waiting.ts';

/** A view's progress: the number of events applied since the start, its position, and the end of the log. */
export type Progress = { events: number; position: Position; end: Position };

type Options<V extends View> = {
  store: EventLog;
  view: V;
  /** IDs of events to skip. */
  skip?: ReadonlySet<string>;
  /** A path to which the file of a view is moved if it does not match its log; by default it is removed. */
  keepMismatchAs?: string;
  /** Awaited between pieces while the view catches up; by default the next turn of the event loop. */
  turn?: () => Promise<unknown>;
  logger?: Logger;
  onProgress?: (progress: Progress) => void;
};

/** The number of events applied between two turns of the event loop: a few milliseconds. */
const PIECE_SIZE = 250;
/** Applied events are committed after this time, or when the commit would take about COMMIT_MS. */
export const SAVE_INTERVAL_MS = 1_000;
const COMMIT_MS = 20;
const MIN_SAVE_BATCH = 250;
const MAX_SAVE_BATCH = 10_000;
/** Smaller commits do not predict the duration of larger ones. */
const MEASURED_BATCH = 100;
const CHECK_INTERVAL_MS = 1_000;
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
  readonly #options: Options<V> & { skip: ReadonlySet<string>; logger: Logger };
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
  readonly #checking: NodeJS.Timeout;
  #saving: NodeJS.Timeout | undefined;
  /** The number of events since the last commit, and the number at which the next commit is due. */
  #unsaved = 0;
  #saveBatch = MIN_SAVE_BATCH;
  #failedSaves = 0;

  constructor(options: Options<V>) {
    this.#options = { skip: new Set(), logger: SILENT, ...options };
    this.view = options.view;
    this.view.onLost = () => {
      this.#isLive = false;
      this.#unsaved = 0;
      this.#restart.abort();
    };
    this.#checking = setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref();
    this.#running = this.#run();
  }

  /** Why the view cannot be read; undefined if it can. */
  get notReady(): string | undefined {
    const { name, applied } = this.view;
    if (this.#halted !== undefined) return `${name} has halted: ${this.#halted}`;
    if (this.#isLive) return undefined;
    return this.#unavailable === undefined
      ? `${name} is catching up with the log, at position ${applied.position}`
      : `the event store is unavailable: ${this.#unavailable}`;
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
      const { applied } = this.view;
      const isSameLog = logId === undefined || applied.logId === logId;
      return this.#isLive && isSameLog && applied.position >= position;
    };
    if (isReached()) return;
    await this.#waiting.until(isReached, this.#notUpToDate, timeoutMs);
  }

  /** Stops following. Applied events may not be committed yet. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#checking);
    clearTimeout(this.#saving);
    await finishedWithin(STOP_TIMEOUT_MS, this.#running);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 0; !signal.aborted; ) {
      const { position } = this.view.applied;
      try {
        await this.#follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof InvalidEvent) return this.#halt(error);
        if (error instanceof ViewBehind) continue; // the view is rebuilt, with a warning
        failures = this.view.applied.position > position ? 1 : failures + 1;
        const delayMs = backOff(failures, MAX_RETRY_DELAY_MS);
        this.#handleFailure(error as Error, delayMs);
        await sleep(delayMs, signal);
      }
    }
  }

  async #follow(): Promise<void> {
    const { store, view, logger, onProgress, turn = nextTurn } = this.#options;
    this.#restart = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#restart.signal]);
    await this.#bind();
    const from = view.applied.position;
    const end = await store.lastPosition();
    if (this.#unavailable !== undefined) logger.info({ view: view.name }, 'event store available');
    this.#unavailable = undefined;
    let applied = 0;
    for await (const { events, caughtUp } of store.subscribe({ after: from, signal })) {
      if (events.length > 0 && view.applied.logId === NO_LOG_ID) await this.#bind();
      for (let i = 0; i < events.length; i += PIECE_SIZE) {
        if (i > 0 || !this.#isLive) await (this.#isLive ? nextTurn() : turn());
        await view.pause;
        if (signal.aborted) return; // the view was reset after these events
        this.#apply(events.slice(i, i + PIECE_SIZE));
      }
      if (signal.aborted) return;
      applied += events.length;
      if (!this.#isLive) {
        const { position } = view.applied;
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
    const { logId, position, eventId } = view.applied;
    const current = await store.logId();
    if (current === NO_LOG_ID && eventId !== '')
      throw new StoreUnavailable(`it has no events, but the view ${view.name} is of log ${logId}`);
    let mismatch = logId === current ? undefined : 'it belongs to another log';
    if (mismatch === undefined) {
      if (eventId === '') return;
      store.hadPosition?.(position);
      const isInLog = (await store.readEvent(position))?.id === eventId;
      mismatch = isInLog ? await view.mismatch(store) : 'the log has lost events, as after a restore';
      if (mismatch === undefined) return;
    }
    if (this.#stopping.signal.aborted) return;
    const reason = eventId === '' ? view.replaced : mismatch;
    const copy = eventId === '' ? undefined : keepMismatchAs;
    if (reason) {
      this.rebuilds++;
      logger.warn({ view: view.name, reason, copy }, 'rebuilding view');
    }
    this.#isLive = false;
    if (logId !== NO_LOG_ID) this.resets++;
    view.reset(current, copy);
  }

  #apply(events: readonly RecordedEvent[]): void {
    const { view, skip, logger } = this.#options;
    view.apply(events, skip);
    for (const { id, position } of skip.size > 0 ? events : [])
      if (skip.has(id))
        logger.warn({ view: view.name, eventId: id, position: String(position) }, 'event skipped');
    this.#unsaved += events.length;
    const batch = this.#isLive ? this.#saveBatch : MAX_SAVE_BATCH;
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
    const start = performance.now();
    try {
      view.save();
      this.#failedSaves = 0;
    } catch (error) {
      if (error instanceof ViewBehind) return;
      logger.error({ view: view.name, err: error }, 'saving the view failed; retrying');
      this.saveFailures++;
      this.#failedSaves++;
      this.#scheduleSave();
    }
    const perEvent = (performance.now() - start) / this.#unsaved;
    if (this.#unsaved >= MEASURED_BATCH && this.#failedSaves === 0)
      this.#saveBatch = Math.min(Math.max(COMMIT_MS / perEvent, MIN_SAVE_BATCH), MAX_SAVE_BATCH);
    this.#unsaved = 0;
  }

  #check(): void {
    const { view, logger } = this.#options;
    try {
      view.check();
    } catch (error) {
      if (!(error instanceof ViewBehind))
        logger.error({ view: view.name, err: error }, 'view cannot be checked');
    }
  }

  #goLive(from: Position): void {
    const { view, logger } = this.#options;
    const { position } = view.applied;
    this.#isLive = true;
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

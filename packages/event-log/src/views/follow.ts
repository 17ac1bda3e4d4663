import {
  type EventLog,
  InvalidEvent,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type ReadTo,
  type RecordedEvent,
  StoreUnavailable,
} from '../eventStore.ts';
import { type Logger, SILENT } from '../logger.ts';
import { backOff, finishedWithin, sleep, unlessAborted } from '../time/sleep.ts';
import { type View, ViewDamaged } from './view.ts';
import { ViewBehind, Waiting } from './waiting.ts';

/** How far a view has caught up: events applied since it started, its position, and that of the end of the log. */
export type Progress = { events: number; position: Position; end: Position };

type Options = {
  store: EventLog;
  view: View;
  /** IDs of events to skip. */
  skip?: ReadonlySet<string>;
  saveIntervalMs?: number;
  logger?: Logger;
  onProgress?: (progress: Progress) => void;
  /** Called when the log was read further without an event for the view. */
  onReadTo?: (readTo: ReadTo) => void;
};

/** Applied events are saved together when one of these is reached. */
const SAVE_BATCH_EVENTS = 10_000;
const SAVE_BATCH_CHARACTERS = 16 * 1024 * 1024;
export const SAVE_INTERVAL_MS = 1_000;
/** With more batches in memory the follower waits. */
const MAX_UNSAVED_BATCHES = 2;
const MAX_UNSAVED_BATCHES_IF_FAILING = 20;
const UNSAVED_POLL_MS = 100;
/** How far the log was read is saved also while there are no events to save. */
const SAVE_READ_TO_INTERVAL_MS = 10_000;
const MAX_RETRY_DELAY_MS = 2_000;
const STOP_TIMEOUT_MS = 500;

/** Keeps a view up to date with its log: checks that it belongs to the log, then applies each event. */
export class Follower {
  readonly view: View;
  /** How often the view has been reset: positions of before may be gone from the log. */
  resets = 0;
  /** How often the view has been rebuilt, since it was damaged or did not fit its log. */
  rebuilds = 0;
  readonly #options: Options & { skip: ReadonlySet<string>; logger: Logger };
  readonly #saver: Saver;
  readonly #stopping = new AbortController();
  /** Aborts when the view is damaged: the subscription has to start from the beginning. */
  #damaged = new AbortController();
  /** It has caught up: it is read even while the event store is unavailable. */
  #isLive = false;
  /** Why it has halted on an invalid event. */
  #halted: string | undefined;
  /** Why the event store is unavailable; undefined while it is available. */
  #unavailable: string | undefined;
  /** Aborts to end the wait before another attempt. */
  #waking = new AbortController();
  readonly #waiting = new Waiting();
  readonly #running: Promise<void>;

  constructor(options: Options) {
    this.#options = { skip: new Set(), logger: SILENT, ...options };
    this.view = options.view;
    this.#saver = new Saver(options.view, this.#options.logger, options.saveIntervalMs ?? SAVE_INTERVAL_MS);
    this.view.onDamage = () => {
      this.#isLive = false;
      this.#damaged.abort();
    };
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

  /** Up to here the view has every event of its log. */
  get readTo(): Position {
    const { applied, readTo } = this.view;
    return readTo && readTo.position > applied.position ? readTo.position : applied.position;
  }

  /**
   * Resolves once the view has caught up with the log with this ID, and has reached a position of it.
   * @throws ViewBehind, at once if the projection has halted
   */
  async reached(position: Position, logId?: string): Promise<void> {
    const isReached = (): boolean => {
      if (this.#halted !== undefined) throw new ViewBehind(`The ${this.view.title} is unavailable.`);
      const { applied } = this.view;
      const isSameLog = logId === undefined || applied.logId === logId;
      return this.notReady === undefined && isSameLog && this.readTo >= position;
    };
    if (isReached()) return;
    await this.#waiting.until(isReached, `The ${this.view.title} is not up to date yet; retry.`);
  }

  get saveFailures(): number {
    return this.#saver.allFailures;
  }

  /** To be called when the event store has stored an event: it is available, if it was not before. */
  wake(): void {
    if (this.#unavailable !== undefined) this.#waking.abort();
  }

  /** Stops following. Applied events may not be saved yet. */
  async stop(): Promise<void> {
    this.#saver.stop();
    this.#stopping.abort();
    await finishedWithin(STOP_TIMEOUT_MS, this.#running);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let wasWoken = false; // a write ends one wait; what still fails is retried with back-off
    for (let failures = 0; !signal.aborted; ) {
      const { position } = this.view.applied;
      try {
        await this.#follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof InvalidEvent) return this.#halt(error);
        const hasProgressed = this.view.applied.position > position;
        failures = hasProgressed ? 1 : failures + 1;
        if (hasProgressed) wasWoken = false;
        const delay = backOff(failures, MAX_RETRY_DELAY_MS);
        this.#handleFailure(error as Error, delay);
        this.#waking = new AbortController();
        await sleep(delay, wasWoken ? signal : AbortSignal.any([signal, this.#waking.signal]));
        wasWoken ||= this.#waking.signal.aborted;
      }
    }
  }

  async #follow(): Promise<void> {
    const { store, view, logger, onProgress } = this.#options;
    this.#damaged = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#damaged.signal]);
    await this.#bind();
    const from = view.applied.position;
    const after = await this.#start();
    const end = await store.lastPosition();
    if (this.#unavailable !== undefined) logger.info('event store available');
    this.#unavailable = undefined;
    let applied = 0;
    for await (const { events, caughtUp, readTo } of store.subscribe({ after, signal })) {
      if (signal.aborted) return; // the events belong to a view that is gone
      if (events.length > 0 && view.applied.logId === NO_LOG_ID) await this.#bind();
      if (signal.aborted) return; // the view is not bound to the log
      this.#apply(events);
      if (readTo) this.#advance(readTo);
      applied += events.length;
      if (!this.#isLive) {
        const { position } = view.applied;
        onProgress?.({ events: applied, position, end: caughtUp ? position : end });
        if (caughtUp) this.#goLive(from);
      }
      this.#waiting.check();
      await this.#saver.saveIfDue(signal);
    }
  }

  /** A view of another log, or of a log that has lost events that the view has applied, is reset. */
  async #bind(): Promise<void> {
    const { store, view, logger } = this.#options;
    const { logId, eventId } = view.applied;
    const current = await store.logId();
    const mismatch = await this.#mismatch(current);
    if (mismatch === undefined) return;
    const reason = eventId === '' ? view.replaced : mismatch;
    const copy = eventId === '' ? undefined : view.keepCopy?.();
    if (reason) {
      this.rebuilds++;
      logger.warn({ view: view.name, reason, copy }, 'rebuilding view');
    }
    if (this.#stopping.signal.aborted) return;
    this.#isLive = false;
    if (logId !== NO_LOG_ID) this.resets++;
    await view.reset(current);
  }

  /** Where to subscribe: the event up to which the log was read may be gone, since it is not one of the view. */
  async #start(): Promise<Position> {
    const { store, view } = this.#options;
    const { readTo } = view;
    if (readTo && this.readTo === readTo.position) {
      if ((await store.readEvent(readTo.position))?.id === readTo.eventId) this.#advance(readTo);
      else view.readTo = undefined;
    }
    return this.readTo;
  }

  #advance(readTo: ReadTo): void {
    this.view.readTo = readTo;
    this.#options.onReadTo?.(readTo);
  }

  /** Why the view does not fit the log with this ID; undefined if it does. */
  async #mismatch(current: string): Promise<string | undefined> {
    const { store, view } = this.#options;
    const { logId, position, eventId } = view.applied;
    if (logId !== current) return 'it belongs to another log';
    if (eventId === '') return undefined;
    store.hadPosition?.(position);
    if ((await store.readEvent(position))?.id !== eventId)
      return 'the log has lost events, as after a restore';
    return view.mismatch?.(store);
  }

  #apply(events: readonly RecordedEvent[]): void {
    const { view, skip, logger } = this.#options;
    view.apply(events, skip);
    for (const { id, position } of skip.size > 0 ? events : [])
      if (skip.has(id))
        logger.warn({ view: view.name, eventId: id, position: String(position) }, 'event skipped');
  }

  #goLive(from: Position): void {
    const { view, logger } = this.#options;
    const { position } = view.applied;
    this.#isLive = true;
    if (position > from)
      logger.info({ view: view.name, from: String(from), to: String(position) }, 'view caught up');
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
    } else if (error instanceof ViewDamaged) {
      return; // the next attempt rebuilds it, with a warning
    } else if (error instanceof LogReplaced) {
      logger.warn({ view: view.name, reason: error.message }, 'projection restarts');
    } else {
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

/** Saves a view now and then. While that fails, as on a full disk, its rows stay in memory. */
class Saver {
  readonly #view: View;
  readonly #logger: Logger;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;
  #savedReadTo: ReadTo | undefined;
  #readToSavedAt = performance.now();
  /** All failures, and those since the last success. */
  allFailures = 0;
  #failures = 0;
  #saving: Promise<void> | undefined;
  #isStopped = false;

  constructor(view: View, logger: Logger, intervalMs: number) {
    this.#view = view;
    this.#savedReadTo = view.readTo;
    this.#logger = logger;
    this.#intervalMs = intervalMs;
  }

  /** Saves a full batch, or soon what there is. Waits while too much is unsaved. */
  async saveIfDue(signal: AbortSignal): Promise<void> {
    this.#schedule();
    while (this.#isFull && !signal.aborted)
      await unlessAborted(this.#saving ?? sleep(UNSAVED_POLL_MS, signal), signal);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** Batches that are unsaved, by events or by their size. */
  get #batches(): number {
    const { unsaved, unsavedCharacters } = this.#view;
    return Math.max(unsaved / SAVE_BATCH_EVENTS, unsavedCharacters / SAVE_BATCH_CHARACTERS);
  }

  get #isFull(): boolean {
    return this.#batches >= (this.#failures === 0 ? MAX_UNSAVED_BATCHES : MAX_UNSAVED_BATCHES_IF_FAILING);
  }

  #schedule(): void {
    if (this.#saving || this.#isStopped || (this.#view.unsaved === 0 && !this.#isReadToDue)) return;
    if (this.#batches >= 1 && this.#failures === 0) this.#save();
    else this.#timer ??= setTimeout(() => this.#save(), this.#intervalMs).unref();
  }

  get #isReadToDue(): boolean {
    const isSaved = this.#view.readTo === this.#savedReadTo;
    return !isSaved && performance.now() - this.#readToSavedAt >= SAVE_READ_TO_INTERVAL_MS;
  }

  #save(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#savedReadTo = this.#view.readTo;
    this.#readToSavedAt = performance.now();
    this.#saving ??= this.#view.save().then(
      () => {
        this.#saving = undefined;
        this.#failures = 0;
        this.#schedule();
      },
      (error) => {
        this.#saving = undefined;
        this.#logger.error({ view: this.#view.name, err: error }, 'saving the view failed; retrying');
        this.allFailures++;
        const delay = backOff(++this.#failures, MAX_RETRY_DELAY_MS);
        if (!this.#isStopped) this.#timer = setTimeout(() => this.#save(), delay).unref();
      },
    );
  }
}

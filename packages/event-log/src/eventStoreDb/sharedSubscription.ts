import { type Batch, NO_LOG_ID, type Position, type RecordedEvent } from '../eventStore.ts';
import { untilAborted } from '../time/sleep.ts';
import type { Cursor } from './catchUpSubscription.ts';

/** A subscription to the server, which moves the cursor. */
type Source = (cursor: Cursor, signal: AbortSignal) => AsyncGenerator<Batch>;

/** The number of events kept for slow subscribers; a subscriber that is further behind catches up alone. */
export const WINDOW_SIZE = 1_024;
const BATCH_SIZE = 512;

/**
 * One subscription to the server for all subscribers. The first subscriber takes its next batch; the others find the
 * batch in the window. A subscriber outside the window uses its own subscription until it is inside.
 */
export class SharedSubscription {
  readonly #source: Source;
  #window: Window | undefined;

  constructor(source: Source) {
    this.#source = source;
  }

  /** Yields every event after the cursor once, in order. @throws LogReplaced */
  async *subscribe({ ...cursor }: Cursor, signal: AbortSignal): AsyncGenerator<Batch> {
    let hasCaughtUp = false;
    while (!signal.aborted) {
      if (!this.#window || this.#window.isOver) this.#window = new Window(this.#source, cursor);
      const window = this.#window;
      if (!window.has(cursor)) {
        let isWithin = false;
        for await (const batch of this.#source(cursor, signal)) {
          hasCaughtUp = batch.caughtUp;
          yield batch;
          isWithin = this.#window.has(cursor);
          if (isWithin) break;
        }
        if (!isWithin) return; // the log is closed
        continue;
      }
      window.join();
      try {
        while (!signal.aborted && window.has(cursor)) {
          const batch = window.after(cursor);
          if (batch.events.length === 0 && (hasCaughtUp || !batch.caughtUp)) {
            await window.next(signal);
            if (window.isClosed) return;
            continue;
          }
          hasCaughtUp = batch.caughtUp;
          yield batch;
        }
      } finally {
        window.leave();
      }
    }
  }
}

/** The last events of a subscription to the server, which ends when its last subscriber leaves. */
class Window {
  /** The subscription has ended: it failed, the log was closed, or the last subscriber left. */
  isOver = false;
  isClosed = false;
  readonly #source: AsyncGenerator<Batch>;
  readonly #leaving = new AbortController();
  readonly #head: Cursor;
  /** The cursor before the first event in the window. */
  #start: Pick<Cursor, 'position' | 'eventId'>;
  #events: RecordedEvent[] = [];
  #caughtUp = false;
  #isTaking = false;
  /** Aborts when a batch has arrived, or the subscription has ended. */
  #arrival = new AbortController();
  #error: unknown;
  #subscribers = 0;

  constructor(source: Source, { ...cursor }: Cursor) {
    this.#head = cursor;
    this.#start = { ...cursor };
    this.#source = source(cursor, this.#leaving.signal);
  }

  join(): void {
    this.#subscribers++;
  }

  leave(): void {
    if (--this.#subscribers > 0) return;
    this.isOver = true;
    this.#leaving.abort();
    void this.#source.return(undefined).catch(() => {});
  }

  /**
   * Whether a subscriber at this cursor finds every later event here: its event is in the window, or it has had events
   * and is ahead of a subscription that has caught up.
   */
  has({ position, eventId, logId }: Cursor): boolean {
    if (this.isOver) return false;
    if (logId !== this.#head.logId && logId !== NO_LOG_ID && this.#head.logId !== NO_LOG_ID) return false;
    if (position > this.#head.position) return eventId !== undefined && this.#caughtUp;
    const before = this.#events[this.#indexAfter(position) - 1];
    const [at, id] = before ? [before.position, before.id] : [this.#start.position, this.#start.eventId];
    return position === at && (eventId === undefined || id === undefined || eventId === id);
  }

  /** Returns the next events for a subscriber, and moves its cursor. */
  after(cursor: Cursor): Batch {
    const from = this.#indexAfter(cursor.position);
    const events = this.#events.slice(from, from + BATCH_SIZE);
    const last = events.at(-1);
    if (last) [cursor.position, cursor.eventId] = [last.position, last.id];
    if (cursor.logId === NO_LOG_ID) cursor.logId = this.#head.logId;
    return { events, caughtUp: this.#caughtUp && from + events.length === this.#events.length };
  }

  /** Waits for the next batch, which is taken once for all waiting subscribers. @throws LogReplaced */
  async next(signal: AbortSignal): Promise<void> {
    if (!this.#isTaking) void this.#take();
    await untilAborted(AbortSignal.any([signal, this.#arrival.signal]));
    if (this.#error) throw this.#error;
  }

  async #take(): Promise<void> {
    this.#isTaking = true;
    try {
      const { value: batch, done } = await this.#source.next();
      if (done) this.isOver = this.isClosed = true;
      else this.#keep(batch);
    } catch (error) {
      this.isOver = true;
      this.#error = error;
    }
    this.#isTaking = false;
    this.#arrival.abort();
    this.#arrival = new AbortController();
  }

  #keep({ events, caughtUp }: Batch): void {
    for (const event of events) this.#events.push(event);
    this.#caughtUp = caughtUp;
    // Not after each batch, since it copies the window.
    if (this.#events.length < 2 * WINDOW_SIZE) return;
    const removed = this.#events.splice(0, this.#events.length - WINDOW_SIZE).at(-1);
    if (removed) this.#start = { position: removed.position, eventId: removed.id };
  }

  /** The index of the first event after a position. */
  #indexAfter(position: Position): number {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#events[middle] as RecordedEvent).position <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

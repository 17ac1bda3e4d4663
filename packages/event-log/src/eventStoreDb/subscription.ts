import {
  type AllStreamResolvedEvent,
  type AllStreamSubscription,
  type EventStoreDBClient,
  streamNameFilter,
} from '@eventstore/db-client';
import { type Batch, type Position, type ReadTo, type RecordedEvent, START } from '../eventStore.ts';
import { toFailure } from './failures.ts';
import { CallFailed } from './protocol.ts';
import { clientPosition, Reader, toRecordedEvent } from './read.ts';

/** Events that the client buffers at most, and the most in a batch. */
const BUFFER_SIZE = 512;
/** A batch of a catch-up collects events for this time, unless the buffer is full: each one wakes the other thread. */
const BATCH_INTERVAL_MS = 5;
/** Events that the server searches at once for one that matches. */
const SEARCH_WINDOW = 500;
/** Windows after which it reports its position although none of them had a match. */
const CHECKPOINT_INTERVAL = 2;
/** How often both are looked at, and the subscription reports how far it has read, in milliseconds. */
const WATCH_INTERVAL_MS = 1_000;
/** A subscription without events for this time is compared with the log. */
const SILENCE_TIMEOUT_MS = 2_000;
/** Events of $all that a comparison reads at once, and how often at most. */
const COMPARED_PAGE_SIZE = 500;
const MAX_COMPARED_PAGES = 10;

const MISSES_EVENTS = 'silent, although the log has more events';
const NEVER_CAUGHT_UP = 'silent before it has caught up; servers before 23.10 never report that they have';

/** A subscription to $all, filtered by stream prefix, whose events are taken in batches of what has arrived. */
export class Subscription {
  readonly #confirmed = Promise.withResolvers<void>();
  readonly #reader: Reader;
  readonly #prefix: string;
  readonly #stream: AllStreamSubscription;
  /** Of the last event taken. */
  #position: Position;
  /** Every match up to here has arrived, as the server has reported or a comparison has found. */
  #checkpoint = START;
  /** The first event from there on, of another stream, and whether a batch has had it. */
  #readTo: ReadTo | undefined;
  #isReadToReported = true;
  #caughtUp = false;
  /** Whether the last batch said that it has caught up. */
  #reportedCaughtUp = false;
  #failure: CallFailed | undefined;
  #waiting: { resolve: (batch: Batch) => void; reject: (error: CallFailed) => void } | undefined;
  /** Since when nothing has arrived, and the log was not compared. */
  #silentSince = performance.now();
  /** The last comparison found an event that has not arrived. */
  #isBehind = false;
  #isReading = false;
  #delivery: NodeJS.Immediate | NodeJS.Timeout | undefined;
  readonly #watch = setInterval(() => void this.#readLog(), WATCH_INTERVAL_MS);

  constructor(client: EventStoreDBClient, prefix: string, after: Position) {
    this.#reader = new Reader(client, prefix);
    this.#prefix = prefix;
    this.#position = after;
    this.#stream = client.subscribeToAll(
      {
        fromPosition: clientPosition(after),
        filter: streamNameFilter({
          prefixes: [prefix],
          maxSearchWindow: SEARCH_WINDOW,
          checkpointInterval: CHECKPOINT_INTERVAL,
          checkpointReached: async (_, { commit }) => {
            this.#advance(commit);
            this.#heard();
          },
        }),
      },
      { highWaterMark: BUFFER_SIZE },
    );
    this.#stream
      .on('confirmation', () => this.#confirmed.resolve())
      .on('readable', () => this.#heard())
      .on('caughtUp', () => {
        this.#caughtUp = true;
        this.#heard();
      })
      .on('end', () => this.end(new CallFailed('transient', 'the server ended the subscription')))
      .on('error', (error: Error) => this.end(toFailure(error, 'subscribe')));
  }

  /** Resolves when the server has accepted the subscription; rejects if it has ended before. */
  get confirmed(): Promise<void> {
    return this.#confirmed.promise;
  }

  /** The next batch. Rejects when the subscription has ended and all its events are taken. */
  next(): Promise<Batch> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#silentSince = performance.now();
      this.#scheduleDelivery();
    });
  }

  end(failure: CallFailed): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#confirmed.promise.catch(() => {});
    this.#confirmed.reject(failure);
    clearInterval(this.#watch);
    this.#scheduleDelivery();
    void this.#stream.unsubscribe().catch(() => {});
  }

  #heard(): void {
    this.#silentSince = performance.now();
    this.#isBehind = false;
    this.#scheduleDelivery();
  }

  /** Not at once: more events may have arrived by then, and reading the stream must not re-enter itself. */
  #scheduleDelivery(): void {
    const deliver = () => {
      this.#delivery = undefined;
      this.#deliver();
    };
    const isFull = this.#stream.readableLength >= BUFFER_SIZE;
    this.#delivery ??=
      this.#caughtUp || isFull ? setImmediate(deliver) : setTimeout(deliver, BATCH_INTERVAL_MS);
  }

  #deliver(): void {
    if (!this.#waiting) return;
    const events = this.#takeEvents();
    const caughtUp = this.#caughtUp && this.#stream.readableLength === 0;
    const readTo = this.#unreportedReadTo;
    if (events.length > 0 || (caughtUp && !this.#reportedCaughtUp) || readTo) {
      this.#reportedCaughtUp = caughtUp;
      this.#isReadToReported = true;
      this.#waiting.resolve({ events, caughtUp, ...(readTo && { readTo }) });
    } else if (this.#failure) {
      this.#waiting.reject(this.#failure);
    } else {
      return;
    }
    this.#waiting = undefined;
  }

  #takeEvents(): RecordedEvent[] {
    const events: RecordedEvent[] = [];
    while (events.length < BUFFER_SIZE) {
      const next = this.#stream.read() as AllStreamResolvedEvent | null;
      if (!next) break;
      if (next.event) events.push(toRecordedEvent(next.event));
    }
    this.#position = events.at(-1)?.position ?? this.#position;
    return events;
  }

  #advance(position: Position): void {
    if (position > this.#checkpoint) this.#checkpoint = position;
  }

  /** Of no use once an event was taken that follows it. */
  get #unreportedReadTo(): ReadTo | undefined {
    const isNew = !this.#isReadToReported && (this.#readTo?.position ?? START) > this.#position;
    return isNew ? this.#readTo : undefined;
  }

  async #readLog(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      await this.#compareIfSilent();
      await this.#findReadTo();
    } catch (error) {
      this.end(toFailure(error as Error, 'readPage'));
    } finally {
      this.#isReading = false;
    }
  }

  /** Finds the event after which another subscription can start, instead of the last one taken. */
  async #findReadTo(): Promise<void> {
    const isNew = this.#checkpoint > this.#position && this.#checkpoint > (this.#readTo?.position ?? START);
    if (!isNew || this.#stream.readableLength > 0) return;
    // After a failure the next interval tries again; what ends reads ends the subscription, too.
    const event = await this.#reader.firstFrom(this.#checkpoint).catch(() => undefined);
    if (!event || event.stream.startsWith(this.#prefix)) return;
    this.#readTo = { position: event.position, eventId: event.id };
    this.#isReadToReported = false;
    this.#scheduleDelivery();
  }

  /** Servers send no heartbeat: the second comparison in a row that finds a missing event ends the subscription. */
  async #compareIfSilent(): Promise<void> {
    if (!this.#waiting || performance.now() - this.#silentSince < SILENCE_TIMEOUT_MS) return;
    this.#silentSince = performance.now();
    const isBehind = !this.#caughtUp || (await this.#missesEvents());
    if (isBehind && this.#isBehind)
      this.end(new CallFailed('transient', this.#caughtUp ? MISSES_EVENTS : NEVER_CAUGHT_UP));
    this.#isBehind = isBehind;
  }

  /** Whether the next pages of the log have a matching event that has not arrived. */
  async #missesEvents(): Promise<boolean> {
    const readTo = this.#readTo?.position ?? START;
    let after = readTo > this.#position ? readTo : this.#position;
    for (let pages = 0; pages < MAX_COMPARED_PAGES && !this.#failure; pages++) {
      const page = await this.#reader.page({ after, limit: COMPARED_PAGE_SIZE });
      if (!page) throw new CallFailed('permanent', `there is no event at position ${after}`);
      // The position may have moved during the read.
      if (page.events.some((event) => event.position > this.#position)) return true;
      after = page.position;
      this.#advance(after);
      if (page.isEnd) break;
    }
    return false;
  }
}

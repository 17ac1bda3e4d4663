import {
  type EventLog,
  EventUnreadable,
  type Logger,
  type Position,
  type RecordedEvent,
  START,
  type StoreObserver,
} from '@event-sourced/event-log';
import { sleep } from '@event-sourced/node/time';
import type { Client } from './client.ts';
import type { LogEnd } from './logEnd.ts';
import { CallFailed } from './protocol.ts';
import type { NewEvents } from './subscription.ts';

type Source = {
  client: Pick<Client, 'closed' | 'retry'>;
  log: Pick<EventLog, 'readEvent' | 'lastPosition'>;
  end: Pick<LogEnd, 'advance' | 'searched' | 'forget'>;
  /** The prefix of the streams to read. */
  prefix: string;
  logger: Logger;
  observer?: Pick<StoreObserver, 'onSubscriptionDropped'> | undefined;
};

/** An event, or the start of the log. */
type Place = { position: Position; id?: string | undefined };

/** The number of events kept for slow subscribers. */
export const WINDOW_SIZE = 1_024;
/** For the server to confirm a subscription. */
const SUBSCRIBE_TIMEOUT_MS = 10_000;
/** Between the starts of two subscriptions. */
const MIN_SUBSCRIPTION_INTERVAL_MS = 200;
/** After this time without events, the subscription is compared with the end of the log. */
export const SILENCE_TIMEOUT_MS = 2_000;

/**
 * The newest events of the log: one subscription to the server, for all subscribers. When it is dropped, another one
 * starts at the end that the log has then.
 */
export class Tail {
  /** Increases when a subscription starts and ends: the next one may have a different log. */
  resets = 0;
  /** There is no subscription, since the last event of the log cannot be read. */
  isBlocked = false;
  readonly #source: Source;
  /** The event before the first kept one; undefined while there is no subscription. */
  #start: Place | undefined;
  #events: RecordedEvent[] = [];
  #change = Promise.withResolvers<void>();

  constructor(source: Source) {
    this.#source = source;
    void this.#run();
  }

  /** Resolves when events have arrived, or a subscription has started, has ended, or cannot start. */
  get changed(): Promise<void> {
    return this.#change.promise;
  }

  /** The position of the last event; undefined while there is no subscription. */
  get head(): Position | undefined {
    return (this.#events.at(-1) ?? this.#start)?.position;
  }

  /** The events that follow an event; undefined if it is not among the newest ones. */
  after(position: Position, id: string | undefined): readonly RecordedEvent[] | undefined {
    const index = this.#events.findLastIndex((event) => event.position <= position);
    const found = this.#events[index] ?? this.#start;
    const isKept = id !== undefined && found?.position === position && found.id === id;
    return isKept ? this.#events.slice(index + 1) : undefined;
  }

  async #run(): Promise<void> {
    const { client, prefix, logger } = this.#source;
    while (!client.closed.aborted) {
      const startedAt = performance.now();
      try {
        const start = await this.#lastEvent();
        const connection = await client.retry(async (open, timeoutMs) => {
          await open.call('subscribe', { after: start.position, prefix }, timeoutMs);
          return open;
        }, startedAt + SUBSCRIBE_TIMEOUT_MS);
        if (this.resets > 0) logger.info({ position: String(start.position) }, 'resubscribed');
        this.#reset(start);
        for (let next = connection.call('next', undefined); ; ) {
          const found = await this.#heard(next);
          next = connection.call('next', undefined); // fetched while these events are processed
          next.catch(() => {});
          this.#add(found);
        }
      } catch (error) {
        if (!client.closed.aborted) this.#handleFailure(error as Error);
      }
      await sleep(startedAt + MIN_SUBSCRIPTION_INTERVAL_MS - performance.now(), client.closed);
    }
  }

  async #lastEvent(): Promise<Place> {
    const { log, end } = this.#source;
    const position = await log.lastPosition();
    if (position === START) return { position };
    const event = await log.readEvent(position);
    if (event) return event;
    end.forget();
    throw new CallFailed('transient', `the log no longer has the event at position ${position}`);
  }

  /** Servers send no heartbeat: two consecutive comparisons that find a missing event end the subscription. */
  async #heard(next: Promise<NewEvents>): Promise<NewEvents> {
    const { client, log } = this.#source;
    const arrived = new AbortController();
    const wake = (): void => arrived.abort();
    next.then(wake, wake);
    const waking = AbortSignal.any([client.closed, arrived.signal]);
    for (let isBehind = false; ; ) {
      await sleep(SILENCE_TIMEOUT_MS, waking);
      if (waking.aborted) return next;
      const last = await log.lastPosition().catch(() => START);
      const isBehindNow = last > (this.head ?? START);
      if (isBehind && isBehindNow)
        throw new CallFailed('transient', 'no events arrive, although the log has more');
      isBehind = isBehindNow;
    }
  }

  #reset(start: Place | undefined): void {
    this.resets++;
    this.isBlocked = false;
    this.#start = start;
    this.#events = [];
    this.#notify();
  }

  #add({ events, searchedTo }: NewEvents): void {
    const { end } = this.#source;
    for (const event of events) this.#events.push(event);
    if (events.length > 0) end.advance(this.head as Position);
    if (searchedTo !== undefined) end.searched(searchedTo);
    // Not after each batch, since it copies the window.
    if (this.#events.length >= 2 * WINDOW_SIZE)
      this.#start = this.#events.splice(0, this.#events.length - WINDOW_SIZE).at(-1);
    if (events.length > 0) this.#notify();
  }

  #notify(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }

  /** Logs each drop once; an attempt that fails to subscribe belongs to the previous drop. */
  #handleFailure(error: Error): void {
    if (this.head === undefined) {
      this.isBlocked = error instanceof EventUnreadable;
      if (this.isBlocked) this.#notify();
      return;
    }
    const isNormal = error instanceof CallFailed && error.kind === 'transient';
    const { logger, observer } = this.#source;
    observer?.onSubscriptionDropped();
    logger[isNormal ? 'info' : 'warn'](
      { reason: error.message, position: String(this.head) },
      'subscription dropped; resubscribing',
    );
    this.#reset(undefined);
  }
}

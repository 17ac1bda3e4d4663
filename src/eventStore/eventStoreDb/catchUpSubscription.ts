import { once } from 'node:events';
import type { BaseLogger } from 'pino';
import { backOff } from '../../time/sleep.ts';
import {
  type Batch,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type ReadTo,
  type RecordedEvent,
  START,
  type StoreObserver,
} from '../eventStore.ts';
import { CallFailed, type Connection } from './connection.ts';
import {
  AccessDenied,
  ATTEMPT_TIMEOUT_MS,
  MAX_RETRY_DELAY_MS,
  type RetryingClient,
} from './retryingClient.ts';

export type Logger = Pick<BaseLogger, 'info' | 'warn' | 'error'>;

/** What a subscription needs to know of its log. */
type LogIdentity = {
  logId(): Promise<string>;
  readEvent(position: Position): Promise<RecordedEvent | undefined>;
};

/** What to subscribe to: the streams with a prefix, in a log with this ID, if it is known. */
type Range = { after: Position; signal: AbortSignal; logId: string; prefix: string };
type Observer = Pick<StoreObserver, 'onSubscriptionDropped'>;

/** A subscription that has lasted so long is renewed without delay, in milliseconds. */
const STABLE_AFTER_MS = 1_000;

/** A subscription that is renewed after its last event whenever it is dropped, for whatever reason. */
export class CatchUpSubscription {
  readonly #client: RetryingClient;
  readonly #log: LogIdentity;
  readonly #logger: Logger;
  readonly #observer: Observer | undefined;
  readonly #prefix: string;
  readonly #signal: AbortSignal;
  readonly #aborted: Promise<never>;
  #position: Position;
  /** The ID of the event at this position, once it is known. */
  #eventId: string | undefined;
  /** Up to here no event follows it; another subscription starts here if the log still has the event. */
  #readTo: ReadTo | undefined;
  /** The log that it began with. */
  #logId: string;
  /** Attempts since the last progress. */
  #failures = 0;
  /** Whether an append has ended a wait since then. */
  #wasWoken = false;
  #isAccessDenied = false;

  constructor(
    client: RetryingClient,
    log: LogIdentity,
    logger: Logger,
    { after, signal, logId, prefix }: Range,
    observer?: Observer,
  ) {
    this.#client = client;
    this.#log = log;
    this.#logger = logger;
    this.#observer = observer;
    this.#position = after;
    this.#logId = logId;
    this.#prefix = prefix;
    this.#signal = AbortSignal.any([signal, client.closed]);
    this.#aborted = once(this.#signal, 'abort').then(() => Promise.reject(new Error('aborted')));
    this.#aborted.catch(() => {});
  }

  /** @throws LogReplaced */
  async *batches(): AsyncGenerator<Batch> {
    while (!this.#signal.aborted) {
      const subscription = this.#client.newSubscription();
      let connection: Connection | undefined;
      const unsubscribe = (): void => void connection?.call('unsubscribe', subscription).catch(() => {});
      this.#signal.addEventListener('abort', unsubscribe);
      let subscribedAt: number | undefined;
      try {
        const after = await this.#start();
        connection = this.#client.connection; // which may have been replaced meanwhile
        const prefix = this.#prefix;
        await connection.call('subscribe', { subscription, after, prefix }, ATTEMPT_TIMEOUT_MS);
        subscribedAt = performance.now();
        if (this.#failures > 1) this.#logger.info({ position: String(this.#position) }, 'resubscribed');
        yield* this.#receive(connection, subscription);
      } catch (error) {
        if (error instanceof LogReplaced) throw error;
        if (this.#signal.aborted) return;
        this.#handleDrop(error as Error, subscribedAt);
      } finally {
        this.#signal.removeEventListener('abort', unsubscribe);
        unsubscribe();
      }
      const delay = this.#failures === 0 ? 0 : backOff(this.#failures, MAX_RETRY_DELAY_MS);
      this.#wasWoken = await this.#client.pause(delay, this.#signal, this.#wasWoken);
      this.#failures++;
    }
  }

  async *#receive(connection: Connection, subscription: number): AsyncGenerator<Batch> {
    for (let next = connection.call('next', subscription); ; ) {
      const batch = await next;
      if (this.#signal.aborted) return;
      next = connection.call('next', subscription); // fetched while this batch is processed
      next.catch(() => {});
      const last = batch.events.at(-1);
      if (last) {
        this.#eventId = last.id;
        this.#position = last.position;
        this.#failures = 0;
        this.#wasWoken = false;
      }
      if (last || batch.readTo) this.#readTo = batch.readTo;
      yield batch;
    }
  }

  /** Where to subscribe. @throws LogReplaced */
  async #start(): Promise<Position> {
    const logId = await this.#unlessAborted(this.#log.logId());
    if (this.#logId === NO_LOG_ID) this.#logId = logId;
    if (this.#logId !== logId)
      throw new LogReplaced('the log is not the one that the subscription began with');
    // The server accepts a position beyond its end, and rejects one within an event as an unknown error.
    if (this.#position !== START) {
      const eventId = await this.#eventIdAt(this.#position);
      if (eventId === undefined || eventId !== (this.#eventId ?? eventId))
        throw new LogReplaced(`the log no longer has the event at position ${this.#position}`);
      this.#eventId = eventId;
    }
    const readTo = this.#readTo;
    return readTo && (await this.#eventIdAt(readTo.position)) === readTo.eventId
      ? readTo.position
      : this.#position;
  }

  async #eventIdAt(position: Position): Promise<string | undefined> {
    return (await this.#unlessAborted(this.#log.readEvent(position)))?.id;
  }

  #unlessAborted<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.#aborted]);
  }

  /** Each drop is logged once; an attempt that did not even subscribe belongs to the drop before it. */
  #handleDrop(error: Error, subscribedAt: number | undefined): void {
    const wasAccessDenied = this.#isAccessDenied;
    this.#isAccessDenied =
      error instanceof AccessDenied || (error instanceof CallFailed && error.kind === 'accessDenied');
    if (this.#failures === 0 || subscribedAt !== undefined || (this.#isAccessDenied && !wasAccessDenied)) {
      const isNormal =
        error instanceof CallFailed && (error.kind === 'transient' || error.kind === 'notLeader');
      this.#observer?.onSubscriptionDropped();
      this.#logger[this.#isAccessDenied ? 'error' : isNormal ? 'info' : 'warn'](
        { reason: error.message, position: String(this.#position) },
        'subscription dropped; resubscribing',
      );
    }
    if (subscribedAt !== undefined && performance.now() - subscribedAt > STABLE_AFTER_MS) {
      this.#failures = 0;
      this.#wasWoken = false;
    }
  }
}

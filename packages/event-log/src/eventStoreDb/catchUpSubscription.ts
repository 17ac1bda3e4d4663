import {
  type Batch,
  type EventLog,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type ReadTo,
  START,
  type StoreObserver,
} from '../eventStore.ts';
import type { Logger } from '../logger.ts';
import { backOff, unlessAborted } from '../time/sleep.ts';
import type { Connection } from './connection.ts';
import { CallFailed } from './protocol.ts';
import {
  AccessDenied,
  ATTEMPT_TIMEOUT_MS,
  MAX_RETRY_DELAY_MS,
  type RetryingClient,
} from './retryingClient.ts';

/** What a subscription needs to know of its log. */
export type LogIdentity = Pick<EventLog, 'logId' | 'readEvent'>;

type Options = {
  after: Position;
  signal: AbortSignal;
  /** The ID of the log, if it is known. */
  logId: string;
  /** Of the streams. */
  prefix: string;
  logger?: Logger;
  observer?: Pick<StoreObserver, 'onSubscriptionDropped'> | undefined;
};

/** A subscription that has lasted this long is renewed without delay. */
const STABLE_AFTER_MS = 1_000;

/** A subscription that is renewed after its last event whenever it is dropped. @throws LogReplaced */
export async function* catchUpSubscription(
  client: RetryingClient,
  log: LogIdentity,
  { after, logId: expectedLogId, prefix, logger, observer, ...options }: Options,
): AsyncGenerator<Batch> {
  const signal = AbortSignal.any([options.signal, client.closed]);
  /** The last event, whose ID is known once it was read, and the log that it is in. */
  let position = after;
  let eventId: string | undefined;
  let logId = expectedLogId;
  /** Up to here no event follows it; another subscription starts here if the log still has the event. */
  let readTo: ReadTo | undefined;
  /** Attempts since the last progress, and whether an append has ended a wait since then. */
  let failures = 0;
  let wasWoken = false;
  let isAccessDenied = false;

  const orAbort = async <T>(promise: Promise<T>): Promise<T> => {
    const result = await unlessAborted(promise, signal);
    signal.throwIfAborted();
    return result as T;
  };
  const eventIdAt = async (at: Position) => (await orAbort(log.readEvent(at)))?.id;

  /** Where to subscribe. @throws LogReplaced */
  async function findStart(): Promise<Position> {
    const currentLogId = await orAbort(log.logId());
    if (logId === NO_LOG_ID) logId = currentLogId;
    if (logId !== currentLogId)
      throw new LogReplaced('the log is not the one that the subscription began with');
    // The server accepts a position beyond its end, and rejects one within an event as an unknown error.
    if (position !== START) {
      const found = await eventIdAt(position);
      if (found === undefined || found !== (eventId ?? found))
        throw new LogReplaced(`the log no longer has the event at position ${position}`);
      eventId = found;
    }
    return readTo && (await eventIdAt(readTo.position)) === readTo.eventId ? readTo.position : position;
  }

  function handleProgress(): void {
    failures = 0;
    wasWoken = false;
  }

  /** Each drop is logged once; an attempt that did not even subscribe belongs to the drop before it. */
  function handleDrop(error: Error, subscribedAt: number | undefined): void {
    const kind = error instanceof CallFailed ? error.kind : undefined;
    const wasAccessDenied = isAccessDenied;
    isAccessDenied = error instanceof AccessDenied || kind === 'accessDenied';
    if (failures === 0 || subscribedAt !== undefined || (isAccessDenied && !wasAccessDenied)) {
      const isNormal = kind === 'transient' || kind === 'notLeader';
      observer?.onSubscriptionDropped();
      logger?.[isAccessDenied ? 'error' : isNormal ? 'info' : 'warn'](
        { reason: error.message, position: String(position) },
        'subscription dropped; resubscribing',
      );
    }
    if (subscribedAt !== undefined && performance.now() - subscribedAt > STABLE_AFTER_MS) handleProgress();
  }

  while (!signal.aborted) {
    const subscription = crypto.randomUUID();
    let connection: Connection | undefined;
    let subscribedAt: number | undefined;
    try {
      const start = await findStart();
      connection = client.connection; // which may have been replaced meanwhile
      await orAbort(connection.call('subscribe', { subscription, after: start, prefix }, ATTEMPT_TIMEOUT_MS));
      subscribedAt = performance.now();
      if (failures > 1) logger?.info({ position: String(position) }, 'resubscribed');
      for (let next = connection.call('next', subscription); ; ) {
        const batch = await orAbort(next);
        next = connection.call('next', subscription); // fetched while this batch is processed
        next.catch(() => {});
        const last = batch.events.at(-1);
        if (last) {
          eventId = last.id;
          position = last.position;
          handleProgress();
        }
        if (last || batch.readTo) readTo = batch.readTo;
        yield batch;
      }
    } catch (error) {
      if (error instanceof LogReplaced) throw error;
      if (signal.aborted) return;
      handleDrop(error as Error, subscribedAt);
    } finally {
      void connection?.call('unsubscribe', subscription).catch(() => {});
    }
    const delay = failures === 0 ? 0 : backOff(failures, MAX_RETRY_DELAY_MS);
    wasWoken = await client.pause(delay, signal, wasWoken);
    failures++;
  }
}

import {
  type Batch,
  type EventLog,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  START,
  type StoreObserver,
} from '../eventStore.ts';
import type { Logger } from '../logger.ts';
import { backOff, sleep, unlessAborted } from '../time/sleep.ts';
import { AccessDenied, ATTEMPT_TIMEOUT_MS, type Client, MAX_RETRY_DELAY_MS } from './client.ts';
import type { Connection } from './connection.ts';
import type { LogEnd } from './logEnd.ts';
import { CallFailed } from './protocol.ts';
import type { SubscriptionBatch } from './subscription.ts';

/** Where a subscription continues: after the event at a position of a log. `eventId` is known once it was read. */
export type Cursor = { position: Position; eventId?: string | undefined; logId: string };

type Source = {
  client: Client;
  log: Pick<EventLog, 'logId' | 'readEvent' | 'lastPosition'>;
  end: LogEnd;
  /** The prefix of the streams to read. */
  prefix: string;
  logger: Logger;
  observer?: Pick<StoreObserver, 'onSubscriptionDropped'> | undefined;
};

/** A dropped subscription that has lasted at least this time is renewed without delay. */
const STABLE_AFTER_MS = 1_000;
/** After this time without events, the subscription is compared with the end of the log. */
export const SILENCE_TIMEOUT_MS = 2_000;

const MISSES_EVENTS = 'no events arrive, although the log has more';
const NEVER_CAUGHT_UP =
  'no events arrive before it has caught up; servers before 23.10 never report catching up';

/**
 * A subscription that resumes after its last event whenever it is dropped; it moves the cursor.
 * @throws LogReplaced
 */
export async function* catchUpSubscription(
  { client, log, end, prefix, logger, observer }: Source,
  cursor: Cursor,
  signal: AbortSignal,
): AsyncGenerator<Batch> {
  /** Attempts since the last progress. */
  let failures = 0;
  let isAccessDenied = false;
  let caughtUp = false;

  const orAbort = async <T>(promise: Promise<T>): Promise<T> => {
    const result = await unlessAborted(promise, signal);
    signal.throwIfAborted();
    return result as T;
  };

  /** @throws LogReplaced */
  async function checkStart(): Promise<void> {
    const logId = await orAbort(log.logId());
    if (cursor.logId === NO_LOG_ID) cursor.logId = logId;
    if (cursor.logId !== logId)
      throw new LogReplaced('the log is not the one that the subscription started with');
    if (cursor.position === START) return;
    // The server accepts a position beyond its end, and reports a position within an event as an unknown error.
    const found = (await orAbort(log.readEvent(cursor.position)))?.id;
    if (found === undefined || found !== (cursor.eventId ?? found))
      throw new LogReplaced(`the log no longer has the event at position ${cursor.position}`);
    cursor.eventId = found;
  }

  /** Servers send no heartbeat: two consecutive comparisons that find a missing event end the subscription. */
  async function heard(next: Promise<SubscriptionBatch>): Promise<SubscriptionBatch> {
    const arrived = new AbortController();
    const wake = (): void => arrived.abort();
    next.then(wake, wake);
    const waking = AbortSignal.any([signal, arrived.signal]);
    for (let isBehind = false; ; ) {
      await sleep(SILENCE_TIMEOUT_MS, waking);
      if (waking.aborted) return orAbort(next);
      const last = caughtUp ? await orAbort(log.lastPosition().catch(() => START)) : START;
      const isBehindNow = !caughtUp || last > cursor.position;
      if (isBehind && isBehindNow)
        throw new CallFailed('transient', caughtUp ? MISSES_EVENTS : NEVER_CAUGHT_UP);
      isBehind = isBehindNow;
    }
  }

  /** Logs each drop once; an attempt that fails to subscribe belongs to the previous drop. */
  function handleDrop(error: Error, subscribedAt: number | undefined): void {
    const kind = error instanceof CallFailed ? error.kind : undefined;
    const wasAccessDenied = isAccessDenied;
    isAccessDenied = error instanceof AccessDenied || kind === 'accessDenied';
    if (failures === 0 || subscribedAt !== undefined || (isAccessDenied && !wasAccessDenied)) {
      const isNormal = kind === 'transient' || kind === 'notLeader';
      observer?.onSubscriptionDropped();
      logger[isAccessDenied ? 'error' : isNormal ? 'info' : 'warn'](
        { reason: error.message, position: String(cursor.position) },
        'subscription dropped; resubscribing',
      );
    }
    if (subscribedAt !== undefined && performance.now() - subscribedAt > STABLE_AFTER_MS) failures = 0;
  }

  while (!signal.aborted) {
    const subscription = crypto.randomUUID();
    let connection: Connection | undefined;
    let subscribedAt: number | undefined;
    try {
      await checkStart();
      connection = await orAbort(client.connected());
      const range = { subscription, after: cursor.position, prefix };
      await orAbort(connection.call('subscribe', range, ATTEMPT_TIMEOUT_MS));
      subscribedAt = performance.now();
      caughtUp = false;
      if (failures > 1) logger.info({ position: String(cursor.position) }, 'resubscribed');
      for (let next = connection.call('next', subscription); ; ) {
        const { events, checkpoint, ...batch } = await heard(next);
        next = connection.call('next', subscription); // fetched while this batch is processed
        next.catch(() => {});
        const last = events.at(-1);
        if (last) {
          end.advance(last.position);
          cursor.position = last.position;
          cursor.eventId = last.id;
          failures = 0;
        }
        if (checkpoint !== undefined) end.searched(checkpoint);
        if (!last && batch.caughtUp === caughtUp) continue;
        caughtUp = batch.caughtUp;
        yield { events, caughtUp };
      }
    } catch (error) {
      if (error instanceof LogReplaced) throw error;
      if (signal.aborted) return;
      handleDrop(error as Error, subscribedAt);
    } finally {
      void connection?.call('unsubscribe', subscription).catch(() => {});
    }
    await sleep(failures === 0 ? 0 : backOff(failures, MAX_RETRY_DELAY_MS), signal);
    failures++;
  }
}

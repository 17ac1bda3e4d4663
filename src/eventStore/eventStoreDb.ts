import { once } from 'node:events';
import type { BaseLogger } from 'pino';
import { settledWithin, sleep } from '../sleep.ts';
import {
  type Appended,
  type Batch,
  type EventStore,
  mustBeWellFormed,
  type NewEvent,
  NO_STREAM,
  type Position,
  START,
  StoreUnavailable,
  WrongExpectedRevision,
} from './eventStore.ts';
import type { Operations } from './eventStoreDbClient.ts';
import { CallFailed, Connection, FIRST_ANSWER_TIMEOUT_MS } from './eventStoreDbConnection.ts';
import { firstNodeOf } from './eventStoreDbUrl.ts';

type Options = {
  /** An EventStoreDB connection string, `esdb://…`. */
  url: string;
  /** Subscribers get the events of the streams whose names begin so. */
  prefix: string;
  log: Pick<BaseLogger, 'info' | 'warn' | 'error'>;
  /** What a request may wait for the log in all, in milliseconds: four fifths to append, the rest to read. */
  patience?: number;
};

/** The server refuses the user or the certificate: no repeating will help, only another connection string. */
export class Refused extends StoreUnavailable {}

/** The log is not the one that was followed until now: another server, or an older backup of it. */
class LogReplaced extends Error {}

/** An attempt without an answer is repeated after this, in milliseconds. A server gives up a write after 2 000. */
const ATTEMPT = 3_000;
const LONGEST_PAUSE = 1_000;
const LONGEST_PAUSE_FOLLOWING = 5_000;
/** A subscription that has held for so long begins again at once, in milliseconds. */
const STEADY = 1_000;
/** A connection costs a thread, so they begin at least so far from one another, in milliseconds. */
const APART = 1_000;
/** After a start the accounts may take this long to be there, in milliseconds. */
const ACCOUNTS = 5_000;
/** Calls in flight at the close have this long to be answered, in milliseconds. */
const FAREWELL = 500;
/** Where a log without any event gets its first one. */
const OWN_STREAM = 'plantstore';

/**
 * The port over EventStoreDB 23.10 or later, one node or a cluster, or KurrentDB. A server that is away is waited for by
 * every call, within its limit, and by a subscription for as long as it takes.
 * @throws Refused when the server is there and does not take the user, or its certificate is not to be trusted
 */
export async function openEventStoreDb({
  url,
  prefix,
  log,
  patience = 10_000,
}: Options): Promise<EventStore> {
  const closing = new AbortController();
  const inFlight = new Set<Promise<unknown>>();
  let connection = new Connection({ url, prefix });
  let begun = performance.now();
  /** Of the log behind a connection: over the next one it may be another log. */
  let marked: { over: Connection; mark: string } | undefined;
  let subscriptions = 0;

  function connected(): Connection {
    if (connection.ended !== undefined && !closing.signal.aborted) {
      const now = performance.now();
      begun = Math.max(now, begun + APART);
      connection = new Connection({ url, prefix }, begun - now);
    }
    return connection;
  }

  /** Repeats a call that may be repeated until its time is up. @throws StoreUnavailable */
  async function persist<O extends keyof Operations>(
    time: number,
    operation: O,
    argument: Parameters<Operations[O]>[0],
  ): Promise<ReturnType<Operations[O]>> {
    const until = performance.now() + time;
    let reason = '';
    for (let failures = 0; ; failures++) {
      if (closing.signal.aborted) throw new StoreUnavailable('the log is closed');
      const left = until - performance.now();
      try {
        return await connected().call(operation, argument, Math.min(ATTEMPT, left));
      } catch (error) {
        const { kind, message } = error as CallFailed;
        if (kind === 'wrongRevision') throw error;
        if (kind === 'impossible') throw new Error(`EventStoreDB refuses this for good: ${message}`);
        if (kind !== 'unanswered' || reason === '') reason = message;
        const delay = backOff(failures, LONGEST_PAUSE);
        if (performance.now() + delay >= until) {
          throw kind === 'refused' ? new Refused(reason) : new StoreUnavailable(reason);
        }
        await sleep(delay, closing.signal);
      }
    }
  }

  function read<O extends 'readStream' | 'readAll'>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
  ): Promise<ReturnType<Operations[O]>> {
    return persist(patience / 5, operation, argument);
  }

  async function append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    mustBeWellFormed(stream);
    const { id, type } = event;
    // Here, since the client would never settle an append that it cannot serialise.
    const data = JSON.stringify(event.data);
    const metadata = JSON.stringify(event.metadata);
    try {
      return await persist((patience * 4) / 5, 'append', {
        stream,
        id,
        type,
        data,
        metadata,
        expectedRevision,
      });
    } catch (error) {
      if (error instanceof CallFailed) throw new WrongExpectedRevision(stream, expectedRevision);
      throw error;
    }
  }

  /** The first event of the log tells it from all others; an empty log gets one. */
  async function mark(): Promise<string> {
    const over = connected();
    if (marked?.over === over) return marked.mark;
    let [first] = await read('readAll', { from: 'start', maxCount: 1 });
    if (!first) {
      const begun = { id: crypto.randomUUID(), type: 'LogBegun', data: {}, metadata: {} };
      await append(OWN_STREAM, begun, NO_STREAM).catch((error) => {
        if (!(error instanceof WrongExpectedRevision)) throw error;
      });
      [first] = await read('readAll', { from: 'start', maxCount: 1 });
    }
    if (!first) throw new StoreUnavailable('the log gives no first event');
    marked = { over, mark: `e${first.id.slice(-12)}` };
    return marked.mark;
  }

  async function eventAt(position: Position) {
    const [event] = await read('readAll', { from: position, maxCount: 1 });
    return event?.position === position ? event : undefined;
  }

  async function end(): Promise<Position> {
    const [last] = await read('readAll', { from: 'end', backwards: true, maxCount: 1 });
    return last?.position ?? START;
  }

  async function* subscribe(options: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let seen: { position: Position; id?: string } = { position: options.after };
    const aborted = once(signal, 'abort').then(() => Promise.reject(new StoreUnavailable('aborted')));
    aborted.catch(() => {});
    let of = marked?.mark;
    let failures = 0;
    let isRefused = false;
    while (!signal.aborted) {
      const subscription = subscriptions++;
      const over = connected();
      const leave = (): void => void over.call('unsubscribe', subscription).catch(() => {});
      let heldSince: number | undefined;
      signal.addEventListener('abort', leave);
      try {
        const current = await Promise.race([mark(), aborted]);
        of ??= current;
        const isSame =
          seen.id === undefined || (await Promise.race([eventAt(seen.position), aborted]))?.id === seen.id;
        if (of !== current || !isSame)
          throw new LogReplaced('the log is not the one that was followed until now');
        await Promise.race([
          over.call('subscribe', { subscription, after: seen.position }, ATTEMPT),
          aborted,
        ]);
        heldSince = performance.now();
        if (failures > 1) log.info({ position: String(seen.position) }, 'following EventStoreDB again');
        for (let next = over.call('next', subscription); ; ) {
          const batch = await next;
          if (signal.aborted) return;
          next = over.call('next', subscription); // fetched while this one is worked on
          next.catch(() => {});
          const last = batch.events.at(-1);
          if (last) [seen, failures] = [last, 0];
          yield batch;
        }
      } catch (error) {
        if (error instanceof LogReplaced) throw error;
        if (signal.aborted) return;
        // What began and has ended is a drop; what could not even begin belongs to the drop before it.
        const wasRefused = isRefused;
        isRefused = error instanceof Refused || (error instanceof CallFailed && error.kind === 'refused');
        if (failures === 0 || heldSince !== undefined || (isRefused && !wasRefused))
          logDrop(error as Error, seen.position, isRefused);
        if (heldSince !== undefined && performance.now() - heldSince > STEADY) failures = 0;
      } finally {
        signal.removeEventListener('abort', leave);
        leave();
      }
      await sleep(failures === 0 ? 0 : backOff(failures, LONGEST_PAUSE_FOLLOWING), signal);
      failures++;
    }
  }

  function logDrop(error: Error, position: Position, isRefused: boolean): void {
    const isNormal = error instanceof CallFailed && (error.kind === 'passing' || error.kind === 'elsewhere');
    log[isRefused ? 'error' : isNormal ? 'info' : 'warn'](
      { reason: error.message, position: String(position) },
      'EventStoreDB has dropped the subscription: subscribing again',
    );
  }

  /** Asks whether the settings are right. A server that has just started may not know its users yet. */
  async function introduce(): Promise<void> {
    const until = performance.now() + ACCOUNTS;
    for (;;) {
      const refusal = await refusalOf(connected());
      if (refusal === undefined) return;
      if (performance.now() > until) {
        connection.end(refusal);
        throw new Refused(refusal);
      }
      await sleep(LONGEST_PAUSE / 2);
    }
  }

  /** Why the server refuses these settings; undefined where it does not, or is away. */
  async function refusalOf(over: Connection): Promise<string | undefined> {
    try {
      await over.call('readAll', { from: 'start', maxCount: 1 }, FIRST_ANSWER_TIMEOUT_MS);
      return undefined;
    } catch (error) {
      const { kind, message } = error as CallFailed;
      if (kind === 'refused') return message;
      // The search for a leader hides why a node does not answer.
      const node = over === connection ? firstNodeOf(url) : undefined;
      if (node === undefined) return undefined;
      const alone = new Connection({ url: node, prefix });
      const refusal = await refusalOf(alone);
      alone.end('it was only asked for its refusal');
      return refusal;
    }
  }

  /** Until it is settled, a close waits for it. */
  function settled<T>(promise: Promise<T>): Promise<T> {
    inFlight.add(promise);
    const done = () => void inFlight.delete(promise);
    promise.then(done, done);
    return promise;
  }

  await introduce();
  return {
    mark,
    append: (stream, event, expectedRevision) => settled(append(stream, event, expectedRevision)),
    readStream: (stream, maxCount) => read('readStream', { stream, maxCount }),
    eventAt,
    end,
    subscribe,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      await settledWithin(FAREWELL, Promise.allSettled(inFlight));
      connection.end('the log is closed');
    },
  };
}

/** Milliseconds to wait after so many failures, with jitter so that not all come back at once. */
function backOff(failures: number, longest: number): number {
  return Math.min(50 * 2 ** failures, longest) * (0.5 + Math.random());
}

import { setImmediate } from 'node:timers/promises';
import { type NextTurn, unlessAborted } from '@event-sourced/node/time';
import { type Batch, type EventLog, type Position, START, StoreUnavailable } from './eventStore.ts';

const PAGE_SIZE = 500;
/** For all live readers that share turns of the event loop. */
const NEW_EVENTS_PER_TURN = 500;
/** The fixed cost of a batch, in events. */
const BATCH_COST = 16;
/** A live reader that does not request events for this time loses its subscription. */
const IDLE_TIMEOUT_MS = 2_000;

const anyTurn: NextTurn = () => setImmediate();

type ReadToEnd = {
  after?: Position | undefined;
  /** The end of the log; by default it is read. */
  end?: Position | undefined;
  signal?: AbortSignal | undefined;
  nextTurn?: NextTurn | undefined;
  /** Events of streams without this prefix may be skipped. */
  prefix?: string | undefined;
};

const NEVER = new AbortController().signal;

/**
 * All events after a position, in pages, at least to the end that the log has at the beginning; the last page has
 * caught up, and may be empty. Each page is read after `nextTurn`. `position` is the last one read, in
 * any stream. @throws StoreUnavailable, also if reading ends before the end of the log
 */
export async function* readToEnd(
  log: Pick<EventLog, 'lastPosition' | 'readAll'>,
  { after = START, signal = NEVER, nextTurn = anyTurn, prefix, ...options }: ReadToEnd = {},
): AsyncGenerator<Batch & { position: Position }> {
  const end = options.end ?? (await unlessAborted(log.lastPosition(), signal));
  let position = after;
  for (let caughtUp = false; !caughtUp && !signal.aborted; ) {
    await nextTurn();
    const page = await unlessAborted(log.readAll({ after: position, limit: PAGE_SIZE, prefix }), signal);
    if (!page || end === undefined || signal.aborted) return;
    ({ position, isEnd: caughtUp } = page);
    if (caughtUp && end !== START) assertReached(end, position);
    yield { events: page.events, caughtUp, position };
  }
}

/** @throws StoreUnavailable if reading ended before the known end of the log */
export function assertReached(end: Position, position: Position): void {
  if (position >= end) return;
  throw new StoreUnavailable(`reading ended at position ${position}, before the end of the log at ${end}`);
}

/**
 * All events after a position, then each new event. A slow reader gets backpressure: its subscription is closed while
 * it is idle, and later resumed. Existing events are read after `nextTurn`. Each batch is yielded after
 * another turn, which small batches of new events share. @throws StoreUnavailable when the log is closed
 */
export async function* readLive(
  log: EventLog,
  {
    after,
    signal,
    nextTurn = anyTurn,
  }: { after: Position; signal: AbortSignal; nextTurn?: NextTurn | undefined },
): AsyncGenerator<Batch> {
  let position = after;
  let isBehind = true;
  while (!signal.aborted) {
    const idle = new AbortController();
    const subscription = log.subscribe({ after: position, signal: AbortSignal.any([signal, idle.signal]) });
    const batches = subscription[Symbol.asyncIterator]();
    const unsubscribe = (): void => {
      idle.abort();
      void batches.return?.();
    };
    try {
      while (!idle.signal.aborted) {
        if (isBehind) await nextTurn();
        const { value: batch, done } = await batches.next();
        if (signal.aborted) return;
        if (done) throw new StoreUnavailable('the log is closed');
        position = batch.events.at(-1)?.position ?? position;
        isBehind = !batch.caughtUp;
        await nextTurn(isBehind ? 1 : (BATCH_COST + batch.events.length) / NEW_EVENTS_PER_TURN);
        const timer = setTimeout(unsubscribe, IDLE_TIMEOUT_MS);
        try {
          yield batch;
        } finally {
          clearTimeout(timer);
        }
      }
    } finally {
      unsubscribe();
    }
  }
}

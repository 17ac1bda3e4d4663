import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Batch,
  type EventLog,
  NO_STREAM,
  type Page,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../src/eventStore.ts';
import { readLive, readToEnd } from '../src/readEvents.ts';
import { event } from '../src/testing/contract.ts';

const IDLE_TIMEOUT_MS = 2_000;

function recorded(position: Position): RecordedEvent {
  const stream = `plant-${position % 2n === 0n ? 'alice' : 'bob'}/${position}`;
  return { ...event(`${position}`), position, stream, revision: 0n };
}

type Subscription = { after: Position; signal: AbortSignal; ended: boolean };

/** A log in memory with events at these positions, and its subscriptions. */
function logOf(positions: Position[], { batch = 2 } = {}) {
  const subscriptions: Subscription[] = [];
  let wake = Promise.withResolvers<void>();
  const next = (after: Position): Page => {
    const rest = positions.filter((position) => position > after);
    const events = rest.slice(0, batch).map(recorded);
    return { events, position: events.at(-1)?.position ?? after, isEnd: rest.length <= batch };
  };
  async function* subscribe({ after, signal }: { after: Position; signal: AbortSignal }) {
    const subscription = { after, signal, ended: false };
    subscriptions.push(subscription);
    signal.addEventListener('abort', () => wake.resolve());
    try {
      for (let position = after, first = true; !signal.aborted; first = false) {
        const { events, isEnd, ...page } = next(position);
        position = page.position;
        if (events.length > 0 || first) yield { events, caughtUp: isEnd };
        while (!signal.aborted && positions.every((one) => one <= position)) await wake.promise;
      }
    } finally {
      subscription.ended = true;
    }
  }
  const readAll: EventLog['readAll'] = async ({ after }) => next(after);
  const lastPosition = async () => positions.at(-1) ?? START;
  return {
    log: { readAll, lastPosition, subscribe } as unknown as EventLog,
    subscriptions,
    append(position: Position): void {
      positions.push(position);
      wake.resolve();
      wake = Promise.withResolvers();
    },
  };
}

const never = () => new AbortController().signal;
const positionsIn = (batches: Batch[]) =>
  batches.flatMap(({ events }) => events.map(({ position }) => position));

describe('readToEnd', () => {
  test('reads page by page, and the last batch has caught up', async () => {
    const { log, subscriptions } = logOf([3n, 4n, 7n, 8n, 9n]);
    const batches = await Array.fromAsync(readToEnd(log, { signal: never() }));
    expect(batches.map((batch) => positionsIn([batch]))).toEqual([[3n, 4n], [7n, 8n], [9n]]);
    expect(batches.map(({ caughtUp }) => caughtUp)).toEqual([false, false, true]);
    expect(subscriptions).toEqual([]);
  });

  test.each([
    [[3n, 4n, 7n], 3n, [4n, 7n]],
    [[3n, 4n, 7n], 5n, [7n]],
    [[3n, 4n, 7n], 7n, []],
    [[3n, 4n, 7n], 9n, []],
    [[], START, []],
  ])('of the positions %o after %s yields %o', async (log, after, expected) => {
    const batches = await Array.fromAsync(readToEnd(logOf(log).log, { after, signal: never() }));
    expect(positionsIn(batches)).toEqual(expected);
    expect(batches.at(-1)?.caughtUp).toBe(true);
  });

  test('fails if the log ends before a known end', async () => {
    const { log } = logOf([1n, 2n, 3n]);
    expect(positionsIn(await Array.fromAsync(readToEnd(log, { end: 3n })))).toEqual([1n, 2n, 3n]);
    await expect(Array.fromAsync(readToEnd(log, { end: 4n }))).rejects.toThrow(StoreUnavailable);
  });
});

describe('readLive', () => {
  test('rejects when the log is closed', async () => {
    const store = await openIn(tempDir());
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const batches = readLive(store, { after: START, signal: never() });
    expect(positionsIn([(await batches.next()).value as Batch])).toEqual([1n]);
    const rejected = expect(batches.next()).rejects.toThrow(StoreUnavailable);
    await store.close();
    await rejected;
  });

  test('can be aborted while it is idle', async () => {
    const { log, subscriptions } = logOf([1n]);
    const leaving = new AbortController();
    const batches = readLive(log, { after: START, signal: leaving.signal });
    await batches.next();
    const waiting = batches.next();
    await nextTurn();
    leaving.abort();
    expect(await waiting).toEqual({ value: undefined, done: true });
    expect(subscriptions).toMatchObject([{ ended: true }]);
  });
});

describe.each([
  ['readToEnd', readToEnd],
  ['readLive', readLive],
])('%s', (_, read) => {
  test('that is aborted beforehand reads nothing', async () => {
    const { log, subscriptions } = logOf([1n]);
    expect(await Array.fromAsync(read(log, { after: START, signal: AbortSignal.abort() }))).toEqual([]);
    expect(subscriptions).toEqual([]);
  });

  test('that is aborted yields no further batch', async () => {
    const { log, subscriptions } = logOf([1n, 2n, 3n, 4n]);
    const leaving = new AbortController();
    const seen: Batch[] = [];
    for await (const batch of read(log, { after: START, signal: leaving.signal })) {
      seen.push(batch);
      leaving.abort();
    }
    expect(positionsIn(seen)).toEqual([1n, 2n]);
    expect(subscriptions.every(({ ended }) => ended)).toBe(true);
  });

  test('ends its subscription on a break', async () => {
    const { log, subscriptions } = logOf([1n, 2n, 3n, 4n]);
    for await (const _ of read(log, { after: START, signal: never() })) break;
    for (const subscription of subscriptions)
      expect(subscription).toMatchObject({ signal: { aborted: true }, ended: true });
  });

  test('leaves no listener on its signal', async () => {
    const signal = never();
    for await (const { caughtUp } of read(logOf([1n, 2n, 3n]).log, { after: START, signal }))
      if (caughtUp) break;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('an idle live reader', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
  });

  test('ends its subscription after two seconds, and misses no event', async () => {
    const { log, subscriptions, append } = logOf([1n, 2n, 3n, 4n]);
    const batches = readLive(log, { after: START, signal: never() });
    const seen = positionsIn([(await batches.next()).value as Batch]);
    vi.advanceTimersByTime(IDLE_TIMEOUT_MS - 1);
    expect(subscriptions).toMatchObject([{ signal: { aborted: false } }]);
    vi.advanceTimersByTime(1);
    expect(subscriptions).toMatchObject([{ signal: { aborted: true } }]);
    append(5n);
    while (seen.length < 5) seen.push(...positionsIn([(await batches.next()).value as Batch]));
    expect(seen).toEqual([1n, 2n, 3n, 4n, 5n]);
    expect(subscriptions).toMatchObject([
      { after: START, ended: true },
      { after: 2n, signal: { aborted: false } },
    ]);
    await batches.return(undefined);
    expect(subscriptions.map(({ ended }) => ended)).toEqual([true, true]);
  });

  test('receives each event once and in order, whenever and however long it is idle', async () => {
    const idle = fc.constantFrom(0, 1, IDLE_TIMEOUT_MS - 1, IDLE_TIMEOUT_MS, 10 * IDLE_TIMEOUT_MS);
    const times = fc.array(idle, { minLength: 30, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(times, fc.integer({ min: 1, max: 5 }), async (idleFor, batch) => {
        const existing = Array.from({ length: 20 }, (_, i) => BigInt(3 * i + 1));
        const { log, append } = logOf([...existing], { batch });
        const leaving = new AbortController();
        const seen: Position[] = [];
        for await (const next of readLive(log, { after: START, signal: leaving.signal })) {
          seen.push(...positionsIn([next]));
          vi.advanceTimersByTime(idleFor[seen.length] ?? 0);
          if (next.caughtUp && seen.length < 25) append((seen.at(-1) as Position) + 1n);
          else if (next.caughtUp) leaving.abort();
        }
        expect(seen).toEqual([...existing, 59n, 60n, 61n, 62n, 63n]);
      }),
    );
  });
});

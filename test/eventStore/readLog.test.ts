import { getEventListeners } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Batch,
  type EventLog,
  type EventStore,
  NO_STREAM,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../../src/eventStore/eventStore.ts';
import { readLog, SILENCE_TIMEOUT_MS } from '../../src/eventStore/readLog.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { tempDir } from '../support/tempDir.ts';
import { event } from './contract.ts';

/** A reader who does not come back for so long keeps no subscription open, in milliseconds. */
const IDLE = 2_000;

function recorded(position: Position): RecordedEvent {
  const stream = `plant-${position % 2n === 0n ? 'alice' : 'bob'}/${position}`;
  return { ...event(`${position}`), position, stream, revision: 0n };
}

type Asked = { after: Position; signal: AbortSignal; ended: boolean };

/** A log in memory: events at these positions, so many a batch, and what was asked of it. */
function logOf(positions: Position[], { batch = 2, end = async () => positions.at(-1) ?? START } = {}) {
  const subscriptions: Asked[] = [];
  let wake = Promise.withResolvers<void>();
  async function* subscribe({ after, signal }: Pick<Asked, 'after' | 'signal'>): AsyncGenerator<Batch> {
    const asked = { after, signal, ended: false };
    subscriptions.push(asked);
    signal.addEventListener('abort', () => wake.resolve());
    try {
      for (let position = after, first = true; !signal.aborted; first = false) {
        const rest = positions.filter((one) => one > position);
        const events = rest.slice(0, batch).map(recorded);
        position = events.at(-1)?.position ?? position;
        if (events.length > 0 || first) yield { events, caughtUp: rest.length <= batch };
        while (!signal.aborted && positions.every((one) => one <= position)) await wake.promise;
      }
    } finally {
      asked.ended = true;
    }
  }
  return {
    log: { end, subscribe } as unknown as EventLog,
    subscriptions,
    append(position: Position): void {
      positions.push(position);
      wake.resolve();
      wake = Promise.withResolvers();
    },
  };
}

/** A subscription that gives nothing, until it is aborted. */
async function* silent({ signal }: { signal: AbortSignal }): AsyncGenerator<Batch> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

const never = () => new AbortController().signal;
const positionsIn = (batches: Batch[]) =>
  batches.flatMap(({ events }) => events.map(({ position }) => position));

describe('to its end', () => {
  test('a log is read batch by batch, and its subscription ends with it', async () => {
    const { log, subscriptions } = logOf([3n, 4n, 7n, 8n, 9n]);
    const batches = await Array.fromAsync(readLog(log, { after: START, signal: never() }));
    expect(batches.map(({ events, caughtUp }) => [events.length, caughtUp])).toEqual([
      [2, false],
      [2, false],
      [1, true],
    ]);
    expect(positionsIn(batches)).toEqual([3n, 4n, 7n, 8n, 9n]);
    expect(subscriptions).toMatchObject([{ after: START, ended: true }]);
  });

  test.each([
    [3n, [4n, 7n]],
    [5n, [7n]],
    [7n, []],
    [9n, []],
  ])('a log is read from after position %s', async (after, expected) => {
    const batches = await Array.fromAsync(readLog(logOf([3n, 4n, 7n]).log, { after, signal: never() }));
    expect(positionsIn(batches)).toEqual(expected);
    expect(batches.at(-1)?.caughtUp).toBe(true);
  });

  test('a log without events gives one batch without any', async () => {
    const batches = await Array.fromAsync(readLog(logOf([]).log, { after: START, signal: never() }));
    expect(batches).toEqual([{ events: [], caughtUp: true }]);
  });

  test('a log is left by a reader who has seen enough', async () => {
    const { log, subscriptions } = logOf([1n, 2n, 3n, 4n]);
    for await (const _ of readLog(log, { after: START, signal: never() })) break;
    expect(subscriptions).toMatchObject([{ signal: { aborted: true }, ended: true }]);
  });
});

describe('live', () => {
  test('a log is read on with each event as it is appended, until it is aborted', async () => {
    const { log, subscriptions, append } = logOf([1n, 2n, 3n]);
    const leaving = new AbortController();
    const seen: Position[] = [];
    for await (const batch of readLog(log, { after: 1n, signal: leaving.signal, live: true })) {
      seen.push(...positionsIn([batch]));
      if (seen.length < 6) append((seen.at(-1) ?? START) + 1n);
      else leaving.abort();
    }
    expect(seen).toEqual([2n, 3n, 4n, 5n, 6n, 7n]);
    expect(subscriptions).toMatchObject([{ after: 1n, ended: true }]);
  });

  test('a log that is closed is no log that has come to its end', async () => {
    const store = await openStore();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const batches = readLog(store, { after: START, signal: never(), live: true });
    expect(positionsIn([(await batches.next()).value as Batch])).toEqual([1n]);
    const told = expect(batches.next()).rejects.toThrow(new StoreUnavailable('the log has been closed'));
    await store.close();
    await told;
  });

  test('a log may be silent for as long as it likes: it is not asked for its end', async () => {
    let asked = 0;
    const log = { subscribe: silent, end: async () => BigInt(++asked) } as unknown as EventLog;
    stopClock();
    const leaving = new AbortController();
    setTimeout(() => leaving.abort(), 10 * SILENCE_TIMEOUT_MS);
    await untilSettled(Array.fromAsync(readLog(log, { after: START, signal: leaving.signal, live: true })));
    expect(asked).toBe(0);
  });

  test('a log on which nothing happens can be left', async () => {
    const { log, subscriptions } = logOf([1n]);
    const leaving = new AbortController();
    const batches = readLog(log, { after: START, signal: leaving.signal, live: true });
    await batches.next();
    const waiting = batches.next();
    await nextTurn();
    leaving.abort();
    expect(await waiting).toEqual({ value: undefined, done: true });
    expect(subscriptions).toMatchObject([{ ended: true }]);
  });
});

describe.each([true, false])('whether live or not (%s), a reader', (live) => {
  test('that has left beforehand asks for nothing', async () => {
    const { log, subscriptions } = logOf([1n]);
    const signal = AbortSignal.abort();
    expect(await Array.fromAsync(readLog(log, { after: START, signal, live }))).toEqual([]);
    expect(subscriptions).toEqual([]);
  });

  test('that leaves in the middle is given nothing more', async () => {
    const { log, subscriptions } = logOf([1n, 2n, 3n, 4n]);
    const leaving = new AbortController();
    const seen: Batch[] = [];
    for await (const batch of readLog(log, { after: START, signal: leaving.signal, live })) {
      seen.push(batch);
      leaving.abort();
    }
    expect(positionsIn(seen)).toEqual([1n, 2n]);
    expect(subscriptions).toMatchObject([{ ended: true }]);
  });

  test('of a log that has been closed is told so', async () => {
    const store = await openStore();
    await store.close();
    const batches = readLog(store, { after: START, signal: never(), live });
    await expect(batches.next()).rejects.toThrow(new StoreUnavailable('the log has been closed'));
  });

  test('is told what the log itself says', async () => {
    const away = new StoreUnavailable('the disk is gone');
    const subscribe = () => ({
      [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(away) }),
    });
    const log = { ...logOf([]).log, subscribe };
    await expect(readLog(log, { after: START, signal: never(), live }).next()).rejects.toBe(away);
  });

  test('leaves nothing on the signal that it was given', async () => {
    const signal = never();
    const { log } = logOf([1n, 2n, 3n]);
    for await (const { caughtUp } of readLog(log, { after: START, signal, live })) if (caughtUp) break;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('a log that is silent', () => {
  test('is asked for its end again and again, and waited for while it answers', async () => {
    const asked: number[] = [];
    const leaving = new AbortController();
    const log = {
      subscribe: silent,
      end: async () => {
        if (asked.push(performance.now()) === 3) leaving.abort();
        return START;
      },
    } as unknown as EventLog;
    stopClock();
    const began = performance.now();
    const { signal } = leaving;
    const [batches] = await untilSettled(Array.fromAsync(readLog(log, { after: START, signal })));
    expect(batches).toEqual([]);
    expect(asked.map((at) => at - began)).toEqual([1, 2, 3].map((times) => times * SILENCE_TIMEOUT_MS));
  });

  test('is given up when it does not answer, and its subscription ended', async () => {
    const away = new StoreUnavailable('nobody is there');
    const asked: AbortSignal[] = [];
    const log = {
      subscribe: (options: { signal: AbortSignal }) => {
        asked.push(options.signal);
        return silent(options);
      },
      end: () => Promise.reject(away),
    } as unknown as EventLog;
    stopClock();
    const next = untilSettled(readLog(log, { after: START, signal: never() }).next());
    await expect(next).rejects.toBe(away);
    expect(asked).toMatchObject([{ aborted: true }]);
  });

  test('in the middle is given up too', async () => {
    const { log } = logOf([1n, 2n, 3n]);
    const away = new StoreUnavailable('nobody is there any more');
    async function* subscribe(options: Parameters<EventLog['subscribe']>[0]): AsyncGenerator<Batch> {
      for await (const batch of log.subscribe(options)) {
        yield batch;
        break;
      }
      yield* silent(options);
    }
    const batches = readLog(
      { ...log, subscribe, end: () => Promise.reject(away) },
      { after: START, signal: never() },
    );
    stopClock();
    expect(positionsIn([(await batches.next()).value as Batch])).toEqual([1n, 2n]);
    await expect(untilSettled(batches.next())).rejects.toBe(away);
  });

  test('is not asked before, nor once it has spoken', async () => {
    let asked = 0;
    const end = async () => BigInt(++asked);
    const { log } = logOf([1n, 2n, 3n, 4n, 5n], { end });
    stopClock();
    for await (const _ of readLog(log, { after: START, signal: never() })) {
      vi.advanceTimersByTime(2 * SILENCE_TIMEOUT_MS); // a slow reader is no silent log
      await nextTurn();
    }
    expect(asked).toBe(0);
  });
});

describe('a reader who does not come back', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
  });

  test.each([true, false])(
    'for two seconds keeps no subscription, and misses nothing later (live: %s)',
    async (live) => {
      const { log, subscriptions, append } = logOf([1n, 2n, 3n, 4n]);
      const leaving = new AbortController();
      const batches = readLog(log, { after: START, signal: leaving.signal, live });
      const seen = positionsIn([(await batches.next()).value as Batch]);
      vi.advanceTimersByTime(IDLE - 1);
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
    },
  );

  test('in time keeps its subscription, however often', async () => {
    const { log, subscriptions } = logOf([1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n]);
    for await (const _ of readLog(log, { after: START, signal: never() })) vi.advanceTimersByTime(IDLE - 1);
    expect(subscriptions).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('at the end of the log is not led there again', async () => {
    const { log, subscriptions } = logOf([1n, 2n]);
    const batches = readLog(log, { after: START, signal: never() });
    await batches.next();
    vi.advanceTimersByTime(IDLE);
    expect(await batches.next()).toEqual({ value: undefined, done: true });
    expect(subscriptions).toHaveLength(1);
  });
});

test('however a reader dawdles, it is given every event once and in order', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const dawdling = fc.array(fc.constantFrom(0, 1, IDLE - 1, IDLE, 10 * IDLE), {
    minLength: 30,
    maxLength: 30,
  });
  await fc.assert(
    fc.asyncProperty(dawdling, fc.boolean(), fc.integer({ min: 1, max: 5 }), async (pauses, live, batch) => {
      const there = Array.from({ length: 20 }, (_, i) => BigInt(3 * i + 1));
      const { log, append } = logOf([...there], { batch });
      const leaving = new AbortController();
      const seen: Position[] = [];
      for await (const next of readLog(log, { after: START, signal: leaving.signal, live })) {
        seen.push(...positionsIn([next]));
        vi.advanceTimersByTime(pauses[seen.length] ?? 0);
        if (live && next.caughtUp && seen.length < 25) append((seen.at(-1) as Position) + 1n);
        else if (live && next.caughtUp) leaving.abort();
      }
      const later = live ? [59n, 60n, 61n, 62n, 63n] : [];
      expect(seen).toEqual([...there, ...later]);
    }),
  );
});

async function openStore(): Promise<EventStore> {
  const store = await openSqliteEventStore({
    file: join(tempDir(), 'log.db'),
    now: () => new Date(),
    onFatal: (error) => {
      throw error;
    },
  });
  onTestFinished(() => store.close());
  return store;
}

import { setImmediate as nextTurn } from 'node:timers/promises';
import { open } from '@event-sourced/testing/eventStoreDbStore';
import { startFakeServer } from '@event-sourced/testing/stores';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Batch, LogReplaced, NO_LOG_ID, type RecordedEvent, START } from '../../src/eventStore.ts';
import type { Cursor } from '../../src/eventStoreDb/catchUpSubscription.ts';
import { SharedSubscription, WINDOW_SIZE } from '../../src/eventStoreDb/sharedSubscription.ts';

/** A log in memory, with subscriptions whose batches have this number of events. */
function logOf(batchSize: number) {
  const events: RecordedEvent[] = [];
  let appended = Promise.withResolvers<void>();
  let subscriptions = 0;
  let failure: Error | undefined;
  async function* source(cursor: Cursor, signal: AbortSignal): AsyncGenerator<Batch> {
    subscriptions++;
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));
    cursor.logId = 'log';
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      await nextTurn();
      if (failure) throw failure;
      const batch = events.filter(({ position }) => position > cursor.position).slice(0, batchSize);
      const last = batch.at(-1);
      if (last) Object.assign(cursor, { position: last.position, eventId: last.id });
      const caughtUp = last === undefined || last === events.at(-1);
      if (last || isFirst) yield { events: batch, caughtUp };
      else await Promise.race([appended.promise, aborted]);
    }
  }
  return {
    shared: new SharedSubscription(source),
    positions: () => events.map(({ position }) => position),
    append(count: number): void {
      for (let i = 0; i < count; i++) {
        const position = BigInt(events.length * 10 + 10);
        events.push({ position, id: `${position}` } as RecordedEvent);
      }
      appended.resolve();
      appended = Promise.withResolvers();
    },
    fail(error: Error): void {
      failure = error;
      appended.resolve();
    },
    subscriptions: () => subscriptions,
  };
}

/** A subscriber after a position, which takes a batch when it is allowed to. */
function subscriber({ shared }: ReturnType<typeof logOf>, position = START) {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const batches = shared.subscribe({ position, logId: NO_LOG_ID }, leaving.signal);
  const received: bigint[] = [];
  /** The batch that it waits for: it takes batches one after the other. */
  let taking: Promise<boolean> | undefined;
  async function next(): Promise<boolean> {
    const { value } = await batches.next();
    received.push(...(value?.events ?? []).map((event: RecordedEvent) => event.position));
    taking = undefined;
    return value?.caughtUp ?? false;
  }
  return {
    received,
    leave: () => leaving.abort(),
    take: (): Promise<boolean> => (taking ??= next()),
    /** Takes until it has every event. */
    async takeAll(expected: readonly bigint[]): Promise<void> {
      while ((received.at(-1) ?? position) < (expected.at(-1) ?? START)) await this.take();
    },
  };
}

const STEP = fc.oneof(
  fc.record({ append: fc.constantFrom(1, 7, 300, WINDOW_SIZE, 3 * WINDOW_SIZE) }),
  fc.record({ join: fc.nat(), ahead: fc.boolean() }),
  fc.record({ take: fc.nat(5), times: fc.nat(30) }),
  fc.record({ leave: fc.nat(5) }),
);

test('every subscriber gets each event after its position once and in order, independently of others', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(1, 50, 512), fc.array(STEP, { maxLength: 20 }), async (size, steps) => {
      const log = logOf(size === 1 ? 50 : size);
      log.append(size);
      const subscribers: { after: bigint; one: ReturnType<typeof subscriber> }[] = [];
      const at = (i: number) => subscribers[i % Math.max(subscribers.length, 1)]?.one;
      const join = (after: bigint) => subscribers.push({ after, one: subscriber(log, after) });
      join(START);
      for (const step of steps) {
        if ('append' in step) log.append(step.append);
        else if ('join' in step) {
          const positions = [START, ...log.positions()];
          join(positions.at(step.ahead ? -1 : step.join % positions.length) as bigint);
        } else if ('leave' in step) at(step.leave)?.leave();
        else {
          const end = log.positions().at(-1) as bigint;
          for (let i = 0; i < step.times && (at(step.take)?.received.at(-1) ?? START) < end; i++)
            await Promise.race([at(step.take)?.take(), nextTurn()]);
        }
      }
      log.append(1);
      const all = log.positions();
      const left = new Set(steps.flatMap((step) => ('leave' in step ? [step.leave] : [])));
      for (const { after, one } of subscribers) {
        if (left.size === 0) await one.takeAll(all);
        const expected = all.filter((position) => position > after);
        expect(one.received).toEqual(left.size === 0 ? expected : expected.slice(0, one.received.length));
        one.leave();
      }
    }),
    { numRuns: 60 },
  );
});

describe('one subscription to the server', () => {
  test('suffices for all subscribers that keep up, including one that joins at its end', async () => {
    const log = logOf(512);
    log.append(2_000);
    const [first, second] = [subscriber(log), subscriber(log)];
    await Promise.all([first.takeAll(log.positions()), second.takeAll(log.positions())]);
    const third = subscriber(log, log.positions().at(-1));
    expect(await third.take()).toBe(true);
    log.append(1);
    for (const one of [first, second, third]) {
      await one.takeAll(log.positions());
      expect(one.received.at(-1)).toBe(log.positions().at(-1));
    }
    expect(log.subscriptions()).toBe(1);
  });

  test('is left by a subscriber that falls behind the window, which returns when it has caught up', async () => {
    const log = logOf(512);
    log.append(1);
    const [fast, slow] = [subscriber(log), subscriber(log)];
    await Promise.all([fast.take(), slow.take()]);
    log.append(4 * WINDOW_SIZE);
    await fast.takeAll(log.positions());
    await slow.takeAll(log.positions());
    expect(log.subscriptions()).toBe(2);
    for (let i = 0; i < 3; i++) {
      log.append(1);
      await Promise.all([fast.takeAll(log.positions()), slow.takeAll(log.positions())]);
    }
    expect([fast.received, slow.received]).toEqual([log.positions(), log.positions()]);
    expect(log.subscriptions()).toBe(2);
  });

  test('fails for all subscribers if the log was replaced', async () => {
    const log = logOf(512);
    log.append(1);
    const both = [subscriber(log), subscriber(log)];
    await Promise.all(both.map((one) => one.take()));
    const waiting = both.map((one) => expect(one.take()).rejects.toThrow(LogReplaced));
    await nextTurn();
    log.fail(new LogReplaced('replaced'));
    await Promise.all(waiting);
  });
});

test('two views of a new instance read the log of the server once', async () => {
  const server = await startFakeServer();
  for (let i = 0; i < 3_000; i++) server.write(`plant-alice/${i}`);
  const { store } = await open(server.url);
  const leaving = new AbortController();
  const follow = async () => {
    let events = 0;
    for await (const batch of store.subscribe({ after: START, signal: leaving.signal })) {
      events += batch.events.length;
      if (batch.caughtUp) break;
    }
    return events;
  };
  expect(await Promise.all([follow(), follow()])).toEqual([3_000, 3_000]);
  expect(server.calls.subscribe).toBe(1);
  leaving.abort();
});

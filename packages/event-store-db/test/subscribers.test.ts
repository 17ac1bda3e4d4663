import { setImmediate as nextTurn } from 'node:timers/promises';
import { open } from '@event-sourced/testing/eventStoreDbStore';
import { startFakeServer } from '@event-sourced/testing/stores';
import fc from 'fast-check';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type ForwardRange,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  START,
} from '../../event-log/src/eventStore.ts';
import type { Client } from '../src/client.ts';
import { CallFailed } from '../src/protocol.ts';
import type { PageAfter } from '../src/read.ts';
import { Subscribers } from '../src/subscribers.ts';
import { Tail, WINDOW_SIZE } from '../src/tail.ts';

/** A log in memory, whose subscription has an event when it was sent. */
function logOf(events: number) {
  const all: RecordedEvent[] = [];
  const closing = new AbortController();
  onTestFinished(() => closing.abort());
  const state = { logId: 'log', sent: 0, reads: 0, subscriptions: 0, responses: Promise.resolve() };
  let delivery = Promise.withResolvers<void>();
  let drop: CallFailed | undefined;
  let delivered = 0;
  const notify = (): void => {
    delivery.resolve();
    delivery = Promise.withResolvers();
  };
  const indexAfter = (position: Position) => all.findLastIndex((event) => event.position <= position) + 1;
  const operations = {
    async subscribe({ after }: { after: Position }) {
      state.subscriptions++;
      delivered = indexAfter(after);
      state.sent = all.length;
      drop = undefined;
    },
    async next(_: undefined) {
      for (; ; await delivery.promise) {
        if (drop) throw drop;
        if (state.sent === delivered) continue;
        const events = all.slice(delivered, state.sent);
        delivered = state.sent;
        return { events };
      }
    },
  };
  const connection = { call: (name: 'next' | 'subscribe', argument: never) => operations[name](argument) };
  const lastPosition = async () => all.at(-1)?.position ?? START;
  const log = {
    logId: async () => state.logId,
    lastPosition,
    readEvent: async (position: Position) => all.find((event) => event.position === position),
    async readAll({ after, limit }: ForwardRange): Promise<PageAfter> {
      await nextTurn();
      state.reads++;
      const start = indexAfter(after);
      if (after !== START && all[start - 1]?.position !== after) throw new LogReplaced('no event');
      const page = all.slice(start, start + limit);
      const position = page.at(-1)?.position ?? after;
      const isEnd = start + limit >= all.length;
      await state.responses;
      return { events: page, position, isEnd, afterId: all[start - 1]?.id };
    },
  };
  const end = { position: START, advance() {}, searched() {}, forget() {} };
  const client: Pick<Client, 'closed' | 'retry'> = {
    closed: closing.signal,
    retry: (attempt) => attempt(connection as never, Number.POSITIVE_INFINITY),
  };
  const logger = pino({ level: 'silent' });
  const append = (count: number): void => {
    for (let i = 0; i < count; i++) {
      const position = BigInt(all.length * 10 + 10);
      all.push({ position, id: `${position}` } as RecordedEvent);
    }
  };
  append(events);
  const tail = new Tail({ client, log, end, prefix: '', logger });
  return {
    all,
    state,
    append,
    subscribers: new Subscribers(log, tail, end),
    positions: () => all.map(({ position }) => position),
    /** The subscription delivers what was appended. */
    send(): void {
      state.sent = all.length;
      notify();
    },
    drop(): void {
      drop = new CallFailed('transient', 'dropped');
      notify();
    },
  };
}

/** A subscriber after a position, which takes a batch when it is allowed to. */
function subscriber({ subscribers }: ReturnType<typeof logOf>, position = START) {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const batches = subscribers.subscribe(position, NO_LOG_ID, leaving.signal);
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
  fc.record({ append: fc.constantFrom(1, 7, 300, WINDOW_SIZE, 3 * WINDOW_SIZE), isSent: fc.boolean() }),
  fc.record({ join: fc.nat(), ahead: fc.boolean() }),
  fc.record({ take: fc.nat(5), times: fc.nat(30) }),
  fc.record({ leave: fc.nat(5) }),
  fc.constant({ drop: true }),
);

test('every subscriber gets each event after its position once and in order, independently of others', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0, 1, 50, 1_200),
      fc.array(STEP, { maxLength: 20 }),
      async (events, steps) => {
        const log = logOf(events);
        const subscribers: { after: bigint; one: ReturnType<typeof subscriber> }[] = [];
        const at = (i: number) => subscribers[i % Math.max(subscribers.length, 1)]?.one;
        const join = (after: bigint) => subscribers.push({ after, one: subscriber(log, after) });
        join(START);
        for (const step of steps) {
          if ('append' in step) {
            log.append(step.append);
            if (step.isSent) log.send();
          } else if ('join' in step) {
            const positions = [START, ...log.positions()];
            join(positions.at(step.ahead ? -1 : step.join % positions.length) as bigint);
          } else if ('leave' in step) at(step.leave)?.leave();
          else if ('drop' in step) log.drop();
          else for (let i = 0; i < step.times; i++) await Promise.race([at(step.take)?.take(), nextTurn()]);
        }
        log.append(1);
        log.send();
        log.drop(); // whatever was not sent to this subscription
        const all = log.positions();
        const left = new Set(steps.flatMap((step) => ('leave' in step ? [step.leave] : [])));
        for (const { after, one } of subscribers) {
          if (left.size === 0) await one.takeAll(all);
          const expected = all.filter((position) => position > after);
          expect(one.received).toEqual(left.size === 0 ? expected : expected.slice(0, one.received.length));
          one.leave();
        }
      },
    ),
    { numRuns: 60 },
  );
});

describe('one subscription to the server', () => {
  test('suffices for all subscribers, and each page is read once for those that keep up', async () => {
    const log = logOf(2_000);
    const [first, second] = [subscriber(log), subscriber(log)];
    await Promise.all([first.takeAll(log.positions()), second.takeAll(log.positions())]);
    expect(log.state.reads).toBe(8);
    const third = subscriber(log, log.positions().at(-1));
    expect(await third.take()).toBe(true);
    log.append(1);
    log.send();
    for (const one of [first, second, third]) {
      await one.takeAll(log.positions());
      expect(one.received.at(-1)).toBe(log.positions().at(-1));
    }
    expect(log.state).toMatchObject({ subscriptions: 1, reads: 9 });
  });

  test('is left by a subscriber that falls behind, which reads pages until it has caught up', async () => {
    const log = logOf(1);
    const [fast, slow] = [subscriber(log), subscriber(log)];
    await Promise.all([fast.take(), slow.take()]);
    for (let i = 0; i < 4; i++) {
      log.append(WINDOW_SIZE);
      log.send();
      await fast.takeAll(log.positions());
    }
    const { reads } = log.state;
    await slow.takeAll(log.positions());
    expect(log.state.reads).toBeGreaterThan(reads);
    expect([fast.received, slow.received]).toEqual([log.positions(), log.positions()]);
  });

  test('fails for all subscribers if the log was replaced', async () => {
    const log = logOf(1);
    const both = [subscriber(log), subscriber(log)];
    await Promise.all(both.map((one) => one.take()));
    const waiting = both.map((one) => expect(one.take()).rejects.toThrow(LogReplaced));
    await nextTurn();
    log.state.logId = 'other';
    log.all.splice(0, 1, { position: 10n, id: 'other' } as RecordedEvent);
    log.drop();
    await Promise.all(waiting);
  });
});

test('a subscriber gets an event that arrived while it waited for the page of another subscriber', async () => {
  const log = logOf(1);
  const [last = START] = log.positions();
  const { promise, resolve } = Promise.withResolvers<void>();
  log.state.responses = promise;
  const [first, second] = [subscriber(log, last), subscriber(log, last)];
  void first.take();
  await expect.poll(() => log.state.reads).toBe(1);
  log.append(1);
  log.send();
  for (let turn = 0; turn < 10; turn++) await nextTurn(); // the event arrives
  const all = [first, second].map((one) => one.takeAll(log.positions()));
  for (let turn = 0; turn < 10; turn++) await nextTurn(); // the second one waits for the same page
  expect(log.state.reads).toBe(1);
  resolve();
  await Promise.all(all);
  expect([first.received, second.received]).toEqual([log.positions().slice(1), log.positions().slice(1)]);
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
  expect(server.calls.sent).toBeLessThan(3_100);
  leaving.abort();
});

import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { cluster, open, subscribed } from '@event-sourced/testing/eventStoreDbStore';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test, vi } from 'vitest';
import {
  type EventStore,
  NO_STREAM,
  type Position,
  START,
  type StoreObserver,
  StoreUnavailable,
} from '../../packages/event-log/src/eventStore.ts';
import { event } from '../../packages/event-log/src/testing/contract.ts';
import {
  type Drop,
  type FakeEventStoreDb,
  FakeLog,
} from '../../packages/event-store-db/src/testing/server.ts';

/** The timeout of an attempt without a response, in milliseconds. */
const ATTEMPT_TIMEOUT_MS = 3_000;
/** The longest delay between two attempts of one call, in milliseconds. */
const LONGEST_DELAY_MS = 1_500;
/** The timeout of calls that tests wait for, in milliseconds. */
const SHORT_TIMEOUT = { timeoutMs: 10_000 };

const INFO = 30;
const WARN = 40;

describe('an append', () => {
  test.each([
    ['is busy', (server: FakeEventStoreDb) => server.busy(2)],
    ['is slow', (server: FakeEventStoreDb) => server.slow(20)],
    ['stores it and reports a timeout', (server: FakeEventStoreDb) => server.timeOut(2)],
  ])('to a server that %s succeeds, and the subscription continues', async (_, inject) => {
    slowClock();
    const server = await startFakeServer();
    const { store, streams, drops } = await subscribed(server.url);
    inject(server);
    for (const id of [1, 2]) await store.append(`plant-alice/${id}`, event('Fern'), NO_STREAM);
    expect(server.failuresLeft).toBe(0);
    await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
    for (const { reason } of drops()) expect(reason).toMatch(/silent|no response/); // on a very slow machine
  });

  test('fails after four fifths of the timeout if the server is unavailable, a read after one fifth', async () => {
    const timeoutMs = 60_000;
    const clock = slowClock();
    const server = await startFakeServer();
    const { store } = await open(server.url, { timeoutMs });
    await server.stop();
    const since = performance.now();
    const appending = store.append('plant-alice/1', event('Fern'), NO_STREAM).catch(failure);
    const reading = store.lastPosition().catch(failure);
    const passes = async (ms: number) => {
      clock.pass(ms / 2);
      await nextTurn();
      clock.pass(ms / 2);
    };
    await passes(timeoutMs / 5);
    const read = (await reading) as Failure;
    await passes((timeoutMs * 3) / 5);
    const append = (await appending) as Failure;
    for (const { error } of [read, append]) expect(error).toBeInstanceOf(StoreUnavailable);
    expect(read.at - since).toBeGreaterThanOrEqual(timeoutMs / 5 - LONGEST_DELAY_MS);
    expect(append.at - since).toBeGreaterThanOrEqual((timeoutMs * 4) / 5 - LONGEST_DELAY_MS);
  });

  test('to a cluster whose leader is isolated goes to the next leader', async () => {
    const clock = slowClock();
    const { first, second, elect, url } = await cluster({ shared: false });
    for (const node of [first, second]) node.write('plantstore', { id: randomUUID(), type: 'LogBegun' });
    const { store } = await open(url);
    await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    elect(second);
    first.busy(1_000);
    const appending = store.append('plant-alice/2', event('Ivy'), NO_STREAM);
    await expect.poll(() => first.failuresLeft).toBeLessThanOrEqual(998); // the first attempt has its response
    clock.pass(ATTEMPT_TIMEOUT_MS);
    await appending;
    expect(second.log.stream('plant-alice/2')).toHaveLength(1);
  });

  test('to a frozen server completes when it resumes, and is stored and received once', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const { store, streams, drops } = await subscribed(server.url);
    await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    await expect.poll(() => streams).toEqual(['plant-alice/1']);
    server.freeze();
    clock.pass(1);
    const ivy = event('Ivy');
    const appending = store.append('plant-alice/2', ivy, NO_STREAM);
    clock.pass(ATTEMPT_TIMEOUT_MS);
    const reason = expect.stringMatching(/^no response for \d+ ms$/);
    await expect.poll(drops).toEqual([{ level: WARN, reason }]);
    server.thaw();
    const { position } = await appending;
    expect(server.log.stream('plant-alice/2')).toMatchObject([{ id: ivy.id, position }]);
    await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
  });

  test('whose response is lost is retried, and stored once', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const { store } = await open(server.url);
    server.loseResponses(1);
    const fern = event('Fern');
    const appending = store.append('plant-alice/1', fern, NO_STREAM);
    await expect.poll(() => server.log.stream('plant-alice/1')).toHaveLength(1);
    clock.pass(ATTEMPT_TIMEOUT_MS);
    const { position } = await appending;
    expect(server.log.stream('plant-alice/1')).toMatchObject([{ id: fern.id, position }]);
  });
});

test('a slow subscriber applies backpressure to the server, and misses no event', async () => {
  const log = new FakeLog();
  for (let i = 0; i < 3_000; i++) log.append(`plant-alice/${i}`, { data: { text: 'x'.repeat(1_000) } });
  const expected = log.all.map(({ position }) => position);
  const server = await startFakeServer({ log });
  const { store } = await open(server.url);
  const leaving = new AbortController();
  const positions: Position[] = [];
  for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
    if (positions.length === 0) {
      // A time in which a server without backpressure sends more.
      for (let before = -1; before !== server.calls.sent; await pause(50)) before = server.calls.sent;
      expect(server.calls.sent).toBeLessThan(2_000);
    }
    positions.push(...events.map(({ position }) => position));
    if (caughtUp) leaving.abort();
  }
  expect(positions).toHaveLength(expected.length);
  expect(positions).toEqual(expected);
});

test('a refused append waits, with back-off and not for ever, for the first event of its stream', async () => {
  const server = await startFakeServer();
  const { store } = await open(server.url, SHORT_TIMEOUT);
  await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  server.lagIndex(Number.POSITIVE_INFINITY);
  const { read } = server.calls;
  const append = store.append('plant-alice/1', event('Elm'), NO_STREAM);
  await expect(append).rejects.toThrow(StoreUnavailable);
  expect(server.calls.read - read).toBeLessThan(40); // each attempt also reads the metadata of the stream
});

test('a dropped subscription is resubscribed, with the reason in one log line', async () => {
  const ways: [Drop, number, RegExp][] = [
    ['end', INFO, /^the server ended the subscription$/],
    ['slow', INFO, /Consumer too slow/],
    ['notLeader', INFO, /leader/i],
    ['reset', WARN, /ECONNRESET|Connection dropped/],
  ];
  const server = await startFakeServer();
  const { streams, drops } = await subscribed(server.url);
  const written: string[] = [];
  for (const [how, level, reason] of ways) {
    const isLogged = () => drops().some((drop) => drop.level === level && reason.test(drop.reason ?? ''));
    // Retry, if on a slow machine the subscription was dropped at the same time for another reason.
    for (let attempt = 1; !isLogged(); attempt++) {
      await expect.poll(() => server.openSubscriptions).toBe(1);
      server.dropSubscriptions(how);
      written.push(`plant-alice/${how}-${attempt}`);
      server.write(written.at(-1) ?? '');
      await expect.poll(() => streams).toEqual(written);
    }
  }
  expect(drops().length).toBeLessThanOrEqual(server.calls.subscribe - 1);
});

describe('a former leader that does not know yet that it has lost its role,', () => {
  async function overPausedLeader() {
    const clock = slowClock();
    const { first, second, elect, url } = await cluster({ shared: false });
    const ids = [randomUUID(), randomUUID()];
    for (const node of [first, second]) {
      node.write('plantstore', { id: ids[0] as string, type: 'LogBegun' });
      node.write('plant-alice/1', { id: ids[1] as string });
    }
    elect(second);
    const { store } = await open(url, SHORT_TIMEOUT);
    const { position } = await store.append('plant-alice/2', event('Ivy'), NO_STREAM);
    elect(first);
    second.notLeader(1, { address: '127.0.0.1', port: first.port });
    return { clock, first, second, elect, store, position };
  }

  type Paused = Awaited<ReturnType<typeof overPausedLeader>>;

  /** The outcome of a read whose timeout passes after the node has responded. */
  async function timedOut({ clock, first }: Paused, reading: Promise<unknown>): Promise<unknown> {
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    reading.then(over, over);
    await expect.poll(() => first.calls.read).toBeGreaterThan(0);
    for (; !isOver; clock.pass(100)) await pause(20);
    return reading;
  }

  test.each([
    ['the last position', (store: EventStore) => store.lastPosition()],
    ['an event', (store: EventStore, position: Position) => store.readEvent(position)],
    ['a stream', (store: EventStore) => store.readStream('plant-alice/2', 1)],
    ['the page after an event', (store: EventStore, after: Position) => store.readAll({ after, limit: 5 })],
    [
      'the page before one',
      (store: EventStore, before: Position) => store.readBackwards({ before, limit: 5 }),
    ],
    ['the end of a page', (store: EventStore) => store.readAll({ after: START, limit: 5 })],
  ])('is not believed when it does not have %s', async (_, read) => {
    const paused = await overPausedLeader();
    const { store, position } = paused;
    await expect(timedOut(paused, read(store, position))).rejects.toThrow(StoreUnavailable);
    expect(await store.readStream('plant-alice/1', 1)).toHaveLength(1);
  });

  test('is left as soon as it knows better', async () => {
    const { first, second, elect, store, position } = await overPausedLeader();
    const reading = store.lastPosition();
    await expect.poll(() => first.calls.read).toBeGreaterThan(0);
    elect(second);
    expect(await reading).toBe(position);
  });

  test('is believed once it has lasted, since the log may have been restored', async () => {
    const paused = await overPausedLeader();
    const { clock, store, position } = paused;
    await expect(timedOut(paused, store.lastPosition())).rejects.toThrow(StoreUnavailable);
    clock.pass(5_000);
    expect(await store.lastPosition()).toBeLessThan(position);
    expect(await store.readEvent(position)).toBeUndefined();
    expect(await store.readStream('plant-alice/2', 1)).toEqual([]);
  });
});

test('a dropped subscription continues at the end of the log, and misses no event', async () => {
  const server = await startFakeServer();
  server.write('plant-alice/1');
  const { streams } = await subscribed(server.url);
  for (let i = 0; i < 3_000; i++) server.write('other');
  server.dropSubscriptions('end');
  server.write('plant-alice/2');
  await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
  expect(server.subscribedAfter).not.toContain(START);
});

describe('the last position', () => {
  test('is that of an event of its own streams, and others after it are searched once', async () => {
    const server = await startFakeServer();
    const { store } = await open(server.url);
    expect(await store.lastPosition()).toBe(START);
    const own = server.write('plant-alice/1');
    for (let i = 0; i < 100; i++) server.write('other');
    expect(await store.lastPosition()).toBe(own.position);
    const prepareReads = async (position: Position) => {
      const { read, sent } = { ...server.calls };
      expect(await store.lastPosition()).toBe(position);
      return [server.calls.read - read, server.calls.sent - sent];
    };
    expect(await prepareReads(own.position)).toEqual([1, 1]);
    for (let i = 0; i < 100; i++) server.write('other');
    const [reads = 0, sent] = await prepareReads(own.position);
    expect(reads).toBeGreaterThan(1);
    expect(sent).toBeLessThanOrEqual(3);
    const next = server.write('plant-bob/1');
    expect(await prepareReads(next.position)).toEqual([1, 1]);
  });

  test('is known after an append without a search, also among events of others', async () => {
    const server = await startFakeServer();
    const { store } = await open(server.url);
    for (let i = 0; i < 100; i++) server.write('other');
    const { position } = await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    const { read } = server.calls;
    expect(await store.lastPosition()).toBe(position);
    expect(server.calls.read - read).toBe(1);
  });

  test('is found by a search that takes longer than its first caller waits', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    server.write('plantstore', { type: 'LogBegun' });
    const own = server.write('plant-alice/1');
    server.write('other');
    const { store } = await open(server.url);
    await store.logId();
    server.pauseReadsAfter(0);
    const first = store.lastPosition().catch((error) => error);
    await expect.poll(() => server.pausedReads).toBe(1);
    server.resumeReads(); // the last event is read, and the search pauses
    server.pauseReadsAfter(0);
    await expect.poll(() => server.pausedReads).toBe(1);
    clock.pass(60_000);
    expect(await first).toBeInstanceOf(StoreUnavailable);
    server.resumeReads();
    await expect.poll(() => store.lastPosition()).toBe(own.position);
  });
});

test('a cluster that loses its leader continues appends and subscriptions on the next leader, and logs it', async () => {
  const { first, second, elect, url } = await cluster({ shared: true });
  const onLeaderChange = vi.fn();
  const observer: StoreObserver = {
    onAppends() {},
    onCommit() {},
    onUncleanStop() {},
    onReconnect() {},
    onLeaderChange,
    onSubscriptionDropped() {},
  };
  const { store, streams, drops, lines } = await subscribed(url, { appends: true, observer });
  await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  await first.stop();
  elect(second);
  const ivy = event('Ivy');
  const appended = () => store.append('plant-alice/2', ivy, NO_STREAM).catch((error) => error);
  for (let result = await appended(); result instanceof Error; result = await appended())
    expect(result).toBeInstanceOf(StoreUnavailable);
  await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
  expect(second.calls.appended).toBe(1);
  expect(drops().length).toBeGreaterThan(0);
  const [from, to] = [first, second].map(({ port }) => `127.0.0.1:${port}`);
  await store.lastPosition();
  await expect
    .poll(() => lines.filter(({ msg }) => msg === 'the leader of the cluster changed'))
    .toMatchObject([{ level: INFO, from, to }]);
  expect(onLeaderChange).toHaveBeenCalledOnce();
});

type Failure = { error: Error; at: number };

const failure = (error: Error): Failure => ({ error, at: performance.now() });

test('an append that is acknowledged while the end is read does not make its node look left behind', async () => {
  const server = await startFakeServer();
  const { store } = await open(server.url);
  let id = 0;
  const writing = async () => {
    for (let i = 0; i < 50; i++) await store.append(`plant-alice/${id++}`, event('Fern'), NO_STREAM);
  };
  const reading = async () => {
    for (let i = 0; i < 50; i++) await store.lastPosition();
  };
  await Promise.all([writing(), writing(), writing(), reading(), reading()]);
  expect(await store.lastPosition()).toBe(server.log.all.at(-1)?.position);
});

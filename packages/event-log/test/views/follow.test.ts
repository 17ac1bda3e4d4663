import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { stopClock } from '@event-sourced/testing/clock';
import { openIn, overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import pino from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Batch,
  type EventStore,
  EventUnreadable,
  LogDamaged,
  NO_STREAM,
  START,
  StoreUnavailable,
} from '../../src/eventStore.ts';
import { Follower, type Progress } from '../../src/views/follow.ts';
import { ReadYourWrites } from '../../src/views/readYourWrites.ts';
import { SAVE_BATCH, SAVE_INTERVAL_MS } from '../../src/views/saver.ts';
import { REACHED_TIMEOUT_MS, ViewBehind } from '../../src/views/waiting.ts';
import { failNextCommit, item, ToDoLists } from './toDoLists.ts';

const NONE = new Set<string>();
const RETRY_TIMEOUT_MS = 60_000;

type Options = Partial<ConstructorParameters<typeof Follower>[0]>;

async function followIn(dir: string, store: EventStore, options: Options = {}) {
  const view = new ToDoLists(join(dir, 'view.db'));
  const logged: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void logged.push(line) });
  const follower = new Follower({ store, view, skip: NONE, logger, ...options });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= follower.stop().then(() => view.close());
    return closed;
  };
  onTestFinished(close);
  return { follower, view, logged, close };
}

/** Follows the log up to a position, and closes the view. */
async function followUpTo(dir: string, store: EventStore, position: bigint): Promise<void> {
  const { follower, close } = await followIn(dir, store);
  await follower.reached(position);
  await close();
}

/** A log with the Fern of alice, and its directory with a closed view that has it. */
async function followedLog(): Promise<{ dir: string; store: EventStore }> {
  const dir = tempDir();
  const store = await openIn(dir);
  await add(store, 'alice', 1, 'Fern');
  await followUpTo(dir, store, 1n);
  return { dir, store };
}

/** Appends the item to the list; returns its position. */
async function add(store: EventStore, list: string, id: number, title: string): Promise<bigint> {
  const data = { list, id: `${id}`, title };
  const event = { id: crypto.randomUUID(), type: 'ItemAdded', data, metadata: {} };
  return (await store.append(`plant-${list}/${id}`, event, NO_STREAM)).position;
}

/** The position of the bookmark that the view in a directory has committed. */
function savedIn(dir: string): unknown {
  using db = new DatabaseSync(join(dir, 'view.db'), { readOnly: true });
  return db.prepare('SELECT position FROM bookmark').get()?.position;
}

test('waiting for a position that is not reached times out', async () => {
  const { follower } = await followIn(tempDir(), await openIn(tempDir()));
  await follower.reached(START);
  stopClock();
  const late = expect(follower.reached(1n, undefined, REACHED_TIMEOUT_MS)).rejects.toThrow(ViewBehind);
  vi.advanceTimersByTime(REACHED_TIMEOUT_MS);
  await late;
});

test('waiting for the start waits until the view has caught up', async () => {
  const dir = tempDir();
  const filled = await openIn(dir);
  for (let i = 0; i < 1_200; i++) void add(filled, 'alice', i, `${i}`);
  await add(filled, 'bob', 1, 'Oak');
  await filled.close();
  const store = await openIn(dir);
  const progress: Progress[] = [];
  const { follower, view } = await followIn(dir, store, { onProgress: (one) => void progress.push(one) });
  expect(follower.notReady).toContain('catching up');
  await follower.reached(START);
  expect(follower.notReady).toBeUndefined();
  expect(view.titlesOf('bob')).toEqual(['Oak']);
  expect(progress.map(({ position }) => position)).toEqual([500n, 1_000n, 1_201n]);
});

test('a view is read although the last events of its log are of other programs', async () => {
  const server = await startFakeServer();
  for (const stream of ['invoice-1', 'plant-alice/1', 'invoice-1']) server.write(stream);
  const { follower, view } = await followIn(tempDir(), await overFakeServer(server.url));
  await follower.reached(START);
  expect(view.progress.eventId).not.toBe('');
});

test('a view resumes from its bookmark', async () => {
  const { dir, store } = await followedLog();
  await add(store, 'alice', 2, 'Moss');
  const subscribe = vi.spyOn(store, 'subscribe');
  const { follower, view } = await followIn(dir, store);
  await follower.reached(2n);
  expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss']);
  expect(subscribe.mock.calls).toMatchObject([[{ after: 1n }]]);
});

test('a view of another log is rebuilt', async () => {
  const { dir } = await followedLog();
  const replaced = await openIn(tempDir());
  await add(replaced, 'alice', 1, 'Palm');
  const { follower, view, logged } = await followIn(dir, replaced);
  await follower.reached(1n);
  expect(view.titlesOf('alice')).toEqual(['Palm']);
  expect(logged.join()).toContain('it belongs to another log');
});

test('a view of a log is kept, and not read, while its log has no events and no ID', async () => {
  const { dir, store } = await followedLog();
  const logId = vi.spyOn(store, 'logId').mockResolvedValue('');
  const { follower, view } = await followIn(dir, store);
  await expect.poll(() => follower.notReady).toContain('it has no events, but the view toDoLists is of log');
  expect(view.titlesOf('alice')).toEqual(['Fern']);
  logId.mockRestore();
  await follower.reached(1n, undefined, RETRY_TIMEOUT_MS);
});

test('a view is rebuilt if its log is replaced by an older backup', async () => {
  const { dir, store } = await followedLog();
  await store.close();
  const backup = tempDir();
  copyFileSync(join(dir, 'log.db'), join(backup, 'log.db'));
  const lost = await openIn(dir);
  await add(lost, 'alice', 2, 'Lost');
  await followUpTo(dir, lost, await add(lost, 'bob', 1, 'Lost too'));

  const restored = await openIn(backup);
  await add(restored, 'alice', 3, 'Moss');
  const { follower, view, logged } = await followIn(dir, restored);
  await follower.reached(2n);
  expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss']);
  expect(view.titlesOf('bob')).toEqual([]);
  expect(logged.join()).toContain('the log has lost events, as after a restore');
});

describe('a view whose commit fails', () => {
  /** A readable view of two plants on a stopped clock; the next commit, for the second plant, fails. */
  async function failing() {
    stopClock();
    const dir = tempDir();
    const store = await openIn(dir);
    const opened = await followIn(dir, store);
    const { follower, view } = opened;
    await follower.reached(await add(store, 'alice', 1, 'Fern'));
    view.save();
    await follower.reached(await add(store, 'alice', 2, 'Moss'));
    expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss']);
    failNextCommit(view.db);
    return { ...opened, store, dir };
  }

  test('is not read before it has applied again what was read before', async () => {
    const { follower, view, store } = await failing();
    const reads = new ReadYourWrites([follower]);
    expect(() => view.save()).toThrow('full');
    expect(view.progress.position).toBe(1n);
    expect(() => follower.readable).toThrow(ViewBehind);
    expect(await reads.upTo(view, 'bob', await store.logId(), START)).toBe(2n);
    expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss']);
  });

  test('is not read older by a reader that has just reached it', async () => {
    const { follower, view, store } = await failing();
    const read = new ReadYourWrites([follower]).upTo(view, 'bob', await store.logId(), 2n);
    expect(() => view.save()).toThrow('full');
    expect([2n, expect.any(ViewBehind)]).toContainEqual(await read.catch((error: unknown) => error));
  });

  test('is saved later, and has all events', async () => {
    const { follower, view, store, logged, dir } = await failing();
    vi.advanceTimersByTime(SAVE_INTERVAL_MS);
    expect([follower.saveFailures, view.progress.position]).toEqual([1, 1n]);
    await follower.reached(await add(store, 'alice', 3, 'Ivy'));
    expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss', 'Ivy']);
    vi.advanceTimersByTime(SAVE_INTERVAL_MS);
    expect(savedIn(dir)).toBe(3);
    expect(logged.filter((line) => line.includes('saving the view failed; retrying'))).toHaveLength(1);
    expect([follower.failures, follower.resets, follower.rebuilds]).toEqual([0, 0, 0]);
  });
});

test('a view whose file is locked by another process catches up once the file can be written', async () => {
  const dir = tempDir();
  const store = await openIn(dir);
  const { follower, view } = await followIn(dir, store);
  await follower.reached(await add(store, 'alice', 1, 'Fern'));
  view.save();
  using other = new DatabaseSync(join(dir, 'view.db'));
  other.exec('BEGIN IMMEDIATE');
  const position = await add(store, 'alice', 2, 'Moss');
  await expect.poll(() => follower.failures).toBeGreaterThan(0);
  expect(() => follower.readable).toThrow(ViewBehind);
  other.exec('ROLLBACK');
  await follower.reached(position, undefined, RETRY_TIMEOUT_MS);
  expect(view.titlesOf('alice')).toEqual(['Fern', 'Moss']);
});

test('a failed subscription is retried', async () => {
  const dir = tempDir();
  const store = await openIn(dir);
  const unavailable = () => {
    throw new Error('unavailable');
  };
  const subscribe = vi.spyOn(store, 'subscribe');
  subscribe.mockImplementationOnce(unavailable).mockImplementationOnce(unavailable);
  const { follower, view } = await followIn(dir, store);
  const position = await add(store, 'alice', 1, 'Fern');
  await follower.reached(position, undefined, RETRY_TIMEOUT_MS);
  expect(view.titlesOf('alice')).toEqual(['Fern']);
  expect(subscribe).toHaveBeenCalledTimes(3);
});

test('a view that has halted on an event that cannot be read stays halted in an outage, until it is read', async () => {
  const store = await openIn(tempDir());
  const position = await add(store, 'alice', 1, 'Fern');
  const { subscribe } = store;
  const outage = Promise.withResolvers<void>();
  const failures = [new EventUnreadable('x'), new EventUnreadable('x'), new StoreUnavailable('no response')];
  const spy = vi.spyOn(store, 'subscribe').mockImplementation(async function* (options) {
    const failure = failures.shift();
    if (failure) throw failure;
    await outage.promise;
    yield* subscribe.call(store, options);
  });
  const { follower, logged } = await followIn(tempDir(), store);
  await expect.poll(() => spy.mock.calls.length).toBe(4);
  expect(follower.isHalted).toBe(true);
  expect(logged.filter((line) => line.includes('projection halted'))).toHaveLength(1);
  outage.resolve();
  await expect.poll(() => follower.isHalted).toBe(false);
  await follower.reached(position);
});

test('waiting without a timeout fails if the log is damaged', async () => {
  const store = await openIn(tempDir());
  vi.spyOn(store, 'subscribe').mockImplementation(() => {
    throw new LogDamaged('database disk image is malformed');
  });
  const { follower } = await followIn(tempDir(), store);
  for (const position of [START, START]) // before the failure, and after it
    await expect(follower.reached(position)).rejects.toThrow(LogDamaged);
});

/** A store whose log has no identity and no events until the test sets them. */
function givenStore() {
  const log = { id: '', batches: [] as Batch[] };
  let given = Promise.withResolvers<void>();
  const store = {
    logId: async () => log.id,
    lastPosition: async () => START,
    readEvent: async (at: bigint) =>
      log.batches.flatMap(({ events }) => events).find(({ position }) => position === at),
    async *subscribe({ after, signal }: { after: bigint; signal: AbortSignal }) {
      signal.addEventListener('abort', () => given.resolve());
      yield { events: [], caughtUp: log.batches.length === 0 };
      for (let next = 0; !signal.aborted; ) {
        for (; next < log.batches.length; next++) {
          const { events, caughtUp } = log.batches[next] as Batch;
          yield { events: events.filter(({ position }) => position > after), caughtUp };
        }
        await given.promise;
      }
    },
  } as Partial<EventStore> as EventStore;
  const give = (batch: Batch): void => {
    log.id = 'log';
    log.batches.push(batch);
    given.resolve();
    given = Promise.withResolvers();
  };
  return { store, give };
}

test('a view of a log without events that gets many is not read before it has caught up', async () => {
  const { store, give } = givenStore();
  const { follower, view } = await followIn(tempDir(), store);
  await follower.reached(START);
  give({ events: [item(1, 'alice', 'Fern')], caughtUp: false });
  await expect.poll(() => view.progress.position).toBe(1n);
  expect(follower.notReady).toMatch(/catching up/);
  give({ events: [item(2, 'alice', 'Fern')], caughtUp: true });
  await follower.reached(2n, 'log');
  expect(view.titlesOf('alice')).toEqual(['Fern', 'Fern']);
});

test('a follower that is stopped while it learns the ID of its log applies no event', async () => {
  const { store, give } = givenStore();
  const identified = Promise.withResolvers<string>();
  const { follower, view } = await followIn(tempDir(), store);
  await follower.reached(START);
  const asked = vi.spyOn(store, 'logId').mockReturnValue(identified.promise);
  give({ events: [item(1, 'alice', 'Fern')], caughtUp: true });
  await expect.poll(() => asked.mock.calls.length).toBe(1);
  const stopped = follower.stop();
  identified.resolve('log');
  await stopped;
  expect(view.progress).toEqual({ logId: '', position: START, eventId: '' });
});

test('the first events of a log do not count as a reset: acknowledged writes are waited for', async () => {
  const { store, give } = givenStore();
  const { follower } = await followIn(tempDir(), store);
  await follower.reached(START);
  const reads = new ReadYourWrites([follower]);
  reads.acknowledge('alice', 'log', 2n);
  give({ events: [item(1, 'alice', 'Fern')], caughtUp: true });
  await follower.reached(1n, 'log');
  const read = reads.upTo(follower.view, 'alice', 'log', START);
  give({ events: [item(2, 'alice', 'Fern')], caughtUp: true });
  expect(await read).toBe(2n);
});

test('readers that wait when the projection halts are refused at once', async () => {
  stopClock();
  const { store, give } = givenStore();
  const { follower } = await followIn(tempDir(), store);
  await follower.reached(START);
  const readers = [1n, 2n].map((position) =>
    expect(follower.reached(position, undefined, REACHED_TIMEOUT_MS)).rejects.toThrow(
      'The to-do list is unavailable.',
    ),
  );
  give({ events: [{ ...item(1, 'alice', 'Fern'), data: { list: 'alice' } }], caughtUp: true });
  while (!follower.notReady?.includes('halted')) await nextTurn();
  vi.advanceTimersByTime(REACHED_TIMEOUT_MS); // their time-out has another message
  await Promise.all(readers);
});

test('an invalid event leaves what came before it applied and saved', async () => {
  const dir = tempDir();
  const { store, give } = givenStore();
  const { follower, view, close } = await followIn(dir, store);
  give({
    events: [item(1, 'alice', 'Fern'), { ...item(2, 'alice', 'Moss'), data: { list: 'alice' } }],
    caughtUp: true,
  });
  await expect.poll(() => follower.notReady).toMatch(/halted/);
  expect([view.progress.position, view.titlesOf('alice')]).toEqual([1n, ['Fern']]);
  await close();
  const again = await followIn(dir, store);
  expect([again.view.progress.position, again.view.titlesOf('alice')]).toEqual([1n, ['Fern']]);
});

describe('applied events are committed', () => {
  /** A view with one event, on a clock that only the test advances. */
  async function followed() {
    const { store, give } = givenStore();
    const dir = tempDir();
    const { follower, view } = await followIn(dir, store);
    await follower.reached(START);
    stopClock();
    let next = 1;
    const giveEvents = async (count: number): Promise<void> => {
      give({ events: Array.from({ length: count }, () => item(next++, 'alice', 'Fern')), caughtUp: true });
      while (view.progress.position < next - 1) await nextTurn();
    };
    await giveEvents(1);
    return { view, follower, giveEvents, saved: () => savedIn(dir) };
  }

  test('after a second', async () => {
    const { saved } = await followed();
    vi.advanceTimersByTime(SAVE_INTERVAL_MS - 1);
    expect(saved()).toBe(0);
    vi.advanceTimersByTime(1);
    expect(saved()).toBe(1);
  });

  test('at once if there are many, and after a failed commit later, all together', async () => {
    const { view, follower, giveEvents, saved } = await followed();
    await giveEvents(SAVE_BATCH - 1);
    expect(saved()).toBe(SAVE_BATCH);
    await giveEvents(1);
    failNextCommit(view.db);
    vi.advanceTimersByTime(SAVE_INTERVAL_MS);
    const [at, savedAt] = [BigInt(SAVE_BATCH), SAVE_BATCH];
    expect([follower.saveFailures, view.progress.position, saved()]).toEqual([1, at, savedAt]);
    expect(() => follower.save()).toThrow(ViewBehind); // the retry waits
    await giveEvents(20_000);
    expect(saved()).toBe(SAVE_BATCH);
    vi.advanceTimersByTime(SAVE_INTERVAL_MS);
    expect(saved()).toBe(SAVE_BATCH + 20_001);
    await giveEvents(1);
    follower.save();
    expect(saved()).toBe(SAVE_BATCH + 20_002);
  });
});

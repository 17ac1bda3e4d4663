import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PlantsByUser } from '../../../../projections/plantsByUser.ts';
import { createPlant } from '../../../../src/plants/createPlant.ts';
import { stopClock } from '../../../../test/support/clock.ts';
import { openIn } from '../../../../test/support/stores.ts';
import { tempDir } from '../../../../test/support/tempDir.ts';
import {
  type Batch,
  type EventStore,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../../src/eventStore.ts';
import { Follower, type Progress, SAVE_INTERVAL_MS } from '../../src/views/follow.ts';
import { ReadYourWrites } from '../../src/views/readYourWrites.ts';
import { REACHED_TIMEOUT_MS, ViewBehind } from '../../src/views/waiting.ts';
import { created } from './created.ts';

const NONE = new Set<string>();

type Options = Partial<ConstructorParameters<typeof Follower>[0]>;

async function followIn(dir: string, store: EventStore, options: Options = {}) {
  const view = await PlantsByUser.open(join(dir, 'view.db'));
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
  await createNamed(store, 'alice', 1, 'Fern');
  await followUpTo(dir, store, 1n);
  return { dir, store };
}

function createNamed(store: EventStore, user: string, id: number, name: string): Promise<bigint> {
  const context = { now: () => new Date(0), newEventId: () => crypto.randomUUID(), correlationId: 'c' };
  return createPlant(store, { user, id: BigInt(id), name }, context);
}

function namesOf(view: PlantsByUser, user: string): string[] {
  const { plants } = view.plantsOf(user, { after: START, upTo: view.applied.position, limit: 500 });
  return (JSON.parse(`[${plants}]`) as { name: string }[]).map(({ name }) => name);
}

test('waiting for a position that is not reached times out', async () => {
  const { follower } = await followIn(tempDir(), await openIn(tempDir()));
  await follower.reached(START);
  stopClock();
  const late = expect(follower.reached(1n)).rejects.toThrow(ViewBehind);
  vi.advanceTimersByTime(REACHED_TIMEOUT_MS);
  await late;
});

test('waiting for the start waits until the view has caught up', async () => {
  const dir = tempDir();
  const filled = await openIn(dir);
  for (let i = 0; i < 1_200; i++) void createNamed(filled, 'alice', i, `${i}`);
  await createNamed(filled, 'bob', 1, 'Oak');
  await filled.close();
  const store = await openIn(dir);
  const progress: Progress[] = [];
  const { follower, view } = await followIn(dir, store, { onProgress: (one) => void progress.push(one) });
  expect(follower.notReady).toContain('catching up');
  await follower.reached(START);
  expect(follower.notReady).toBeUndefined();
  expect(namesOf(view, 'bob')).toEqual(['Oak']);
  expect(progress.map(({ position }) => position)).toEqual([500n, 1_000n, 1_201n]);
});

test('a view resumes from its checkpoint', async () => {
  const { dir, store } = await followedLog();
  await createNamed(store, 'alice', 2, 'Moss');
  const subscribe = vi.spyOn(store, 'subscribe');
  const { follower, view } = await followIn(dir, store);
  await follower.reached(2n);
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(subscribe.mock.calls).toMatchObject([[{ after: 1n }]]);
});

test('a view of another log is rebuilt', async () => {
  const { dir } = await followedLog();
  const replaced = await openIn(tempDir());
  await createNamed(replaced, 'alice', 1, 'Palm');
  const { follower, view, logged } = await followIn(dir, replaced);
  await follower.reached(1n);
  expect(namesOf(view, 'alice')).toEqual(['Palm']);
  expect(logged.join()).toContain('it belongs to another log');
});

test('a view is rebuilt if its log is replaced by an older backup', async () => {
  const { dir, store } = await followedLog();
  await store.close();
  const backup = tempDir();
  copyFileSync(join(dir, 'log.db'), join(backup, 'log.db'));
  const lost = await openIn(dir);
  await createNamed(lost, 'alice', 2, 'Lost');
  await followUpTo(dir, lost, await createNamed(lost, 'bob', 1, 'Lost too'));

  const restored = await openIn(backup);
  await createNamed(restored, 'alice', 3, 'Moss');
  const { follower, view, logged } = await followIn(dir, restored);
  await follower.reached(2n);
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(namesOf(view, 'bob')).toEqual([]);
  expect(logged.join()).toContain('the log has lost events, as after a restore');
});

test('a view that cannot be saved continues in memory, and is saved later', async () => {
  const dir = tempDir();
  const store = await openIn(dir);
  const { follower, view, logged } = await followIn(dir, store);
  await follower.reached(START);
  const other = new DatabaseSync(join(dir, 'view.db'));
  other.exec('BEGIN IMMEDIATE'); // simulates a full or failing disk
  await follower.reached(await createNamed(store, 'alice', 1, 'Fern'));
  await expect.poll(() => logged.join()).toContain('retrying');
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
  await follower.reached(await createNamed(store, 'alice', 2, 'Moss'));
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  const saved = () => other.prepare('SELECT position FROM checkpoint').get()?.position;
  expect(saved()).toBe(0);
  other.exec('COMMIT');
  await expect.poll(saved).toBe(2);
  other.close();
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
  await follower.reached(await createNamed(store, 'alice', 1, 'Fern'));
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
  expect(subscribe).toHaveBeenCalledTimes(3);
});

test('a follower that waits for the event store retries as soon as a write is acknowledged', async () => {
  stopClock(); // no wait ends by itself; expect.poll would advance the clock
  const store = await openIn(tempDir());
  vi.spyOn(store, 'logId').mockRejectedValueOnce(new StoreUnavailable('unavailable'));
  const { follower, view } = await followIn(tempDir(), store);
  while (!follower.notReady?.includes('unavailable')) await nextTurn();
  const position = await createNamed(store, 'alice', 1, 'Fern');
  new ReadYourWrites([follower]).acknowledge('alice', await store.logId(), position);
  await follower.reached(position);
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
});

test('a follower that a write has woken in vain retries with back-off', async () => {
  stopClock(); // no wait ends by itself
  const store = await openIn(tempDir());
  const logId = vi.spyOn(store, 'logId').mockRejectedValue(new StoreUnavailable('unavailable'));
  const { follower } = await followIn(tempDir(), store);
  for (let write = 0; write < 100; write++) {
    await nextTurn();
    follower.wake();
  }
  expect(logId).toHaveBeenCalledTimes(2);
});

/** A store whose log has an identity and pages only once the test gives them. */
function givenStore() {
  const log = { id: '', pages: [] as Batch[] };
  let wake = Promise.withResolvers<void>();
  const store = {
    logId: async () => log.id,
    lastPosition: async () => START,
    readEvent: async () => undefined,
    async *subscribe() {
      yield { events: [], caughtUp: true };
      for (;;) {
        while (log.pages.length > 0) yield log.pages.shift() as Batch;
        await wake.promise;
      }
    },
  } as unknown as EventStore;
  const give = (...pages: Batch[]): void => {
    log.id = 'log';
    log.pages.push(...pages);
    wake.resolve();
    wake = Promise.withResolvers();
  };
  return { store, give };
}

test('a view of a log without events that gets many is not read before it has caught up', async () => {
  const { store, give } = givenStore();
  const { follower, view } = await followIn(tempDir(), store);
  await follower.reached(START);
  give({ events: [created(1, 'alice', 'Fern')], caughtUp: false });
  await expect.poll(() => view.applied.position).toBe(1n);
  expect(follower.notReady).toMatch(/catching up/);
  give({ events: [created(2, 'alice', 'Fern')], caughtUp: true });
  await follower.reached(2n, 'log');
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Fern']);
});

test('a follower that is stopped while it learns the ID of its log applies no event', async () => {
  const { store, give } = givenStore();
  const identified = Promise.withResolvers<string>();
  const { follower, view } = await followIn(tempDir(), store);
  await follower.reached(START);
  const asked = vi.spyOn(store, 'logId').mockReturnValue(identified.promise);
  give({ events: [created(1, 'alice', 'Fern')], caughtUp: true });
  await expect.poll(() => asked.mock.calls.length).toBe(1);
  const stopped = follower.stop();
  identified.resolve('log');
  await stopped;
  expect(view.applied).toEqual({ logId: '', position: START, eventId: '' });
});

test('the first events of a log do not count as a reset: acknowledged writes are waited for', async () => {
  const { store, give } = givenStore();
  const { follower } = await followIn(tempDir(), store);
  await follower.reached(START);
  const reads = new ReadYourWrites([follower]);
  reads.acknowledge('alice', 'log', 2n);
  give({ events: [created(1, 'alice', 'Fern')], caughtUp: true });
  await follower.reached(1n, 'log');
  const read = reads.upTo(follower.view, 'alice', 'log', START);
  give({ events: [created(2, 'alice', 'Fern')], caughtUp: true });
  expect(await read).toBe(2n);
});

test('readers that wait when the projection halts are refused at once', async () => {
  stopClock();
  const { store, give } = givenStore();
  const { follower } = await followIn(tempDir(), store);
  await follower.reached(START);
  const readers = [1n, 2n].map((position) =>
    expect(follower.reached(position)).rejects.toThrow('The plant list is unavailable.'),
  );
  give({ events: [{ ...created(1, 'alice', 'Fern'), data: {} }], caughtUp: true });
  while (!follower.notReady?.includes('halted')) await nextTurn();
  vi.advanceTimersByTime(REACHED_TIMEOUT_MS); // their time-out has another message
  await Promise.all(readers);
});

describe('a save that is slow', () => {
  const BATCH = 10_000;

  /** A follower of a view whose saves end when the test says so, on a clock that only the test advances. */
  async function slowSaves() {
    const { store, give } = givenStore();
    const saves: PromiseWithResolvers<void>[] = [];
    const view = {
      name: 'slow',
      title: 'slow view',
      applied: { logId: '', position: START, eventId: '' },
      unsaved: 0,
      unsavedCharacters: 0,
      readTo: undefined,
      replaced: undefined,
      onDamage: () => {},
      apply(events: readonly RecordedEvent[]) {
        const { position, id } = events.at(-1) ?? { position: START, id: '' };
        if (events.length > 0) view.applied = { logId: 'log', position, eventId: id };
        view.unsaved += events.length;
      },
      save() {
        const events = view.unsaved;
        const save = Promise.withResolvers<void>();
        saves.push(save);
        return save.promise.then(() => {
          view.unsaved -= events;
        });
      },
      async reset(logId: string) {
        view.applied = { logId, position: START, eventId: '' };
      },
      close: async () => {},
    };
    const follower = new Follower({ store, view, skip: NONE, logger: pino({ level: 'silent' }) });
    onTestFinished(() => follower.stop()); // when the clock runs again
    stopClock();
    const passed = async (ms = 0): Promise<void> => {
      vi.advanceTimersByTime(ms);
      for (let i = 0; i < 20; i++) await nextTurn();
    };
    let next = 1;
    const giveEvents = async (count: number): Promise<void> => {
      const events = Array.from({ length: count }, () => created(next++, 'alice', 'Fern'));
      give({ events, caughtUp: true });
      await passed();
    };
    await passed();
    return { view, saves, passed, giveEvents };
  }

  test('is not joined by another one, and what is applied meanwhile is saved after it', async () => {
    const { view, saves, passed, giveEvents } = await slowSaves();
    await giveEvents(1);
    await passed(SAVE_INTERVAL_MS);
    await giveEvents(1);
    await passed(5 * SAVE_INTERVAL_MS);
    expect(saves).toHaveLength(1);
    saves[0]?.resolve();
    await passed();
    await passed(SAVE_INTERVAL_MS);
    expect(saves).toHaveLength(2);
    saves[1]?.resolve();
    await passed();
    expect(view).toMatchObject({ unsaved: 0, applied: { position: 2n } });
  });

  test('is followed at once by that of a full batch', async () => {
    const { saves, passed, giveEvents } = await slowSaves();
    await giveEvents(1);
    await passed(SAVE_INTERVAL_MS);
    await giveEvents(BATCH);
    expect(saves).toHaveLength(1);
    saves[0]?.resolve();
    await passed();
    expect(saves).toHaveLength(2);
  });

  test('makes the follower wait when two batches are unsaved, of events or of bytes', async () => {
    const { view, saves, passed, giveEvents } = await slowSaves();
    for (let i = 0; i < 4; i++) await giveEvents(BATCH);
    expect(view.applied.position).toBe(20_000n);
    saves[0]?.resolve();
    await passed();
    saves[1]?.resolve();
    await passed();
    expect(view.applied.position).toBe(40_000n);
    for (const { resolve } of saves) resolve();
    await passed();
    view.unsavedCharacters = 2 ** 30;
    await giveEvents(1);
    await giveEvents(1);
    expect(view.applied.position).toBe(40_001n);
  });
});

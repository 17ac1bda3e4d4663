import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  type Follower,
  follow,
  type Progress,
  REACHED_TIMEOUT_MS,
  ViewBehind,
} from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { type EventStore, NO_STREAM, START } from '../../src/eventStore/eventStore.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { createPlant } from '../../src/plants/plant.ts';
import { stopClock } from '../support/clock.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE = new Set<string>();

async function openStore(dir: string): Promise<EventStore> {
  const onFatal = (error: Error): never => {
    throw error;
  };
  const store = await openSqliteEventStore({ file: join(dir, 'log.db'), now: () => new Date(), onFatal });
  onTestFinished(() => store.close());
  return store;
}

type Following = { follower: Follower; view: PlantsByUser; logged: string[]; close: () => Promise<void> };

function followIn(
  dir: string,
  store: EventStore,
  options: Partial<Parameters<typeof follow>[0]> = {},
): Following {
  const view = new PlantsByUser(join(dir, 'view.db'));
  const logged: string[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(line) });
  const follower = follow({ store, view, skip: NONE, log, ...options });
  let closed = false;
  const close = async (): Promise<void> => {
    if (closed) return;
    closed = true;
    await follower.stop();
    view.close();
  };
  onTestFinished(close);
  return { follower, view, logged, close };
}

/** A view that has followed its log so far, and is closed again. */
async function followUpTo(dir: string, store: EventStore, position: bigint): Promise<void> {
  const { follower, close } = followIn(dir, store);
  await follower.reached(position);
  await close();
}

function plant(store: EventStore, user: string, id: number, name: string): Promise<bigint> {
  const surroundings = { now: () => new Date(0), newId: () => crypto.randomUUID(), correlationId: 'c' };
  return createPlant(store, { user, id: BigInt(id), name }, surroundings);
}

function namesOf(view: PlantsByUser, user: string): string[] {
  const { plants } = view.plantsOf(user, { after: START, upTo: view.position, limit: 500 });
  return (JSON.parse(`[${plants}]`) as { name: string }[]).map(({ name }) => name);
}

test('a view sees what its log holds and what comes later', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  await plant(store, 'alice', 1, 'Fern');
  const { follower, view } = followIn(dir, store);
  await follower.reached(START);
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
  await follower.reached(await plant(store, 'bob', 1, 'Oak'));
  expect(namesOf(view, 'bob')).toEqual(['Oak']);
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
});

test('who waits for a position that does not come is told in time', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  const { follower } = followIn(dir, store);
  await follower.reached(START);
  stopClock();
  const late = expect(follower.reached(1n)).rejects.toThrow(ViewBehind);
  vi.advanceTimersByTime(REACHED_TIMEOUT_MS);
  await late;
});

test('who asks before the view has caught up waits', async () => {
  const dir = tempDir();
  const filled = await openStore(dir);
  for (let i = 0; i < 1_200; i++) void plant(filled, 'alice', i, `${i}`);
  await plant(filled, 'bob', 1, 'Oak');
  await filled.close();
  const store = await openStore(dir);
  const progress: Progress[] = [];
  const { follower, view } = followIn(dir, store, { onProgress: (one) => void progress.push(one) });
  expect(follower.notReady()).toContain('catching up');
  await follower.reached(START);
  expect(follower.notReady()).toBeUndefined();
  expect(namesOf(view, 'bob')).toEqual(['Oak']);
  expect(progress.map(({ position }) => position)).toEqual([500n, 1_000n, 1_201n]);
});

test('a view goes on from its checkpoint', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  await plant(store, 'alice', 1, 'Fern');
  await followUpTo(dir, store, 1n);
  await plant(store, 'alice', 2, 'Moss');
  const starts: bigint[] = [];
  const spied: EventStore = {
    ...store,
    subscribe: (options) => {
      starts.push(options.after);
      return store.subscribe(options);
    },
  };
  const { follower, view } = followIn(dir, spied);
  await follower.reached(2n);
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(starts).toEqual([1n]);
});

test('a view whose file is missing is built anew', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  await plant(store, 'alice', 1, 'Fern');
  await followUpTo(dir, store, 1n);
  rmSync(join(dir, 'view.db'));
  const { follower, view } = followIn(dir, store);
  await follower.reached(1n);
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
});

test('a view of another log is built anew', async () => {
  const [dir, other] = [tempDir(), tempDir()];
  const store = await openStore(dir);
  await plant(store, 'alice', 1, 'Fern');
  await followUpTo(dir, store, 1n);
  const replaced = await openStore(other);
  await plant(replaced, 'alice', 1, 'Palm');
  const { follower, view, logged } = followIn(dir, replaced);
  await follower.reached(1n);
  expect(namesOf(view, 'alice')).toEqual(['Palm']);
  expect(logged.join()).toContain('of another log');
});

test('a view that has seen more than an older backup of its log is built anew', async () => {
  const dir = tempDir();
  const first = await openStore(dir);
  await plant(first, 'alice', 1, 'Fern');
  await first.close();
  copyFileSync(join(dir, 'log.db'), join(dir, 'backup.db'));

  const second = await openStore(dir);
  await plant(second, 'alice', 2, 'Lost');
  await plant(second, 'bob', 1, 'Lost too');
  await followUpTo(dir, second, 3n);
  await second.close();
  copyFileSync(join(dir, 'backup.db'), join(dir, 'log.db'));

  const third = await openStore(dir);
  await plant(third, 'alice', 3, 'Moss');
  const { follower, view } = followIn(dir, third);
  await follower.reached(2n);
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(namesOf(view, 'bob')).toEqual([]);
});

test('a plant that does not fit its schema stops the view, loudly, until it is skipped', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  await plant(store, 'alice', 1, 'Fern');
  const malformed = { id: crypto.randomUUID(), type: 'PlantCreated', data: { name: 5 }, metadata: {} };
  await store.append('plant-alice/2', malformed, NO_STREAM);
  await plant(store, 'alice', 3, 'Moss');

  const before = followIn(dir, store);
  await expect.poll(before.follower.notReady).toContain('stopped');
  await expect(before.follower.reached(START)).rejects.toThrow(ViewBehind);
  expect(before.logged.join()).toContain(`SKIP_EVENTS=${malformed.id}`);
  expect(await plant(store, 'bob', 1, 'Oak')).toBe(4n);
  await before.close();

  const { follower, view, logged } = followIn(dir, store, { skip: new Set([malformed.id]) });
  await follower.reached(4n);
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(namesOf(view, 'bob')).toEqual(['Oak']);
  expect(logged.join()).toContain('passed over an event');
});

test('a view that cannot be saved goes on in memory, and is saved when it can be', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  const { follower, view, logged } = followIn(dir, store);
  await follower.reached(START);
  const other = new DatabaseSync(join(dir, 'view.db'));
  other.exec('BEGIN IMMEDIATE'); // what a full or failing disk does, and can be undone
  await follower.reached(await plant(store, 'alice', 1, 'Fern'));
  await expect.poll(() => logged.join()).toContain('trying again');
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
  await follower.reached(await plant(store, 'alice', 2, 'Moss'));
  expect(namesOf(view, 'alice')).toEqual(['Fern', 'Moss']);
  expect(view.checkpoint.position).toBe(START);
  other.exec('COMMIT');
  other.close();
  await expect.poll(() => view.checkpoint.position).toBe(2n);
  await follower.reached(await plant(store, 'bob', 1, 'Oak'));
  expect(namesOf(view, 'bob')).toEqual(['Oak']);
});

test('a log that fails while it is followed is tried again', async () => {
  const dir = tempDir();
  const store = await openStore(dir);
  let failures = 0;
  const flaky: EventStore = {
    ...store,
    subscribe: (options) => {
      if (failures++ < 2) throw new Error('away');
      return store.subscribe(options);
    },
  };
  const { follower, view } = followIn(dir, flaky);
  await follower.reached(await plant(store, 'alice', 1, 'Fern'));
  expect(namesOf(view, 'alice')).toEqual(['Fern']);
  expect(failures).toBe(3);
});

import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { follow } from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { rebuildView } from '../../projections/rebuildView.ts';
import { ViewComparison } from '../../projections/viewComparison.ts';
import { type EventLog, type EventStore, NO_STREAM, START } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { createPlant, MalformedPlantCreated, PLANT_STREAMS } from '../../src/plants/plant.ts';
import { openIn, startDouble } from '../copy/logs.ts';
import { everything } from '../eventStore/contract.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE: ReadonlySet<string> = new Set();
const log = pino({ level: 'silent' });

type Options = Partial<Parameters<typeof rebuildView>[0]>;

const rebuild = (log: EventLog, file: string, options: Options = {}) =>
  rebuildView({
    log,
    file,
    skip: NONE,
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
  });

/** The embedded log with so many plants of alice and of bob in turn, and a place for its view. */
async function garden(plants = 6): Promise<{ store: EventStore; file: string }> {
  const dir = tempDir();
  const planting = await openIn(dir);
  await plantUpTo(planting, plants);
  await planting.close();
  return { store: await openIn(dir), file: join(dir, 'view.db') };
}

async function plantUpTo(store: EventStore, last: number, first = 1): Promise<void> {
  const surroundings = { now: () => new Date(0), newId: randomUUID, correlationId: 'c' };
  const ids = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  await Promise.all(
    ids.map((id) => {
      const user = id % 2 ? 'alice' : 'bob';
      return createPlant(store, { user, id: BigInt(id), name: `${user}'s ${id}` }, surroundings);
    }),
  );
}

/** What a file answers to the two of them, and how far it has come. */
function answersOf(file: string) {
  const view = new PlantsByUser(file);
  try {
    const { mark, position } = view;
    const listed = (user: string) => {
      const { plants } = view.plantsOf(user, { after: START, upTo: position, limit: 2 ** 31 - 1 });
      return (JSON.parse(`[${plants}]`) as { name: string }[]).map(({ name }) => name);
    };
    return { mark, position, alice: listed('alice'), bob: listed('bob'), replaced: view.replaced };
  } finally {
    view.close();
  }
}

const GARDEN_OF_SIX = {
  alice: ["alice's 1", "alice's 3", "alice's 5"],
  bob: ["bob's 2", "bob's 4", "bob's 6"],
  position: 6n,
  replaced: undefined,
};

/** What there is of the view, beside the file itself. */
const leftovers = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name.startsWith('view.db') && name !== basename(file));

/** A view of nothing but weeds, so that the old one can be told from the new one. */
function writeOld(file: string): void {
  const view = new PlantsByUser(file);
  view.reset('old');
  view.close();
  using db = new DatabaseSync(file);
  db.exec(`INSERT INTO plants VALUES ('alice', 1, '{"name":"Weed"}'); UPDATE checkpoint SET position = 1`);
}

const isOld = (file: string): boolean => answersOf(file).alice[0] === 'Weed';

describe('a rebuilt view', () => {
  test('answers as the log says, and belongs to it', async () => {
    const { store, file } = await garden();
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    expect(answersOf(file)).toEqual({ ...GARDEN_OF_SIX, mark: await store.mark() });
    const comparison = ViewComparison.open(file, NONE) as ViewComparison;
    const events = await everything(store);
    const faults = events.flatMap((event) => comparison.compare(event));
    expect([...faults, ...(await Array.fromAsync(comparison.rest(store)))]).toEqual([]);
    comparison.close();
  });

  test('is gone on with, not built anew, by the next server', async () => {
    const { store, file } = await garden();
    await rebuild(store, file);
    const starts: bigint[] = [];
    const subscribe: EventStore['subscribe'] = (options) => {
      starts.push(options.after);
      return store.subscribe(options);
    };
    const view = new PlantsByUser(file);
    const follower = follow({ store: { ...store, subscribe }, view, skip: NONE, log });
    await follower.reached(6n);
    await follower.stop();
    view.close();
    expect({ starts, rebuilds: follower.rebuilds }).toEqual({ starts: [6n], rebuilds: 0 });
  });

  test('of an empty log is empty', async () => {
    const { store, file } = await garden(0);
    expect(await rebuild(store, file)).toEqual({ events: 0 });
    expect(answersOf(file)).toMatchObject({ mark: await store.mark(), position: START, alice: [], bob: [] });
  });

  test('of EventStoreDB is one too', async () => {
    const double = await startDouble();
    const store = await openEventStoreDb({ url: double.url, prefix: PLANT_STREAMS, log });
    onTestFinished(() => store.close());
    await plantUpTo(store, 6);
    const file = join(tempDir(), 'view.db');
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    const all = await everything(store);
    const listed = (user: string) =>
      all.flatMap(({ data }) => {
        const { name, user: owner } = data as { name: string; user: string };
        return owner === user ? [name] : [];
      });
    expect(answersOf(file)).toMatchObject({
      alice: listed('alice'),
      bob: listed('bob'),
      position: await store.end(),
      mark: await store.mark(),
    });
  });

  test('holds what was appended meanwhile, or leaves it to the next server', async () => {
    const { store, file } = await garden(1_100);
    let late: Promise<unknown> | undefined;
    const onProgress = (): void => {
      late ??= plantUpTo(store, 1_200, 1_101);
    };
    const { events } = await rebuild(store, file, { onProgress });
    await late;
    const { position, alice, bob } = answersOf(file);
    expect(position).toBe(BigInt(events));
    expect(events).toBeGreaterThanOrEqual(1_100);
    expect(alice.length + bob.length).toBe(events);
  });

  test('tells how far it has come, to the end', async () => {
    const { store, file } = await garden(1_100);
    const told: object[] = [];
    await rebuild(store, file, { onProgress: (progress) => void told.push(progress) });
    expect(told).toEqual(
      [500, 1_000, 1_100].map((events) => ({ events, position: BigInt(events), end: 1_100n })),
    );
  });
});

describe('whatever was there before is replaced:', () => {
  test.for<[string, (file: string) => void]>([
    ['nothing', () => {}],
    ['another view', writeOld],
    ['garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage'))],
    ['an empty file', (file) => writeFileSync(file, '')],
    [
      'a view of another version',
      (file) => {
        writeOld(file);
        using db = new DatabaseSync(file);
        db.exec('PRAGMA user_version = 7');
      },
    ],
    [
      'the write-ahead log of a server that was killed',
      (file) => {
        writeOld(file);
        const [view, wal] = leftByCrash(file, `UPDATE plants SET plant = '{"name":"Nettle"}'`);
        writeFileSync(file, view);
        writeFileSync(`${file}-wal`, wal);
      },
    ],
    [
      'a write-ahead log that has lost its view',
      (file) => {
        writeOld(file);
        const [, wal] = leftByCrash(file, `UPDATE plants SET plant = '{"name":"Nettle"}'`);
        rmSync(file);
        writeFileSync(`${file}-wal`, wal);
      },
    ],
    [
      'a write-ahead log of garbage',
      (file) => {
        writeOld(file);
        writeFileSync(`${file}-wal`, Buffer.alloc(10_000, 'garbage'));
        writeFileSync(`${file}-shm`, Buffer.alloc(32_768, 'garbage'));
      },
    ],
    [
      'the draft of a rebuild that was killed',
      (file) => {
        writeOld(file);
        writeOld(`${file}.new`);
        writeFileSync(`${file}.new-wal`, Buffer.alloc(10_000, 'garbage'));
      },
    ],
  ])('%s', async ([, make]) => {
    const { store, file } = await garden();
    make(file);
    await rebuild(store, file);
    expect(leftovers(file)).toEqual([]);
    expect(answersOf(file)).toEqual({ ...GARDEN_OF_SIX, mark: await store.mark() });
  });

  test('a view that somebody is reading, who goes on with the old one', async () => {
    const { store, file } = await garden();
    writeOld(file);
    const comparison = ViewComparison.open(file, NONE) as ViewComparison;
    onTestFinished(() => comparison.close());
    await rebuild(store, file);
    const events = await everything(store);
    const faults = events.flatMap((event) => comparison.compare(event));
    expect([...faults, ...(await Array.fromAsync(comparison.rest(store)))]).toContainEqual({
      position: 1n,
      fault: `the log says {"name":"alice's 1"}, the view says {"name":"Weed"}`,
    });
    expect(answersOf(file)).toEqual({ ...GARDEN_OF_SIX, mark: await store.mark() });
  });
});

/** The files as they were while somebody had written this: what is left when a process is killed then. */
function leftByCrash(file: string, sql: string): [view: Buffer, wal: Buffer] {
  using db = new DatabaseSync(file);
  db.exec(sql);
  return [readFileSync(file), readFileSync(`${file}-wal`)];
}

describe('the old view stays, with nothing left beside it, when', () => {
  /** A log and an old view, and what an attempt to rebuild it ends with. */
  async function attempt(options: (store: EventStore) => Options & { log?: EventLog }): Promise<unknown> {
    const { store, file } = await garden(1_100);
    writeOld(file);
    const before = readFileSync(file);
    const outcome = await rebuild(store, file, options(store)).catch((error: unknown) => error);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(leftovers(file)).toEqual([]);
    expect(isOld(file)).toBe(true);
    return outcome;
  }

  test('it has to end', async () => {
    const stopping = new AbortController();
    const reason = new Error('stopped');
    expect(await attempt(() => ({ signal: stopping.signal, onProgress: () => stopping.abort(reason) }))).toBe(
      reason,
    );
  });

  test('it has to end at once', async () => {
    const reason = new Error('stopped');
    expect(await attempt(() => ({ signal: AbortSignal.abort(reason) }))).toBe(reason);
  });

  test('it has to end when all has been read', async () => {
    const stopping = new AbortController();
    const reason = new Error('stopped');
    const onProgress: Options['onProgress'] = ({ position, end }) => {
      if (position === end) stopping.abort(reason);
    };
    expect(await attempt(() => ({ signal: stopping.signal, onProgress }))).toBe(reason);
  });

  test('the log is closed meanwhile', async () => {
    expect(await attempt((store) => ({ onProgress: () => void store.close() }))).toMatchObject({
      name: 'StoreUnavailable',
      message: 'the log has been closed',
    });
  });

  test('the log cannot be asked', async () => {
    const mark = async (): Promise<never> => {
      throw new Error('away');
    };
    expect(await attempt((store) => ({ log: { ...store, mark } }))).toMatchObject({ message: 'away' });
  });
});

test('a plant that does not fit its schema ends it, until it is skipped', async () => {
  const { store, file } = await garden(3);
  const malformed = { id: randomUUID(), type: 'PlantCreated', data: { name: 5 }, metadata: {} };
  await store.append('plant-alice/4', malformed, NO_STREAM);
  await plantUpTo(store, 6, 5);
  writeOld(file);
  await expect(rebuild(store, file)).rejects.toThrow(MalformedPlantCreated);
  expect(leftovers(file)).toEqual([]);
  expect(isOld(file)).toBe(true);
  expect(await rebuild(store, file, { skip: new Set([malformed.id]) })).toEqual({ events: 6 });
  expect(answersOf(file)).toMatchObject({
    alice: ["alice's 1", "alice's 3", "alice's 5"],
    bob: ["bob's 2", "bob's 6"],
    position: 6n,
  });
});

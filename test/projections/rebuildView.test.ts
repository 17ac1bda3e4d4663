import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Follower } from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { rebuildView } from '../../projections/rebuildView.ts';
import { ViewComparison } from '../../projections/viewComparison.ts';
import {
  type EventLog,
  type EventStore,
  InvalidEvent,
  NO_STREAM,
  START,
} from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb/store.ts';
import { createPlant } from '../../src/plants/createPlant.ts';
import { PLANT_STREAM_PREFIX } from '../../src/plants/stream.ts';
import { everything } from '../eventStore/contract.ts';
import { openIn, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE: ReadonlySet<string> = new Set();
const log = pino({ level: 'silent' });

type Options = Partial<Parameters<typeof rebuildView>[0]>;

const rebuild = (log: EventLog, file: string, options: Options = {}) =>
  rebuildView({
    log,
    open: (file) => new PlantsByUser(file),
    file,
    skip: NONE,
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
  });

/** The embedded log with this number of plants of alice and of bob in turn, and the file of its view. */
async function logOf(plants = 6): Promise<{ store: EventStore; file: string }> {
  const dir = tempDir();
  const writer = await openIn(dir);
  await createUpTo(writer, plants);
  await writer.close();
  return { store: await openIn(dir), file: join(dir, 'view.db') };
}

async function createUpTo(store: EventStore, last: number, first = 1): Promise<void> {
  const context = { now: () => new Date(0), newEventId: randomUUID, correlationId: 'c' };
  const ids = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  await Promise.all(
    ids.map((id) => {
      const user = id % 2 ? 'alice' : 'bob';
      return createPlant(store, { user, id: BigInt(id), name: `${user}'s ${id}` }, context);
    }),
  );
}

/** The lists of both users in a file, and its checkpoint. */
function contentOf(file: string) {
  const view = new PlantsByUser(file);
  try {
    const { logId, position } = view.applied;
    const listed = (user: string) => {
      const { plants } = view.plantsOf(user, { after: START, upTo: position, limit: 2 ** 31 - 1 });
      return (JSON.parse(`[${plants}]`) as { name: string }[]).map(({ name }) => name);
    };
    return { logId, position, alice: listed('alice'), bob: listed('bob'), replaced: view.replaced };
  } finally {
    view.close();
  }
}

const SIX_PLANTS = {
  alice: ["alice's 1", "alice's 3", "alice's 5"],
  bob: ["bob's 2", "bob's 4", "bob's 6"],
  position: 6n,
  replaced: undefined,
};

/** The files of the view, without the view itself. */
const leftovers = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name.startsWith('view.db') && name !== basename(file));

/** Writes a view that differs from the new one. */
function writeOld(file: string): void {
  const view = new PlantsByUser(file);
  view.reset('old');
  view.close();
  using db = new DatabaseSync(file);
  db.exec(
    `INSERT INTO plants VALUES ('alice', 1, 9, '9', '{"name":"Weed"}'); UPDATE checkpoint SET position = 1`,
  );
}

const isOld = (file: string): boolean => contentOf(file).alice[0] === 'Weed';

describe('a rebuilt view', () => {
  test('is the fold of its log, and bound to it', async () => {
    const { store, file } = await logOf();
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    expect(contentOf(file)).toEqual({ ...SIX_PLANTS, logId: await store.logId() });
    const comparison = ViewComparison.open(store, file, NONE) as ViewComparison;
    for (const event of await everything(store)) comparison.add(event);
    expect(await Array.fromAsync(comparison.remaining())).toEqual([]);
    comparison.close();
  });

  test('is resumed, not rebuilt, by the next server', async () => {
    const { store, file } = await logOf();
    await rebuild(store, file);
    const starts: bigint[] = [];
    const subscribe: EventStore['subscribe'] = (options) => {
      starts.push(options.after);
      return store.subscribe(options);
    };
    const view = new PlantsByUser(file);
    const follower = new Follower({ store: { ...store, subscribe }, view, skip: NONE, logger: log });
    await follower.reached(6n);
    await follower.stop();
    view.close();
    expect({ starts, resets: follower.resets }).toEqual({ starts: [6n], resets: 0 });
  });

  test('of an empty log is empty', async () => {
    const { store, file } = await logOf(0);
    expect(await rebuild(store, file)).toEqual({ events: 0 });
    expect(contentOf(file)).toMatchObject({
      logId: await store.logId(),
      position: START,
      alice: [],
      bob: [],
    });
  });

  test('of EventStoreDB is the fold of its log', async () => {
    const server = await startFakeServer();
    const store = await openEventStoreDb({
      url: server.url,
      timeoutMs: 10_000,
      prefix: PLANT_STREAM_PREFIX,
      logger: log,
    });
    onTestFinished(() => store.close());
    await createUpTo(store, 6);
    const file = join(tempDir(), 'view.db');
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    const all = await everything(store);
    const listed = (user: string) =>
      all.flatMap(({ data }) => {
        const { name, user: owner } = data as { name: string; user: string };
        return owner === user ? [name] : [];
      });
    expect(contentOf(file)).toMatchObject({
      alice: listed('alice'),
      bob: listed('bob'),
      position: await store.lastPosition(),
      logId: await store.logId(),
    });
  });

  test('is complete up to its checkpoint if events are appended meanwhile', async () => {
    const { store, file } = await logOf(1_100);
    let late: Promise<unknown> | undefined;
    const onProgress = (): void => {
      late ??= createUpTo(store, 1_200, 1_101);
    };
    const { events } = await rebuild(store, file, { onProgress });
    await late;
    const { position, alice, bob } = contentOf(file);
    expect(position).toBe(BigInt(events));
    expect(events).toBeGreaterThanOrEqual(1_100);
    expect(alice.length + bob.length).toBe(events);
  });

  test('reports its progress, up to the end', async () => {
    const { store, file } = await logOf(1_100);
    const reported: object[] = [];
    await rebuild(store, file, { onProgress: (progress) => void reported.push(progress) });
    expect(reported).toEqual(
      [500, 1_000, 1_100].map((events) => ({ events, position: BigInt(events), end: 1_100n })),
    );
  });
});

describe('a rebuild replaces:', () => {
  test.for<[string, (file: string) => void]>([
    ['no view', () => {}],
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
      'the write-ahead log of a killed server',
      (file) => {
        writeOld(file);
        const [view, wal] = filesAfterCrash(file, `UPDATE plants SET plant = '{"name":"Nettle"}'`);
        writeFileSync(file, view);
        writeFileSync(`${file}-wal`, wal);
      },
    ],
    [
      'a write-ahead log without its view',
      (file) => {
        writeOld(file);
        const [, wal] = filesAfterCrash(file, `UPDATE plants SET plant = '{"name":"Nettle"}'`);
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
      'the partial file of a killed rebuild',
      (file) => {
        writeOld(file);
        writeOld(`${file}.new`);
        writeFileSync(`${file}.new-wal`, Buffer.alloc(10_000, 'garbage'));
      },
    ],
  ])('%s', async ([, make]) => {
    const { store, file } = await logOf();
    make(file);
    await rebuild(store, file);
    expect(leftovers(file)).toEqual([]);
    expect(contentOf(file)).toEqual({ ...SIX_PLANTS, logId: await store.logId() });
  });

  test('a view that is being read; the reader keeps the old one', async () => {
    const { store, file } = await logOf();
    writeOld(file);
    const comparison = ViewComparison.open(store, file, NONE) as ViewComparison;
    onTestFinished(() => comparison.close());
    await rebuild(store, file);
    for (const event of await everything(store)) comparison.add(event);
    expect(await Array.fromAsync(comparison.remaining())).toContainEqual({
      position: 1n,
      problem: `by the log it is {"name":"alice's 1"}, in the view {"name":"Weed"}`,
    });
    expect(contentOf(file)).toEqual({ ...SIX_PLANTS, logId: await store.logId() });
  });
});

/** The files as a process leaves them if it is killed after this write. */
function filesAfterCrash(file: string, sql: string): [view: Buffer, wal: Buffer] {
  using db = new DatabaseSync(file);
  db.exec(sql);
  return [readFileSync(file), readFileSync(`${file}-wal`)];
}

describe('the old view is kept, without leftover files, if', () => {
  /** The outcome of a failing rebuild of an old view. */
  async function attempt(options: (store: EventStore) => Options & { log?: EventLog }): Promise<unknown> {
    const { store, file } = await logOf(1_100);
    writeOld(file);
    const before = readFileSync(file);
    const outcome = await rebuild(store, file, options(store)).catch((error: unknown) => error);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(leftovers(file)).toEqual([]);
    expect(isOld(file)).toBe(true);
    return outcome;
  }

  test('the rebuild is aborted', async () => {
    const stopping = new AbortController();
    const reason = new Error('stopped');
    expect(await attempt(() => ({ signal: stopping.signal, onProgress: () => stopping.abort(reason) }))).toBe(
      reason,
    );
  });

  test('the rebuild is aborted before its start', async () => {
    const reason = new Error('stopped');
    expect(await attempt(() => ({ signal: AbortSignal.abort(reason) }))).toBe(reason);
  });

  test('the rebuild is aborted after the last event', async () => {
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
      message: 'the log is closed',
    });
  });

  test('the log cannot be read', async () => {
    const logId = async (): Promise<never> => {
      throw new Error('unavailable');
    };
    expect(await attempt((store) => ({ log: { ...store, logId } }))).toMatchObject({
      message: 'unavailable',
    });
  });
});

test('an invalid PlantCreated makes a rebuild fail, unless it is skipped', async () => {
  const { store, file } = await logOf(3);
  const malformed = { id: randomUUID(), type: 'PlantCreated', data: { name: 5 }, metadata: {} };
  await store.append('plant-alice/4', malformed, NO_STREAM);
  await createUpTo(store, 6, 5);
  writeOld(file);
  await expect(rebuild(store, file)).rejects.toThrow(InvalidEvent);
  expect(leftovers(file)).toEqual([]);
  expect(isOld(file)).toBe(true);
  expect(await rebuild(store, file, { skip: new Set([malformed.id]) })).toEqual({ events: 6 });
  expect(contentOf(file)).toMatchObject({
    alice: ["alice's 1", "alice's 3", "alice's 5"],
    bob: ["bob's 2", "bob's 6"],
    position: 6n,
  });
});

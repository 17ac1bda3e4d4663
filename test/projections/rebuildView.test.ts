import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Follower } from '../../projections/follow.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { rebuildView } from '../../projections/rebuildView.ts';
import type { View } from '../../projections/view.ts';
import {
  type EventLog,
  type EventStore,
  InvalidEvent,
  NO_STREAM,
  START,
} from '../../src/eventStore/eventStore.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { createPlant } from '../../src/plants/createPlant.ts';
import { everything } from '../eventStore/contract.ts';
import { logWith } from '../support/logs.ts';
import { openIn, overFakeServer, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE: ReadonlySet<string> = new Set();

type Options = Partial<Parameters<typeof rebuildView>[0]>;
type Progress = Parameters<NonNullable<Options['onProgress']>>[0];

const rebuild = (log: EventLog, file: string, options: Options = {}) =>
  rebuildView({
    log,
    open: PlantsByUser.open,
    file,
    skip: NONE,
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
  });

/** A data directory with this number of plants of alice and of bob in turn. */
const dirOf = (plants: number): string =>
  logWith({ events: plants, name: `iif(id % 2, 'alice', 'bob') || '''s ' || id` });

/** Its log, to be read, and the file of its view. */
function logOf(plants = 6): { store: EventLog; file: string } {
  const dir = dirOf(plants);
  const store = openLogReader(join(dir, 'log.db'), { raw: false });
  onTestFinished(() => store.close());
  return { store, file: join(dir, 'view.db') };
}

/** The same, to be appended to. */
async function writableLogOf(plants: number): Promise<{ store: EventStore; file: string }> {
  const dir = dirOf(plants);
  return { store: await openIn(dir), file: join(dir, 'view.db') };
}

async function createUpTo(store: EventStore, last: number, first = 1): Promise<void> {
  const context = { now: () => new Date(0), newEventId: () => randomUUID(), correlationId: 'c' };
  const create = (_: unknown, i: number) => {
    const [user, id] = [(first + i) % 2 ? 'alice' : 'bob', first + i];
    return createPlant(store, { user, id: BigInt(id), name: `${user}'s ${id}` }, context);
  };
  await Promise.all(Array.from({ length: last - first + 1 }, create));
}

/** The lists of both users in a file, and its checkpoint. */
function contentOf(file: string) {
  using db = new DatabaseSync(file, { readOnly: true });
  const { logId, position } = db.prepare('SELECT log_id AS logId, position FROM checkpoint').get() ?? {};
  const listed = (user: string) => {
    const rows = db.prepare('SELECT plant FROM rows WHERE user = ? ORDER BY position').all(user);
    return rows.map(({ plant }) => JSON.parse(plant as string).name);
  };
  return { logId, position: BigInt(position as number), alice: listed('alice'), bob: listed('bob') };
}

const SIX_PLANTS = {
  alice: ["alice's 1", "alice's 3", "alice's 5"],
  bob: ["bob's 2", "bob's 4", "bob's 6"],
  position: 6n,
};

/** The files of the view, without the view itself. */
const leftovers = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name.startsWith('view.db') && name !== basename(file));

/**
 * Opens a view that is due to be saved whenever events were applied, and saves as `save` does, which is called
 * with a number, from 1, and what saves in fact.
 */
const savingEachPage =
  (save: (number: number, inFact: () => Promise<void>) => Promise<void>) =>
  async (file: string): Promise<View> => {
    const view = await PlantsByUser.open(file);
    const inFact = view.save.bind(view);
    let saves = 0;
    vi.spyOn(view, 'unsavedCharacters', 'get').mockImplementation(() => view.unsaved * 2 ** 30);
    vi.spyOn(view, 'save').mockImplementation(() => (view.unsaved === 0 ? inFact() : save(++saves, inFact)));
    return view;
  };

/** A view that differs from the new one. */
const OLD_VIEW = await (async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'plant-store-')), 'view.db');
  const view = await PlantsByUser.open(file);
  await view.reset('old');
  await view.close();
  using db = new DatabaseSync(file);
  db.exec(`INSERT INTO rows VALUES ('alice', 1, '{"name":"Weed"}', 0, 0)`);
  db.exec('UPDATE checkpoint SET position = 1');
  db.close();
  const bytes = readFileSync(file);
  rmSync(dirname(file), { recursive: true });
  return bytes;
})();

/** Writes it, changed further by this SQL. */
function writeOld(file: string, change = ''): void {
  writeFileSync(file, OLD_VIEW);
  using db = new DatabaseSync(file);
  db.exec(change);
}

const isOld = (file: string): boolean => contentOf(file).alice[0] === 'Weed';

describe('a rebuilt view', () => {
  test('is the fold of its log, and bound to it', async () => {
    const { store, file } = logOf();
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    expect(contentOf(file)).toEqual({ ...SIX_PLANTS, logId: await store.logId() });
  });

  test('is resumed, not rebuilt, by the next server', async () => {
    const { store, file } = logOf();
    await rebuild(store, file);
    const subscribe = vi.spyOn(store, 'subscribe');
    const view = await PlantsByUser.open(file);
    const follower = new Follower({ store, view, skip: NONE, logger: pino({ level: 'silent' }) });
    await follower.reached(6n);
    await follower.stop();
    await view.close();
    expect(subscribe.mock.calls).toMatchObject([[{ after: 6n }]]);
    expect(follower.resets).toBe(0);
  });

  test('of an empty log is empty', async () => {
    const { store, file } = logOf(0);
    expect(await rebuild(store, file)).toEqual({ events: 0 });
    const logId = await store.logId();
    expect(contentOf(file)).toMatchObject({ logId, position: START, alice: [], bob: [] });
  });

  test('of EventStoreDB is the fold of its log', async () => {
    const { url } = await startFakeServer();
    const store = await overFakeServer(url);
    await createUpTo(store, 6);
    const file = join(tempDir(), 'view.db');
    expect(await rebuild(store, file)).toEqual({ events: 6 });
    const all = (await everything(store)).map(({ data }) => data as { name: string; user: string });
    const listed = (owner: string) => all.filter(({ user }) => user === owner).map(({ name }) => name);
    expect(contentOf(file)).toMatchObject({
      alice: listed('alice'),
      bob: listed('bob'),
      position: await store.lastPosition(),
      logId: await store.logId(),
    });
  });

  test('is complete up to its checkpoint if events are appended meanwhile', async () => {
    const { store, file } = await writableLogOf(1_100);
    let late: Promise<void> | undefined;
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

  test('is saved page by page, while the next page is applied', async () => {
    const { store, file } = logOf(1_600);
    const steps: string[] = [];
    const saved = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
    let [saves, unsaved] = [0, 0];
    const open = async (draft: string): Promise<View> => {
      const file = await PlantsByUser.open(draft);
      return {
        name: 'slow',
        title: 'slow view',
        readTo: undefined,
        applied: file.applied,
        get unsaved() {
          return unsaved;
        },
        get unsavedCharacters() {
          return unsaved * 2 ** 30;
        },
        replaced: undefined,
        onDamage: () => {},
        apply(events) {
          unsaved += events.length;
          steps.push(`apply ${events.length}`);
        },
        async save() {
          const events = unsaved;
          steps.push(`save ${events}`);
          await saved[saves++]?.promise;
          unsaved -= events;
        },
        reset: async () => {},
        close() {
          steps.push('close');
          return file.close();
        },
      };
    };
    const rebuilding = rebuild(store, file, { open });
    const expected = [
      ...['apply 500', 'save 500', 'apply 500'],
      ...['save 500', 'apply 500'],
      ...['save 500', 'apply 100'],
      'save 100',
    ];
    for (const [i, length] of [3, 5, 7, 8].entries()) {
      await expect.poll(() => steps).toEqual(expected.slice(0, length));
      await nextTurn();
      expect(steps).toHaveLength(length);
      saved[i]?.resolve();
    }
    expect(await rebuilding).toEqual({ events: 1_600 });
    expect(steps.slice(8)).toEqual(['close', 'close']);
  });

  test('reports its progress, up to the end', async () => {
    const { store, file } = logOf(1_100);
    const reported: object[] = [];
    await rebuild(store, file, { onProgress: (progress) => void reported.push(progress) });
    expect(reported).toEqual(
      [500, 1_000, 1_100].map((events) => ({ events, position: BigInt(events), end: 1_100n })),
    );
  });
});

describe('a rebuild replaces:', () => {
  test.for<[string, (file: string) => unknown]>([
    ['no view', () => {}],
    ['another view', (file) => writeOld(file)],
    ['garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage'))],
    ['an empty file', (file) => writeFileSync(file, '')],
    ['a view of another version', (file) => writeOld(file, 'PRAGMA user_version = 7')],
    ['the write-ahead log of a killed server', writeAsAfterCrash],
    [
      'a write-ahead log without its view',
      (file) => {
        writeAsAfterCrash(file);
        rmSync(file);
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
    const { store, file } = logOf();
    make(file);
    await rebuild(store, file);
    expect(leftovers(file)).toEqual([]);
    expect(contentOf(file)).toEqual({ ...SIX_PLANTS, logId: await store.logId() });
  });
});

/** Writes the files that a killed process leaves after a write. */
function writeAsAfterCrash(file: string): void {
  writeOld(file);
  const db = new DatabaseSync(file);
  db.exec(`UPDATE rows SET plant = '{"name":"Nettle"}'`);
  const left = [file, `${file}-wal`].map((name) => [name, readFileSync(name)] as const);
  db.close();
  for (const [name, bytes] of left) writeFileSync(name, bytes);
}

describe('the old view is kept, without leftover files, if', () => {
  /** The outcome of a failing rebuild of an old view. */
  async function attempt(options: (store: EventLog) => Options & { log?: EventLog }): Promise<unknown> {
    const { store, file } = logOf(1_100);
    writeOld(file);
    const before = readFileSync(file);
    const outcome = await rebuild(store, file, options(store)).catch((error: unknown) => error);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(leftovers(file)).toEqual([]);
    expect(isOld(file)).toBe(true);
    return outcome;
  }

  test.each<[when: string, isTime: (progress: Progress) => boolean]>([
    ['', () => true],
    [' after the last event', ({ position, end }) => position === end],
  ])('the rebuild is aborted%s', async (_, isTime) => {
    const stopping = new AbortController();
    const reason = new Error('stopped');
    const onProgress = (progress: Progress) => {
      if (isTime(progress)) stopping.abort(reason);
    };
    expect(await attempt(() => ({ signal: stopping.signal, onProgress }))).toBe(reason);
  });

  test('the rebuild is aborted before its start', async () => {
    const reason = new Error('stopped');
    expect(await attempt(() => ({ signal: AbortSignal.abort(reason) }))).toBe(reason);
  });

  test.each([1, 2, 3])('save %i of 3 fails', async (failing) => {
    const full = new Error('the disk is full');
    const open = savingEachPage((number, inFact) => (number === failing ? Promise.reject(full) : inFact()));
    expect(await attempt(() => ({ open }))).toBe(full);
  });

  test.each([1, 2, 3])('the new one is damaged at save %i of 3', async (damaged) => {
    let file = '';
    const open = savingEachPage((number, inFact) => {
      using db = new DatabaseSync(file);
      if (number === damaged) db.exec('DROP TABLE rows');
      return inFact();
    });
    const outcome = await attempt(() => ({
      open: (draft: string) => {
        file = draft;
        return open(draft);
      },
    }));
    expect(String(outcome)).toMatch(/was damaged/);
  });

  test('the log is closed meanwhile', async () => {
    const outcome = await attempt((store) => ({ onProgress: () => void store.close() }));
    expect(outcome).toMatchObject({ name: 'StoreUnavailable', message: 'the log is closed' });
  });

  test('the log cannot be read', async () => {
    const unavailable = new Error('unavailable');
    const logId = () => Promise.reject(unavailable);
    expect(await attempt((store) => ({ log: { ...store, logId } }))).toBe(unavailable);
  });
});

test('an invalid PlantCreated makes a rebuild fail, unless it is skipped', async () => {
  const { store, file } = await writableLogOf(3);
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

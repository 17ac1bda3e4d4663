import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { appendTo, logWith, plantOf } from '@event-sourced/testing/logs';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type EventStore, START } from '../../packages/event-log/src/eventStore.ts';
import { Follower } from '../../packages/event-log/src/views/follow.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { MerkleTreeView } from '../../packages/transparency-log/src/view/treeView.ts';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { created } from '../support/created.ts';
import { damagePage } from '../support/damage.ts';
import { type Plant, startService } from '../support/service.ts';

const NONE = new Set<string>();
const EVENTS = 2_400;
/** Up to here the view is saved before it is damaged. */
const SAVED = 2_000;

/** Every third plant is of alice, the others of many users; some need more than a page of the file. */
const PLANTS = Array.from({ length: EVENTS }, (_, i) => ({
  user: i % 3 === 0 ? 'alice' : `user-${(i * 7) % 180}`,
  id: i + 1,
  name: `plant ${i + 1}${i % 400 === 1 ? 'x'.repeat(9_000) : ''}`,
}));
const USERS = new Set([...PLANTS.map(({ user }) => user), 'aaron', 'alice!', 'user-', 'user-50x', 'zoe']);

const EXPECTED = new Map(
  [...USERS].map((user) => [user, PLANTS.filter((plant) => plant.user === user).map(({ name }) => name)]),
);

/** How a file is altered: bytes are overwritten, a bit is flipped, or its end is cut off. */
type Damage = { at: number; bytes: ArrayLike<number> } | { at: number; bit: number } | { truncateTo: number };

const anywhere = (size: number) => fc.noBias(fc.integer({ min: 0, max: size - 1 }));
const overwrite = (size: number): fc.Arbitrary<Damage> =>
  fc.record({ at: anywhere(size), bytes: fc.array(fc.nat(255), { minLength: 200, maxLength: 200 }) });
const flip = (size: number): fc.Arbitrary<Damage> => fc.record({ at: anywhere(size), bit: fc.nat(7) });
const truncate = (size: number): fc.Arbitrary<Damage> => fc.record({ truncateTo: anywhere(size) });

/** Damages a file in its place. */
function alter(file: string, damage: Damage): void {
  if ('truncateTo' in damage) {
    truncateSync(file, damage.truncateTo);
    return;
  }
  const { at } = damage;
  const bytes = readFileSync(file);
  const altered = 'bit' in damage ? [bytes.readUInt8(at) ^ (1 << damage.bit)] : damage.bytes;
  const opened = openSync(file, 'r+');
  writeSync(opened, Buffer.from(altered), 0, Math.min(altered.length, bytes.length - at), at);
  closeSync(opened);
}

/** Copies the files of a view. */
function copyView(from: string): string {
  const file = join(tempDir(), 'view.db');
  for (const part of ['', '-wal'])
    if (existsSync(`${from}${part}`)) copyFileSync(`${from}${part}`, `${file}${part}`);
  return file;
}

/**
 * The files of a view that has the first plants of a log, and free pages, after it was closed, and as a killed process
 * leaves them: part of it is in the write-ahead log.
 */
async function savedViews(store: EventStore): Promise<{ closed: string; killed: string }> {
  const closed = join(tempDir(), 'view.db');
  const view = PlantsByUser.open(closed);
  view.reset('another');
  view.apply(
    PLANTS.map(({ user, name }, i) => created(i + 1, `${user}!`, name.repeat(2))),
    NONE,
  );
  view.save();
  view.reset(await store.logId());
  for (let after = START; after < SAVED; ) {
    const { events, position } = await store.readAll({ after, limit: 100 });
    view.apply(events, NONE);
    view.save();
    after = position;
  }
  const killed = copyView(closed);
  view.close();
  return { closed, killed };
}

function follow(store: EventStore, file: string) {
  const view = PlantsByUser.open(file);
  const follower = new Follower({ store, view, skip: NONE });
  const close = async (): Promise<void> => {
    await follower.stop();
    try {
      view.close();
    } catch (error) {
      expect(error).toBeInstanceOf(ViewBehind);
    }
  };
  return { view, follower, close };
}

/** A user's plants, in pages. @throws ViewBehind */
async function listOf(view: PlantsByUser, user: string, limit: number): Promise<string[]> {
  const pages: string[] = [];
  for (let after = START, hasMore = true; hasMore; ) {
    const query = { after, upTo: BigInt(EVENTS), limit };
    const next = await view.nextPage(user, query, nextTurn);
    const page = view.readPage(user, query);
    expect(next).toBe(page.hasMore ? page.last : undefined);
    pages.push(page.plants);
    ({ last: after, hasMore } = page);
  }
  return (JSON.parse(`[${pages.filter((page) => page !== '').join()}]`) as Plant[]).map(({ name }) => name);
}

/** Whether a list has some of these plants, in their order: a missing row is found by `verify` only. */
function isPartOf(plants: readonly string[], list: readonly string[]): boolean {
  const rest = plants.values();
  return list.every((name) => rest.some((one) => one === name));
}

/** Each list has only plants of its user, or the view is behind while it is rebuilt. */
async function expectRightLists({ view, follower }: ReturnType<typeof follow>): Promise<void> {
  for (let attempts = 0; ; attempts++) {
    try {
      await follower.reached(BigInt(EVENTS));
      for (const [user, plants] of EXPECTED)
        for (const limit of [7, 500])
          if (!isPartOf(plants, await listOf(view, user, limit))) expect.fail(`another list of ${user}`);
      return;
    } catch (error) {
      if (!(error instanceof ViewBehind) || attempts > 20) throw error;
    }
  }
}

const RUNS = 12;
/** A failure prints its seed; SEED=… repeats it. */
const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);

test.for([
  ['view.db', 'before the start', 'a bit', flip],
  ['view.db', 'before the start', '200 bytes', overwrite],
  ['view.db', 'before the start', 'a bit of the header', () => flip(100)],
  ['view.db', 'before the start', 'its end', truncate],
  ['view.db', 'while it is used', 'a bit', flip],
  ['view.db', 'while it is used', '200 bytes', overwrite],
  ['view.db', 'while it is used', 'a bit of the header', () => flip(100)],
  ['view.db-wal', 'before the start', 'a bit', flip],
  ['view.db-wal', 'before the start', '200 bytes', overwrite],
  ['view.db-wal', 'before the start', 'its end', truncate],
] as const)(
  'no list has a plant that its user does not have, whatever is damaged in %s %s: %s',
  async ([name, when, , damageOf]) => {
    const events = PLANTS.map(({ user, id, name }) => plantOf(user, id, name));
    const store = await openIn(appendTo(tempDir(), ...events));
    const { closed, killed } = await savedViews(store);
    const original = name === 'view.db' ? closed : killed;
    const suffix = name.slice('view.db'.length);
    const { size } = statSync(`${original}${suffix}`);
    await fc.assert(
      fc.asyncProperty(damageOf(size), async (damage) => {
        const copy = copyView(original);
        if (when === 'before the start') alter(`${copy}${suffix}`, damage);
        const following = follow(store, copy);
        try {
          if (when === 'while it is used') alter(copy, damage);
          await expectRightLists(following);
        } finally {
          await following.close();
        }
      }),
      { numRuns: RUNS, seed, endOnFailure: true },
    );
  },
);

test('a service with a damaged view rebuilds it with a warning, and lists all plants or is 503', async () => {
  const names = Array.from({ length: 600 }, (_, i) => `plant ${i + 1}`);
  const dir = logWith({ events: names.length, user: "'alice'" });
  const undamaged = await startService({ DATA_DIR: dir });
  expect(await undamaged.as('alice').list()).toHaveLength(names.length);
  await undamaged.close();
  const file = join(dir, 'view.db');
  alter(file, { at: readFileSync(file).indexOf('plant 300'), bytes: Buffer.from('plant 3oo') });
  const { as, log } = await startService({ DATA_DIR: dir });
  const listed = async (): Promise<string[] | undefined> => {
    const response = await as('alice').get();
    const body = await response.json();
    if (response.status === 200) return (body as Plant[]).map(({ name }) => name);
    expect(response.status).toBe(503);
    expect(body).toMatchObject({ error: 50302 });
    return undefined;
  };
  for (let rebuilt = false; !rebuilt; rebuilt = log().some(({ msg }) => msg === 'view caught up'))
    expect([undefined, names]).toContainEqual(await listed());
  expect(await listed()).toEqual(names);
  expect(log().filter(({ msg }) => msg === 'rebuilding view')).toMatchObject([
    { level: 40, view: 'plantsByUser', reason: expect.stringContaining('checksum') },
  ]);
});

test.each([
  ['plantsByUser', (file: string) => PlantsByUser.open(file), ['checkpoint', 'rows']],
  ['merkleTree', (file: string) => MerkleTreeView.open(file), ['checkpoint', 'tiles', 'head']],
] as const)(
  'each table of %s may be damaged: the view is discarded when it is opened or read',
  (_, open, tables) => {
    for (const table of tables) {
      const file = join(tempDir(), 'view.db');
      const view = open(file);
      view.reset('m');
      view.apply([created(1, 'alice', 'Fern')], NONE);
      view.close();
      damagePage(file, table);
      const damaged = open(file);
      if (damaged instanceof PlantsByUser && table === 'rows')
        expect(() => damaged.readPage('alice', { after: START, upTo: 1n, limit: 9 })).toThrow(ViewBehind);
      expect([damaged.replaced, damaged.applied.position]).toEqual([expect.any(String), START]);
      damaged.close();
    }
  },
);

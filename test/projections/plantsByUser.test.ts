import { copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { ViewDamaged } from '../../projections/viewFile.ts';
import { InvalidEvent, type RecordedEvent, START } from '../../src/eventStore/eventStore.ts';
import { tempDir } from '../support/tempDir.ts';
import { created } from './created.ts';

const NONE = new Set<string>();
const LOG_ID = 'slog';

/** The view in a file, with these events applied. */
async function view(file = join(tempDir(), 'view.db'), events: RecordedEvent[] = []): Promise<PlantsByUser> {
  const opened = await PlantsByUser.open(file);
  onTestFinished(() => opened.close());
  if (opened.applied.logId === '') await opened.reset(LOG_ID);
  opened.apply(events, NONE);
  return opened;
}

/** The path of a closed view with these events. */
async function viewFile(events: RecordedEvent[]): Promise<string> {
  const file = join(tempDir(), 'view.db');
  await (await view(file, events)).close();
  return file;
}

/** Damages all pages of a file but the first ones. */
function overwrite(file: string, intact: number): void {
  writeFileSync(file, readFileSync(file).fill(255, intact * 4096));
}

/** A copy of the file of an open view. */
function asAfterCrash(file: string): string {
  const copy = join(tempDir(), 'view.db');
  for (const part of ['', '-wal']) copyFileSync(`${file}${part}`, `${copy}${part}`);
  return copy;
}

function listOf(of: PlantsByUser, user: string, { after = START, limit = 500 } = {}): unknown[] {
  const { plants } = of.plantsOf(user, { after, upTo: of.applied.position, limit });
  return JSON.parse(`[${plants}]`) as unknown[];
}

const PLANTS = [
  created(1, 'alice', 'Fern', 'indoor'),
  created(2, 'bob', 'Oak'),
  created(3, 'alice', 'Moss'),
  created(4, 'alice', 'Ivy', ''),
];

describe.each([
  ['in memory', async () => {}],
  ['being saved', async (of: PlantsByUser) => void of.save()],
  ['saved', (of: PlantsByUser) => of.save()],
])('plants %s', (_, saveIfNeeded) => {
  async function viewOfPlants(): Promise<PlantsByUser> {
    const filledView = await view(undefined, PLANTS);
    await saveIfNeeded(filledView);
    return filledView;
  }

  test('are listed to their owner, oldest first', async () => {
    const filledView = await viewOfPlants();
    expect(listOf(filledView, 'alice')).toEqual([
      { name: 'Fern', tag: 'indoor' },
      { name: 'Moss' },
      { name: 'Ivy', tag: '' },
    ]);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }]);
    expect(listOf(filledView, 'carol')).toEqual([]);
  });

  test('are returned in pages that report whether more remain', async () => {
    const filledView = await viewOfPlants();
    const page = filledView.plantsOf('alice', { after: START, upTo: 4n, limit: 2 });
    expect({ ...page, plants: JSON.parse(`[${page.plants}]`) }).toEqual({
      plants: [{ name: 'Fern', tag: 'indoor' }, { name: 'Moss' }],
      count: 2,
      last: 3n,
      hasMore: true,
    });
    const rest = filledView.plantsOf('alice', { after: page.last, upTo: 4n, limit: 2 });
    expect(rest).toMatchObject({ count: 1, hasMore: false });
    const all = filledView.plantsOf('alice', { after: START, upTo: 4n, limit: 3 });
    expect(all).toMatchObject({ count: 3, hasMore: false });
  });

  test('after the requested position are not returned', async () => {
    const filledView = await viewOfPlants();
    filledView.apply([created(5, 'alice', 'Late')], NONE);
    const page = filledView.plantsOf('alice', { after: START, upTo: 3n, limit: 9 });
    expect(page).toMatchObject({ count: 2, last: 3n, hasMore: false });
  });

  test('are listed again when their owner has another one', async () => {
    const filledView = await viewOfPlants();
    expect(listOf(filledView, 'bob')).toHaveLength(1);
    filledView.apply([created(5, 'bob', 'Elm')], NONE);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }, { name: 'Elm' }]);
  });
});

test('a page can be partly from the file and partly from memory', async () => {
  const filledView = await view(undefined, PLANTS.slice(0, 3));
  await filledView.save();
  filledView.apply(PLANTS.slice(3), NONE);
  expect(listOf(filledView, 'alice')).toHaveLength(3);
  const [first, second] = [START, 1n].map((after) =>
    filledView.plantsOf('alice', { after, upTo: 4n, limit: 2 }),
  );
  expect(first).toMatchObject({ last: 3n, hasMore: true });
  expect(second).toMatchObject({ last: 4n, hasMore: false });
});

describe('the checkpoint', () => {
  test('is saved and loaded with the rows', async () => {
    const again = await view(await viewFile(PLANTS));
    expect(again.applied).toEqual({ logId: LOG_ID, position: 4n, eventId: 'event-4' });
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('is as old as the saved rows after a crash', async () => {
    const file = join(tempDir(), 'view.db');
    const crashed = await view(file, PLANTS.slice(0, 2));
    await crashed.save();
    crashed.apply(PLANTS.slice(2), NONE);
    const again = await view(asAfterCrash(file));
    expect(again.applied.position).toBe(2n);
    again.apply(PLANTS.slice(2), NONE);
    expect(listOf(again, 'alice')).toHaveLength(3);
  });
});

describe('an event that', () => {
  test.each([
    ['has another type', { type: 'PlantWatered' }],
    ['is a later one of its stream', { revision: 1n }],
    ['is of no plant: plantation', { stream: 'plantation-1' }],
    ['is of no plant: no slash', { stream: 'plant-alice' }],
    ['is of no plant: no user', { stream: 'plant-/1' }],
    ['is of no plant: no ID', { stream: 'plant-alice/' }],
    ['is of no plant: an ID with a leading zero', { stream: 'plant-alice/01' }],
    ['is of no plant: an ID beyond 64 bits', { stream: 'plant-alice/9223372036854775808' }],
  ])('%s is skipped', async (_, other) => {
    const event = { ...created(1, 'alice', 'Fern'), ...other };
    const filledView = await view(undefined, [event, created(2, 'alice', 'Moss')]);
    expect(listOf(filledView, 'alice')).toEqual([{ name: 'Moss' }]);
    expect(filledView.applied.position).toBe(2n);
  });

  test.each([
    ['has no name', { data: { id: '2', user: 'alice' } }],
    ['has a number as id', { data: { id: 2, user: 'alice', name: 'Fern' } }],
    ['has no data', { data: 'not json' }],
    ['has another user than its stream', { data: { id: '2', user: 'bob', name: 'Fern' } }],
    ['has another ID than its stream', { data: { id: '3', user: 'alice', name: 'Fern' } }],
  ])('creates a plant and %s halts the projection before it', async (_, other) => {
    const filledView = await view();
    const malformed = { ...created(2, 'alice', 'Fern'), ...other };
    expect(() => filledView.apply([created(1, 'bob', 'Oak'), malformed], NONE)).toThrow(InvalidEvent);
    expect(filledView.applied.position).toBe(1n);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }]);
    filledView.apply([malformed, created(4, 'bob', 'Elm')], new Set(['event-2']));
    expect(filledView.applied.position).toBe(4n);
    expect(listOf(filledView, 'alice')).toEqual([]);
  });
});

describe('a file that', () => {
  const OTHER_DATABASE =
    'DROP TABLE plants; DROP TABLE checkpoint; CREATE TABLE other (a); PRAGMA application_id = 7';
  const change = (sql: string) => (file: string) => {
    using db = new DatabaseSync(file);
    db.exec(sql);
  };

  test.each([
    ['is garbage', (file: string) => writeFileSync(file, 'garbage'.repeat(1_000))],
    ['is another database', change(OTHER_DATABASE)],
    ['is truncated', (file: string) => truncateSync(file, 5_000)],
    ['has another version', change('PRAGMA user_version = 999')],
  ])('%s is replaced', async (_, damage) => {
    const file = await viewFile(PLANTS);
    damage(file);
    const again = await view(file);
    expect(again.replaced).toBeTruthy();
    expect(again.applied.position).toBe(START);
    again.apply(PLANTS, NONE);
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('is found damaged during a read is replaced, and onDamage is called', async () => {
    const many = Array.from({ length: 2_000 }, (_, i) =>
      created(i + 1, i % 2 ? 'alice' : 'bob', `Fern ${i}`),
    );
    const file = await viewFile(many);
    const ROOT_PAGES = 4;
    const damaged = await view(file);
    overwrite(file, ROOT_PAGES); // what its thread finds of it is handled later
    damaged.onDamage = vi.fn();
    expect(damaged.applied.position).toBe(2_000n);
    expect(() => listOf(damaged, 'alice')).toThrow(ViewDamaged);
    expect(damaged.onDamage).toHaveBeenCalledOnce();
    expect(damaged.applied.position).toBe(START);
    await damaged.reset(LOG_ID);
    damaged.apply(many, NONE);
    await damaged.save();
    expect(listOf(damaged, 'alice', { limit: 2_000 })).toHaveLength(1_000);
  });
});

test('a file that ends within a large plant is replaced when this is read', async () => {
  const file = await viewFile([created(1, 'alice', 'x'.repeat(20_000))]);
  const damaged = await view(file);
  truncateSync(file, statSync(file).size - 3_000);
  expect(() => listOf(damaged, 'alice')).toThrow(ViewDamaged);
});

test('a save that is under way when the file is found damaged is rejected, and leaves nothing', async () => {
  const file = await viewFile(PLANTS);
  const damaged = await view(file, [created(5, 'alice', 'Elm')]);
  overwrite(file, 1);
  const saving = expect(damaged.save()).rejects.toThrow(ViewDamaged);
  for (let i = 0; i < 10; i++) await null; // the thread has it, and its reply cannot be handled yet
  expect(() => listOf(damaged, 'alice')).toThrow(ViewDamaged);
  await saving;
  expect(damaged).toMatchObject({ unsaved: 0, applied: { logId: '', position: START } });
  await damaged.reset(LOG_ID);
  damaged.apply(PLANTS, NONE);
  await damaged.save();
  expect(listOf(damaged, 'alice')).toHaveLength(3);
});

test('a page query beyond the checkpoint is rejected', async () => {
  const filledView = await view(undefined, PLANTS);
  expect(() => filledView.plantsOf('alice', { after: START, upTo: 5n, limit: 9 })).toThrow(ViewDamaged);
});

test('after any saves, restarts and resets, the view is the fold of the log', async () => {
  const USERS = ['alice', 'bob', 'a-b', 'a-b/1', '%61', '🌱'];
  const tag = fc.option(fc.string(), { nil: undefined });
  const plant = fc.record({ user: fc.constantFrom(...USERS), name: fc.string(), tag });
  const step = fc.oneof(
    { weight: 6, arbitrary: plant },
    { weight: 1, arbitrary: fc.constantFrom('save', 'start saving', 'crash', 'close', 'reset', 'list') },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      let file = join(tempDir(), 'view.db');
      let current = await PlantsByUser.open(file);
      await current.reset(LOG_ID);
      const log: RecordedEvent[] = [];
      const catchUp = (): void => current.apply(log.slice(Number(current.applied.position)), NONE);
      const expectFold = (): void => {
        for (const owner of USERS) {
          const own = log
            .map(({ data }) => data as { id: string; user: string })
            .filter(({ user }) => user === owner);
          expect(listOf(current, owner)).toEqual(own.map(({ id: _, user, ...plant }) => plant));
        }
      };
      for (const one of steps) {
        if (typeof one === 'object') {
          log.push(created(log.length + 1, one.user, one.name, one.tag));
          catchUp();
        } else if (one === 'save') await current.save();
        else if (one === 'start saving') void current.save();
        else if (one === 'reset') {
          await current.reset(LOG_ID);
          catchUp();
        } else if (one === 'list') expectFold();
        else {
          if (one === 'crash') file = asAfterCrash(file);
          await current.close();
          current = await PlantsByUser.open(file);
          catchUp();
        }
      }
      expectFold();
      await current.close();
    }),
    { numRuns: 15, seed: 1 },
  );
});

import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
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
function view(file = join(tempDir(), 'view.db'), events: RecordedEvent[] = []): PlantsByUser {
  const opened = new PlantsByUser(file);
  if (opened.applied.logId === '') opened.reset(LOG_ID);
  opened.apply(events, NONE);
  onTestFinished(() => {
    try {
      opened.close();
    } catch {} // closed by the test
  });
  return opened;
}

/** The path of a closed view with these events. */
function viewFile(events: RecordedEvent[]): string {
  const file = join(tempDir(), 'view.db');
  view(file, events).close();
  return file;
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
  ['in memory', () => {}],
  ['saved', (of: PlantsByUser) => of.save()],
])('plants %s', (_, saveIfNeeded) => {
  function viewOfPlants(): PlantsByUser {
    const filledView = view(undefined, PLANTS);
    saveIfNeeded(filledView);
    return filledView;
  }

  test('are listed to their owner, oldest first', () => {
    const filledView = viewOfPlants();
    expect(listOf(filledView, 'alice')).toEqual([
      { name: 'Fern', tag: 'indoor' },
      { name: 'Moss' },
      { name: 'Ivy', tag: '' },
    ]);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }]);
    expect(listOf(filledView, 'carol')).toEqual([]);
  });

  test('are returned in pages that report whether more remain', () => {
    const filledView = viewOfPlants();
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

  test('after the requested position are not returned', () => {
    const filledView = viewOfPlants();
    filledView.apply([created(5, 'alice', 'Late')], NONE);
    const page = filledView.plantsOf('alice', { after: START, upTo: 3n, limit: 9 });
    expect(page).toMatchObject({ count: 2, last: 3n, hasMore: false });
  });

  test('are listed again when their owner has another one', () => {
    const filledView = viewOfPlants();
    expect(listOf(filledView, 'bob')).toHaveLength(1);
    filledView.apply([created(5, 'bob', 'Elm')], NONE);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }, { name: 'Elm' }]);
  });
});

test('a page can be partly from the file and partly from memory', () => {
  const filledView = view(undefined, PLANTS.slice(0, 3));
  filledView.save();
  filledView.apply(PLANTS.slice(3), NONE);
  expect(listOf(filledView, 'alice')).toHaveLength(3);
  const [first, second] = [START, 1n].map((after) =>
    filledView.plantsOf('alice', { after, upTo: 4n, limit: 2 }),
  );
  expect(first).toMatchObject({ last: 3n, hasMore: true });
  expect(second).toMatchObject({ last: 4n, hasMore: false });
});

describe('the checkpoint', () => {
  test('is saved and loaded with the rows', () => {
    const again = view(viewFile(PLANTS));
    expect(again.applied).toEqual({ logId: LOG_ID, position: 4n, eventId: 'event-4' });
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('is as old as the saved rows after a crash', () => {
    const file = join(tempDir(), 'view.db');
    const crashed = view(file, PLANTS.slice(0, 2));
    crashed.save();
    crashed.apply(PLANTS.slice(2), NONE);
    const again = view(file);
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
  ])('%s is skipped', (_, other) => {
    const event = { ...created(1, 'alice', 'Fern'), ...other };
    const filledView = view(undefined, [event, created(2, 'alice', 'Moss')]);
    expect(listOf(filledView, 'alice')).toEqual([{ name: 'Moss' }]);
    expect(filledView.applied.position).toBe(2n);
  });

  test.each([
    ['has no name', { data: { id: '2', user: 'alice' } }],
    ['has a number as id', { data: { id: 2, user: 'alice', name: 'Fern' } }],
    ['has no data', { data: 'not json' }],
    ['has another user than its stream', { data: { id: '2', user: 'bob', name: 'Fern' } }],
    ['has another ID than its stream', { data: { id: '3', user: 'alice', name: 'Fern' } }],
  ])('creates a plant and %s halts the projection before it', (_, other) => {
    const filledView = view();
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
  ])('%s is replaced', (_, damage) => {
    const file = viewFile(PLANTS);
    damage(file);
    const again = view(file);
    expect(again.replaced).toBeTruthy();
    expect(again.applied.position).toBe(START);
    again.apply(PLANTS, NONE);
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('is found damaged during a read is replaced, and onDamage is called', () => {
    const many = Array.from({ length: 2_000 }, (_, i) =>
      created(i + 1, i % 2 ? 'alice' : 'bob', `Fern ${i}`),
    );
    const file = viewFile(many);
    const PAGE = 4096;
    const afterRootPages = 3 * PAGE;
    writeFileSync(file, readFileSync(file).fill(255, afterRootPages));

    const damaged = view(file);
    damaged.onDamage = vi.fn();
    expect(damaged.applied.position).toBe(2_000n);
    expect(() => listOf(damaged, 'alice')).toThrow(ViewDamaged);
    expect(damaged.onDamage).toHaveBeenCalledOnce();
    expect(damaged.applied.position).toBe(START);
    damaged.apply(many, NONE);
    damaged.save();
    expect(listOf(damaged, 'alice', { limit: 2_000 })).toHaveLength(1_000);
  });
});

test('a page query beyond the checkpoint is rejected', () => {
  const filledView = view(undefined, PLANTS);
  expect(() => filledView.plantsOf('alice', { after: START, upTo: 5n, limit: 9 })).toThrow(ViewDamaged);
});

test('after any saves, restarts and resets, the view is the fold of the log', () => {
  const USERS = ['alice', 'bob', 'a-b', 'a-b/1', '%61', '🌱'];
  const tag = fc.option(fc.string(), { nil: undefined });
  const plant = fc.record({ user: fc.constantFrom(...USERS), name: fc.string(), tag });
  const step = fc.oneof(
    { weight: 6, arbitrary: plant },
    { weight: 1, arbitrary: fc.constantFrom('save', 'crash', 'close', 'reset', 'list') },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const file = join(tempDir(), 'view.db');
      let current = new PlantsByUser(file);
      current.reset(LOG_ID);
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
        } else if (one === 'save') current.save();
        else if (one === 'reset') {
          current.reset(LOG_ID);
          catchUp();
        } else if (one === 'list') expectFold();
        else {
          if (one === 'close') current.close();
          current = new PlantsByUser(file);
          catchUp();
        }
      }
      expectFold();
      current.close();
    }),
    { numRuns: 100, seed: 1 },
  );
});

import { closeSync, fstatSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PlantsByUser, ViewDamaged } from '../../projections/plantsByUser.ts';
import { type RecordedEvent, START } from '../../src/eventStore/eventStore.ts';
import { MalformedPlantCreated } from '../../src/plants/plant.ts';
import { tempDir } from '../support/tempDir.ts';
import { created } from './created.ts';

const NONE = new Set<string>();
const MARK = 'slog';

function view(file = join(tempDir(), 'view.db')): PlantsByUser {
  const opened = new PlantsByUser(file);
  if (opened.checkpoint.mark === '') opened.reset(MARK);
  onTestFinished(() => {
    try {
      opened.close();
    } catch {} // closed by the test
  });
  return opened;
}

function listOf(of: PlantsByUser, user: string, { after = START, limit = 500 } = {}): unknown[] {
  const { plants } = of.plantsOf(user, { after, upTo: of.position, limit });
  return JSON.parse(`[${plants}]`) as unknown[];
}

const GARDEN = [
  created(1, 'alice', 'Fern', 'indoor'),
  created(2, 'bob', 'Oak'),
  created(3, 'alice', 'Moss'),
  created(4, 'alice', 'Ivy', ''),
];

describe.each([
  ['in memory', () => {}],
  ['saved', (of: PlantsByUser) => of.save()],
])('plants that are %s', (_, settle) => {
  function garden(): PlantsByUser {
    const planted = view();
    planted.apply(GARDEN, NONE);
    settle(planted);
    return planted;
  }

  test('are listed to their owner, oldest first', () => {
    const planted = garden();
    expect(listOf(planted, 'alice')).toEqual([
      { name: 'Fern', tag: 'indoor' },
      { name: 'Moss' },
      { name: 'Ivy', tag: '' },
    ]);
    expect(listOf(planted, 'bob')).toEqual([{ name: 'Oak' }]);
    expect(listOf(planted, 'carol')).toEqual([]);
  });

  test('come in pages that say whether more remain', () => {
    const planted = garden();
    const page = planted.plantsOf('alice', { after: START, upTo: 4n, limit: 2 });
    expect({ ...page, plants: JSON.parse(`[${page.plants}]`) }).toEqual({
      plants: [{ name: 'Fern', tag: 'indoor' }, { name: 'Moss' }],
      count: 2,
      last: 3n,
      more: true,
    });
    expect(planted.plantsOf('alice', { after: page.last, upTo: 4n, limit: 2 })).toMatchObject({
      count: 1,
      more: false,
    });
    expect(planted.plantsOf('alice', { after: START, upTo: 4n, limit: 3 })).toMatchObject({
      count: 3,
      more: false,
    });
  });

  test('after the position fixed at the start are not seen', () => {
    const planted = garden();
    planted.apply([created(5, 'alice', 'Late')], NONE);
    expect(planted.plantsOf('alice', { after: START, upTo: 3n, limit: 9 })).toMatchObject({
      count: 2,
      last: 3n,
      more: false,
    });
  });

  test('are listed anew when their owner has another one', () => {
    const planted = garden();
    expect(listOf(planted, 'bob')).toHaveLength(1);
    planted.apply([created(5, 'bob', 'Elm')], NONE);
    expect(listOf(planted, 'bob')).toEqual([{ name: 'Oak' }, { name: 'Elm' }]);
  });
});

describe('a page', () => {
  test('may be half from the file and half from memory', () => {
    const planted = view();
    planted.apply(GARDEN.slice(0, 3), NONE);
    planted.save();
    planted.apply(GARDEN.slice(3), NONE);
    expect(listOf(planted, 'alice')).toHaveLength(3);
    expect(planted.plantsOf('alice', { after: START, upTo: 4n, limit: 2 })).toMatchObject({
      last: 3n,
      more: true,
    });
    expect(planted.plantsOf('alice', { after: 1n, upTo: 4n, limit: 2 })).toMatchObject({
      last: 4n,
      more: false,
    });
  });
});

describe('the checkpoint', () => {
  test('is saved with the rows, and both are there again', () => {
    const file = join(tempDir(), 'view.db');
    const first = view(file);
    first.apply(GARDEN, NONE);
    first.close();
    const again = view(file);
    expect(again.checkpoint).toEqual({ mark: MARK, position: 4n, eventId: 'event-4' });
    expect(again.position).toBe(4n);
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('stays behind with rows that were not saved', () => {
    const file = join(tempDir(), 'view.db');
    const crashed = view(file);
    crashed.apply(GARDEN.slice(0, 2), NONE);
    crashed.save();
    crashed.apply(GARDEN.slice(2), NONE);
    const again = view(file);
    expect(again.checkpoint.position).toBe(2n);
    again.apply(GARDEN.slice(2), NONE);
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
    ['is of no plant: no id', { stream: 'plant-alice/' }],
    ['is of no plant: an id with a zero in front', { stream: 'plant-alice/01' }],
    ['is of no plant: an id beyond 64 bits', { stream: 'plant-alice/9223372036854775808' }],
  ])('%s is passed over', (_, other) => {
    const planted = view();
    planted.apply([{ ...created(1, 'alice', 'Fern'), ...other }, created(2, 'alice', 'Moss')], NONE);
    expect(listOf(planted, 'alice')).toEqual([{ name: 'Moss' }]);
    expect(planted.position).toBe(2n);
  });

  test.each([
    ['has no name', { data: { id: '2', user: 'alice' } }],
    ['has a number as id', { data: { id: 2, user: 'alice', name: 'Fern' } }],
    ['has no data', { data: 'not json' }],
    ['speaks of another user than its stream', { data: { id: '2', user: 'bob', name: 'Fern' } }],
    ['speaks of another id than its stream', { data: { id: '3', user: 'alice', name: 'Fern' } }],
  ])('creates a plant and %s stops the view before it', (_, other) => {
    const planted = view();
    const malformed = { ...created(2, 'alice', 'Fern'), ...other };
    expect(() => planted.apply([created(1, 'bob', 'Oak'), malformed], NONE)).toThrow(MalformedPlantCreated);
    expect(planted.position).toBe(1n);
    expect(listOf(planted, 'bob')).toEqual([{ name: 'Oak' }]);
    planted.apply([malformed, created(4, 'bob', 'Elm')], new Set(['event-2']));
    expect(planted.position).toBe(4n);
    expect(listOf(planted, 'alice')).toEqual([]);
  });
});

describe('a file that', () => {
  test.each([
    ['is garbage', (file: string) => writeFileSync(file, 'garbage'.repeat(1_000))],
    [
      'is another database',
      (file: string) => {
        const db = new DatabaseSync(file);
        db.exec(
          'DROP TABLE plants; DROP TABLE checkpoint; CREATE TABLE other (a); PRAGMA application_id = 7',
        );
        db.close();
      },
    ],
    ['is cut short', (file: string) => truncateSync(file, 5_000)],
    [
      'has another version',
      (file: string) => {
        const db = new DatabaseSync(file);
        db.exec('PRAGMA user_version = 999');
        db.close();
      },
    ],
  ])('%s is made anew', (_, damage) => {
    const file = join(tempDir(), 'view.db');
    const first = view(file);
    first.apply(GARDEN, NONE);
    first.close();
    damage(file);
    const again = view(file);
    expect(again.replaced).toBeTruthy();
    expect(again.position).toBe(START);
    again.apply(GARDEN, NONE);
    expect(listOf(again, 'alice')).toHaveLength(3);
  });

  test('turns out to be damaged while it is read is replaced, and whoever follows is told', () => {
    const file = join(tempDir(), 'view.db');
    const first = view(file);
    const many = Array.from({ length: 2_000 }, (_, i) =>
      created(i + 1, i % 2 ? 'alice' : 'bob', `Fern ${i}`),
    );
    first.apply(many, NONE);
    first.close();
    const PAGE = 4096;
    const opened = openSync(file, 'r+');
    const behindTheRoots = 3 * PAGE;
    writeSync(opened, Buffer.alloc(fstatSync(opened).size - behindTheRoots, 255), 0, null, behindTheRoots);
    closeSync(opened);

    const damaged = view(file);
    let told = 0;
    damaged.onDamage = () => void told++;
    expect(damaged.position).toBe(2_000n);
    expect(() => listOf(damaged, 'alice')).toThrow(ViewDamaged);
    expect(told).toBe(1);
    expect(damaged.position).toBe(START);
    damaged.apply(many, NONE);
    damaged.save();
    expect(listOf(damaged, 'alice', { limit: 2_000 })).toHaveLength(1_000);
  });
});

test('a question about a position that the view has not reached is refused', () => {
  const planted = view();
  planted.apply(GARDEN, NONE);
  expect(() => planted.plantsOf('alice', { after: START, upTo: 5n, limit: 9 })).toThrow(ViewDamaged);
});

test('whatever the order of saves, restarts and resets, the view is the fold of the log', () => {
  const USERS = ['alice', 'bob', 'a-b', 'a-b/1', '%61', '🌱'];
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        user: fc.constantFrom(...USERS),
        name: fc.string(),
        tag: fc.option(fc.string(), { nil: undefined }),
      }),
    },
    { weight: 1, arbitrary: fc.constantFrom('save', 'crash', 'close', 'reset', 'ask') },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const file = join(tempDir(), 'view.db');
      let current = new PlantsByUser(file);
      current.reset(MARK);
      const log: RecordedEvent[] = [];
      const catchUp = (): void => current.apply(log.slice(Number(current.position)), NONE);
      const expectFold = (): void => {
        for (const user of USERS) {
          const own = log
            .map(({ data }) => data as { user: string; name: string; tag?: string })
            .filter((plant) => plant.user === user);
          expect(listOf(current, user)).toEqual(
            own.map(({ name, tag }) => (tag === undefined ? { name } : { name, tag })),
          );
        }
      };
      for (const one of steps) {
        if (typeof one === 'object') {
          log.push(created(log.length + 1, one.user, one.name, one.tag));
          catchUp();
        } else if (one === 'save') current.save();
        else if (one === 'reset') {
          current.reset(MARK);
          catchUp();
        } else if (one === 'ask') expectFold();
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

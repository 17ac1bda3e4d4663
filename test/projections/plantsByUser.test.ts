import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { InvalidEvent, type RecordedEvent, START } from '../../packages/event-log/src/eventStore.ts';
import { ViewBehind } from '../../packages/event-log/src/views/waiting.ts';
import { inFile } from '../../packages/event-log/test/views/toDoLists.ts';
import { PAGE_BYTES, PlantsByUser } from '../../projections/plantsByUser.ts';
import { created } from '../support/created.ts';

const NONE = new Set<string>();

/** A view with these events; the first ones are saved. */
function view(
  events: readonly RecordedEvent[] = [],
  saved = 0,
  file = join(tempDir(), 'view.db'),
): PlantsByUser {
  const opened = new PlantsByUser(file);
  onTestFinished(() => opened.close());
  opened.bind('log');
  opened.apply(events.slice(0, saved), NONE);
  opened.save();
  if (saved < events.length) opened.apply(events.slice(saved), NONE);
  return opened;
}

function listOf(of: PlantsByUser, user: string): unknown[] {
  const { plants } = of.readPage(user, { after: START, upTo: of.progress.position, limit: 500 });
  return JSON.parse(`[${plants}]`) as unknown[];
}

const PLANTS = [
  created(1, 'alice', 'Fern', 'indoor'),
  created(2, 'bob', 'Oak'),
  created(3, 'alice', 'Moss'),
  created(4, 'alice', 'Ivy', ''),
];

describe('plants, partly saved,', () => {
  test('are listed to their owner, oldest first, also after another one', () => {
    const filledView = view(PLANTS, 3);
    expect(listOf(filledView, 'alice')).toEqual([
      { name: 'Fern', tag: 'indoor' },
      { name: 'Moss' },
      { name: 'Ivy', tag: '' },
    ]);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }]);
    expect(listOf(filledView, 'carol')).toEqual([]);
    filledView.apply([created(5, 'bob', 'Elm')], NONE);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }, { name: 'Elm' }]);
  });

  test('are returned in pages that report whether more remain', () => {
    const filledView = view(PLANTS, 3);
    const pageOf = (after: bigint, limit: number, upTo = 4n) =>
      filledView.readPage('alice', { after, upTo, limit });
    const [fern, moss] = [{ name: 'Fern', tag: 'indoor' }, { name: 'Moss' }].map((one) =>
      JSON.stringify(one),
    );
    expect(pageOf(START, 2)).toEqual({ plants: `${fern},${moss}`, count: 2, last: 3n, hasMore: true });
    expect(pageOf(3n, 2)).toMatchObject({ count: 1, last: 4n, hasMore: false });
    expect(pageOf(START, 3)).toMatchObject({ count: 3, hasMore: false });
    expect(pageOf(START, 2, 3n)).toMatchObject({ count: 2, last: 3n, hasMore: false });
  });
});

test('plants are returned with their exact IDs on request, and without them after that', () => {
  const largest = 2n ** 63n - 1n;
  const long = 'ü'.repeat(2_000);
  const events = [
    created(1, 'alice', 'Fern', 'indoor', largest),
    created(2, 'bob', 'Oak'),
    created(3, 'alice', long, undefined, -1n),
  ];
  const filledView = view(events, 2);
  const query = { after: START, upTo: 3n, limit: 9 };
  const withIds = `{"id":${largest},"name":"Fern","tag":"indoor"},{"id":-1,"name":"${long}"}`;
  const withoutIds = `{"name":"Fern","tag":"indoor"},{"name":"${long}"}`;
  for (const [plants, page] of [
    [withIds, { ...query, withIds: true }],
    [withoutIds, query],
    [withIds, { ...query, withIds: true }],
  ] as const)
    expect(filledView.readPage('alice', page)).toMatchObject({ plants, count: 2, last: 3n });
});

describe('large plants, partly saved,', () => {
  const LARGEST_PLANT = 60 * 1024;
  const NAMES = Array.from({ length: 60 }, (_, i) => `${i} ${'ü'.repeat(i < 20 || i >= 50 ? 3 : 30_000)}`);
  const EVENTS = NAMES.flatMap((name, i) => [
    created(2 * i + 1, 'alice', name),
    created(2 * i + 2, 'bob', `Oak ${name}`),
  ]);

  test('are returned in pages that end by bytes', () => {
    const filledView = view(EVENTS, 71);
    const names: string[] = [];
    let pages = 0;
    let after = START;
    for (let hasMore = true; hasMore; pages++) {
      const page = filledView.readPage('alice', { after, upTo: 120n, limit: 60 });
      const bytes = Buffer.byteLength(page.plants);
      expect(bytes).toBeLessThan(PAGE_BYTES + LARGEST_PLANT);
      if (page.hasMore) expect(bytes).toBeGreaterThanOrEqual(PAGE_BYTES);
      names.push(...(JSON.parse(`[${page.plants}]`) as { name: string }[]).map(({ name }) => name));
      after = page.last;
      hasMore = page.hasMore;
    }
    expect(names).toEqual(NAMES);
    expect(pages).toBeGreaterThan(5);
  });

  test('are counted to find where the next page starts', async () => {
    const filledView = view(EVENTS, 71);
    const next = (limit: number) => filledView.nextPage('alice', { after: 1n, upTo: 119n, limit }, vi.fn());
    expect(await Promise.all([1, 58, 59, 60].map(next))).toEqual([3n, 117n, undefined, undefined]);
  });
});

test('a long list is counted in turns of the event loop', async () => {
  const events = Array.from({ length: 25_000 }, (_, i) => created(i + 1, 'alice', 'Fern'));
  const filledView = view([...events, created(25_001, 'bob', 'Oak')], 20_000);
  const turn = vi.fn(async () => {});
  const query = { after: START, upTo: 25_001n, limit: 24_999 };
  expect(await filledView.nextPage('alice', query, turn)).toBe(24_999n);
  expect(turn).toHaveBeenCalledTimes(2);
});

describe('a list that is being sent when the view', () => {
  const FULL_AT_4 = `CREATE TRIGGER full BEFORE UPDATE ON bookmark WHEN NEW.position = 4
    BEGIN SELECT RAISE(ROLLBACK, 'full'); END`;

  test.each([
    [
      'loses events by a failed commit',
      (filledView: PlantsByUser) => expect(() => filledView.save()).toThrow('full'),
    ],
    [
      'is discarded',
      (filledView: PlantsByUser) => expect(() => filledView.discard('damaged')).toThrow('rebuilt'),
    ],
    ['is reset', (filledView: PlantsByUser) => filledView.reset('log')],
  ])('%s does not end early, and continues once the events are applied again', async (_, lose) => {
    const file = join(tempDir(), 'view.db');
    const filledView = view(PLANTS.slice(0, 3), 3, file);
    inFile(file, FULL_AT_4);
    filledView.apply(PLANTS.slice(3), NONE);
    const query = { after: 3n, upTo: 4n, limit: 9 };
    await lose(filledView);
    expect(() => filledView.readPage('alice', query)).toThrow(ViewBehind);
    await expect(filledView.nextPage('alice', query, vi.fn())).rejects.toThrow(ViewBehind);
    if (!filledView.isOpen) await filledView.reset('log');
    filledView.apply([...PLANTS.slice(Number(filledView.progress.position)), created(5, 'bob', 'Elm')], NONE);
    expect(filledView.readPage('alice', query)).toMatchObject({ count: 1, last: 4n, hasMore: false });
  });
});

describe('an event that', () => {
  test.each([
    ['has another type', { type: 'PlantPruned' }],
    ['is a later one of its stream', { revision: 1n }],
    ['is of no plant: plantation', { stream: 'plantation-1' }],
    ['is of no plant: no slash', { stream: 'plant-alice' }],
    ['is of no plant: no user', { stream: 'plant-/1' }],
    ['is of no plant: no ID', { stream: 'plant-alice/' }],
    ['is of no plant: an ID with a leading zero', { stream: 'plant-alice/01' }],
    ['is of no plant: an ID beyond 64 bits', { stream: 'plant-alice/9223372036854775808' }],
  ])('%s is skipped', (_, other) => {
    const event = { ...created(1, 'alice', 'Fern'), ...other };
    const filledView = view([event, created(2, 'alice', 'Moss')]);
    expect(listOf(filledView, 'alice')).toEqual([{ name: 'Moss' }]);
    expect(filledView.progress.position).toBe(2n);
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
    expect(filledView.progress.position).toBe(1n);
    expect(listOf(filledView, 'bob')).toEqual([{ name: 'Oak' }]);
    filledView.apply([malformed, created(4, 'bob', 'Elm')], new Set(['event-2']));
    expect(filledView.progress.position).toBe(4n);
    expect(listOf(filledView, 'alice')).toEqual([]);
  });
});

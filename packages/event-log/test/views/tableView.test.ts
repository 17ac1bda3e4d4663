import {
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { CheckpointThread, type OpenFile } from '../../src/disk/checkpointThread.ts';
import { type RecordedEvent, START } from '../../src/eventStore.ts';
import { ViewBehind } from '../../src/views/waiting.ts';
import { failNextCommit, inFile, item, LOG_ID, NONE, savedLists, ToDoLists, toDoLists } from './toDoLists.ts';

const EVENTS = [
  item(1, 'home', 'Sweep'),
  item(2, 'work', 'Write'),
  item(3, 'home', 'Cook'),
  item(4, 'home', 'Mop', { type: 'ItemRenamed', id: '1' }),
  item(5, 'work', 'Read'),
  item(6, 'home', 'Wash'),
  item(7, 'work', '', { type: 'ItemRemoved', id: '2' }),
];
const IRON = item(8, 'home', 'Iron');

/** A copy of the file of an open view. */
function asAfterCrash(file: string): string {
  const copy = join(tempDir(), 'view.db');
  for (const part of ['', '-wal']) copyFileSync(`${file}${part}`, `${copy}${part}`);
  return copy;
}

/** Expects that a discarded view is empty, and can be rebuilt. */
function expectRebuildable(view: ToDoLists): void {
  expect(view.applied).toEqual({ logId: '', position: START, eventId: '' });
  expect(view.titlesOf('home')).toEqual([]);
  view.reset(LOG_ID);
  view.apply(EVENTS, NONE);
  view.save();
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
}

test.each([0, 3, 7])(
  'rows of which those of %i events are saved are read in key order, after a key, up to a limit, and by key',
  (saved) => {
    const view = toDoLists(undefined, EVENTS.slice(0, saved));
    view.save();
    view.apply(EVENTS.slice(saved), NONE);
    expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
    expect(view.titlesOf('work')).toEqual(['Read']);
    expect(view.titlesOf('garden')).toEqual([]);
    expect(view.positionsOf('home')).toEqual([1n, 3n, 6n]);
    expect(view.titlesOf('home', { limit: 2 })).toEqual(['Mop', 'Cook']);
    expect(view.titlesOf('home', { after: 1n, limit: 1 })).toEqual(['Cook']);
    expect(view.titlesOf('home', { after: 2n })).toEqual(['Cook', 'Wash']);
    expect(view.titlesOf('home', { after: 6n })).toEqual([]);
    expect([view.titleAt('home', 1n), view.titleAt('work', 5n)]).toEqual(['Mop', 'Read']);
    for (const [list, position] of [
      ['work', 2n],
      ['work', 1n],
      ['garden', 1n],
    ] as const)
      expect(view.titleAt(list, position)).toBeUndefined();
  },
);

test('reads more rows than a chunk has, and large rows', () => {
  const titles = Array.from({ length: 400 }, (_, i) => `${i} ${'ü'.repeat(i % 100 === 50 ? 9_000 : 5)}`);
  const events = titles.map((title, i) => item(i + 1, i % 2 ? 'work' : 'home', title));
  const view = toDoLists(savedLists(events));
  expect(view.titlesOf('home')).toEqual(titles.filter((_, i) => i % 2 === 0));
  expect(view.positionsOf('work')).toHaveLength(200);
});

test('texts with control characters or unpaired surrogates are read as SQLite stores them', () => {
  const file = savedLists([item(1, 'home\ud800', 'a\0\n\ud83d'), item(2, 'home\ufffd', 'b')]);
  const view = toDoLists(file, [item(3, 'home\udfff', 'c')]);
  expect(view.titlesOf('home\ufffd')).toEqual(['a\0\n\ufffd', 'b', 'c']);
  expect(view.titleAt('home\ufffd', 1n)).toBe('a\0\n\ufffd');
});

describe('a file that', () => {
  const OTHER_DATABASE =
    'DROP TABLE rows; DROP TABLE checkpoint; CREATE TABLE other (a); PRAGMA application_id = 8';

  test.each([
    ['is garbage', (file: string) => writeFileSync(file, 'garbage'.repeat(1_000))],
    ['is another database', (file: string) => inFile(file, OTHER_DATABASE)],
    ['is truncated', (file: string) => truncateSync(file, 5_000)],
    ['has another version', (file: string) => inFile(file, 'PRAGMA user_version = 999')],
    [
      'SQLite only reads, by its header',
      (file: string) => writeFileSync(file, readFileSync(file).fill(9, 18, 19)),
    ],
    ['has no rows', (file: string) => inFile(file, 'DROP TABLE rows')],
  ])('%s is replaced', (_, damage) => {
    const file = savedLists(EVENTS);
    damage(file);
    const view = toDoLists(file, EVENTS);
    expect(view.replaced).toBeTruthy();
    expect(view.titlesOf('home')).toHaveLength(3);
  });

  test('ends within a large row is discarded when this is read', () => {
    const file = savedLists([item(1, 'home', 'x'.repeat(20_000))]);
    const view = toDoLists(file);
    truncateSync(file, statSync(file).size - 3_000);
    expect(() => view.titlesOf('home')).toThrow(ViewBehind);
    expectRebuildable(view);
  });
});

describe('a row that', () => {
  const HOME = "list = 'home' AND position = 3";
  const DAMAGES = [
    ['has another title', `UPDATE rows SET title = 'Coo' WHERE ${HOME}`],
    ['was moved', `UPDATE rows SET position = 2 WHERE ${HOME}`],
    ['was moved to another list', `UPDATE rows SET list = 'work' WHERE ${HOME}`],
    [
      'was swapped with another one',
      'UPDATE rows SET (id, title, checksum) = (SELECT id, title, checksum FROM rows AS other WHERE other.position = 9 - rows.position) WHERE position IN (3, 6)',
    ],
    ['has another checksum', `UPDATE rows SET checksum = checksum + 1 WHERE ${HOME}`],
  ] as const;

  test.each(DAMAGES)('%s is not served: the view is discarded, and can be rebuilt', (_, sql) => {
    const file = savedLists(EVENTS);
    const view = toDoLists(file);
    const onLost = vi.fn();
    view.onLost = onLost;
    inFile(file, sql);
    expect(() => ['home', 'work'].map((list) => view.titlesOf(list))).toThrow(ViewBehind);
    expect(onLost).toHaveBeenCalledOnce();
    expect(view.replaced).toBe('a row has a wrong checksum');
    expectRebuildable(view);
  });

  test('has another title is not served by its key, nor changed by an event', () => {
    for (const use of [
      (view: ToDoLists) => view.titleAt('home', 3n),
      (view: ToDoLists) => view.apply([item(8, 'home', '', { type: 'ItemRemoved', id: '3' })], NONE),
    ]) {
      const file = savedLists(EVENTS);
      const view = toDoLists(file);
      inFile(file, DAMAGES[0][1]);
      expect(() => use(view)).toThrow(ViewBehind);
      expectRebuildable(view);
    }
  });
});

describe('a view whose file', () => {
  const remove = (file: string): void => rmSync(file);
  /** Of another view, as after a restore or a wrong `cp`. */
  const other = (): string => savedLists([item(1, 'home', 'x'.repeat(50_000))]);
  const CHANGES: [what: string, change: (file: string) => void][] = [
    ['is overwritten with that of another view', (file) => copyFileSync(other(), file)],
    ['is replaced by that of another view', (file) => renameSync(other(), file)],
    ['is removed', remove],
    ['is truncated', (file) => truncateSync(file, 5_000)],
    ['is emptied', (file) => truncateSync(file)],
    ['is written again', (file) => writeFileSync(file, readFileSync(file))],
  ];

  /** A view of a file that was last changed long ago, with an event that is not saved. */
  function opened(): { file: string; view: ToDoLists } {
    const file = savedLists(EVENTS);
    utimesSync(file, 0, 0);
    return { file, view: toDoLists(file, [IRON]) };
  }

  test.each(CHANGES)(
    '%s by another program is discarded when it is checked, and can be rebuilt',
    (_, change) => {
      const { file, view } = opened();
      view.check();
      const onLost = vi.fn();
      view.onLost = onLost;
      change(file);
      expect(() => view.check()).toThrow(ViewBehind);
      expect(onLost).toHaveBeenCalledOnce();
      expect(view.replaced).toContain('another program');
      expectRebuildable(view);
      view.close();
      expect(toDoLists(file).titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
    },
  );

  test.each(CHANGES)('%s by another program is not committed to', (_, change) => {
    const { file, view } = opened();
    change(file);
    expect(() => view.save()).toThrow(ViewBehind);
    expectRebuildable(view);
  });

  test.each([
    ['itself', undefined],
    ['a thread', new CheckpointThread()],
  ])('is changed by its own commits, and by moving its write-ahead log, by %s, stays', async (_, thread) => {
    let moved: Promise<unknown> | undefined;
    const checkpointer = thread && {
      checkpoint: (of: OpenFile) => {
        const moving = thread.checkpoint(of);
        moved = moving;
        return moving;
      },
    };
    const file = join(tempDir(), 'view.db');
    const view = ToDoLists.open(file, checkpointer);
    onTestFinished(() => thread?.close());
    onTestFinished(() => view.close());
    view.reset(LOG_ID);
    const large = 'x'.repeat(12 * 1024 * 1024);
    let longest = 0;
    for (let i = 1; i <= 9; i++) {
      view.apply([item(i, 'home', large, { id: '1', type: i === 1 ? 'ItemAdded' : 'ItemRenamed' })], NONE);
      view.save();
      view.check();
      await moved;
      longest = Math.max(longest, statSync(`${file}-wal`).size);
    }
    expect(view.replaced).toBeUndefined();
    expect(longest).toBeLessThan(5 * large.length);
  });
});

describe('a commit that fails', () => {
  /** A view with all events saved except the last one, whose commit has failed. */
  function failed(): { view: ToDoLists; onLost: () => void } {
    const view = toDoLists(undefined, EVENTS);
    view.save();
    view.apply([IRON], NONE);
    const onLost = vi.fn();
    view.onLost = onLost;
    failNextCommit(view.db);
    expect(() => view.save()).toThrow('database or disk is full');
    return { view, onLost };
  }

  test('takes the view back to its last checkpoint, and reports that', () => {
    const { view, onLost } = failed();
    expect(onLost).toHaveBeenCalledOnce();
    expect(view.applied).toEqual({ logId: LOG_ID, position: 7n, eventId: 'event-7' });
    expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
    expect(view.replaced).toBeUndefined();
  });

  test('is followed by a commit with all events, which are applied again', () => {
    const { view } = failed();
    view.apply([IRON], NONE);
    view.save();
    expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash', 'Iron']);
  });
});

test('a change for which the disk is full takes the view back to its last checkpoint', () => {
  const view = toDoLists(undefined, EVENTS);
  view.save();
  view.apply([IRON], NONE);
  const onLost = vi.fn();
  view.onLost = onLost;
  view.db.exec('PRAGMA max_page_count = 1');
  const large = item(9, 'home', 'x'.repeat(100_000));
  expect(() => view.apply([large], NONE)).toThrow('full');
  expect(onLost).toHaveBeenCalledOnce();
  expect([view.applied.position, view.titlesOf('home')]).toEqual([7n, ['Mop', 'Cook', 'Wash']]);
  view.db.exec('PRAGMA max_page_count = 1000');
  view.apply([IRON, large], NONE);
  view.save();
  expect(view.titlesOf('home')).toHaveLength(5);
});

test('another process that writes the file fails a change at once: no request waits for it', () => {
  const file = savedLists(EVENTS);
  const view = toDoLists(file);
  using other = new DatabaseSync(file);
  other.exec('BEGIN IMMEDIATE');
  expect(() => view.apply([IRON], NONE)).toThrow('database is locked');
  expect(view.db.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 0 });
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
  other.exec('ROLLBACK');
  view.apply([IRON], NONE);
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash', 'Iron']);
});

test('a view is closed even if its last commit fails', () => {
  const view = toDoLists(undefined, EVENTS);
  failNextCommit(view.db);
  expect(() => view.close()).toThrow('full');
  expect(view.db.isOpen).toBe(false);
});

test('after any changes, saves, failed saves, crashes, restarts and resets, the view is the fold of the log', () => {
  const LISTS = ['a', 'a-b', 'a-b/1', '%61', '\ufffd', '🌱'];
  const change = fc.record({
    list: fc.constantFrom(...LISTS),
    title: fc
      .string({ unit: 'binary', maxLength: 5 })
      .map((title) => title.toWellFormed().replaceAll('\0', '')),
    id: fc.integer({ min: 1, max: 6 }).map(String),
    type: fc.constantFrom('ItemAdded', 'ItemAdded', 'ItemRenamed', 'ItemRemoved'),
  });
  const step = fc.oneof(
    { weight: 8, arbitrary: change },
    {
      weight: 1,
      arbitrary: fc.constantFrom('save', 'fail to save', 'crash', 'close', 'reset', 'list'),
    },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let file = join(tempDir(), 'view.db');
      let view = ToDoLists.open(file);
      view.reset(LOG_ID);
      const log: RecordedEvent[] = [];
      const catchUp = (): void => view.apply(log.slice(Number(view.applied.position)), NONE);
      for (const one of [...steps, 'list', 'close', 'list', 'check'] as const) {
        if (typeof one === 'object') {
          const { list, title, ...rest } = one;
          log.push(item(log.length + 1, list, title, rest));
          catchUp();
        } else if (one === 'save') view.save();
        else if (one === 'fail to save') {
          log.push(item(log.length + 1, 'a', 'Late'));
          catchUp();
          failNextCommit(view.db);
          expect(() => view.save()).toThrow('full');
          catchUp();
        } else if (one === 'reset') {
          view.reset(LOG_ID);
          catchUp();
        } else if (one === 'list') {
          for (const list of LISTS) expect(view.titlesOf(list)).toEqual(foldOf(log, list));
        } else if (one === 'check') {
          expect(view.replaced).toBeUndefined();
        } else {
          if (one === 'crash') file = asAfterCrash(file);
          view.close();
          view = ToDoLists.open(file);
          catchUp();
        }
      }
      view.close();
    }),
    { numRuns: 15 },
  );
});

/** The titles of a list by definition. */
function foldOf(log: readonly RecordedEvent[], ofList: string): string[] {
  const items: { id: string; title: string }[] = [];
  for (const { type, data } of log) {
    const { list, id, title } = data as { list: string; id: string; title: string };
    const found = items.find((one) => one.id === id);
    if (list !== ofList) continue;
    if (type === 'ItemAdded' && !found) items.push({ id, title });
    if (type === 'ItemRenamed' && found) found.title = title;
    if (type === 'ItemRemoved' && found) items.splice(items.indexOf(found), 1);
  }
  return items.map(({ title }) => title);
}

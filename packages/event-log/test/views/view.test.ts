import { copyFileSync, linkSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { fileIdentity } from '../../../node/src/files/fileIdentity.ts';
import { WalThread } from '../../src/disk/walThread.ts';
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

/** Expects that a discarded view is not read, and can be rebuilt. */
async function expectRebuildable(view: ToDoLists): Promise<void> {
  expect(view.progress).toEqual({ logId: '', position: START, eventId: '' });
  expect(() => view.titlesOf('home')).toThrow(ViewBehind);
  await view.reset(LOG_ID);
  expect(view.titlesOf('home')).toEqual([]);
  view.apply(EVENTS, NONE);
  view.save();
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
}

test.each([0, 3, 7])('rows are read, of which those of %i events are saved', (saved) => {
  const view = toDoLists(undefined, EVENTS.slice(0, saved));
  view.save();
  view.apply(EVENTS.slice(saved), NONE);
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
  expect(view.titlesOf('work')).toEqual(['Read']);
  expect(view.titlesOf('garden')).toEqual([]);
});

describe('a file that', () => {
  const OTHER_DATABASE =
    'DROP TABLE items; DROP TABLE bookmark; CREATE TABLE other (a); PRAGMA application_id = 8';

  test.each([
    ['is garbage', (file: string) => writeFileSync(file, 'garbage'.repeat(1_000))],
    ['is another database', (file: string) => inFile(file, OTHER_DATABASE)],
    ['is truncated', (file: string) => truncateSync(file, 5_000)],
    ['has another version', (file: string) => inFile(file, 'PRAGMA user_version = 999')],
    [
      'SQLite only reads, by its header',
      (file: string) => writeFileSync(file, readFileSync(file).fill(9, 18, 19)),
    ],
    ['lacks a table', (file: string) => inFile(file, 'DROP TABLE items')],
  ])('%s is replaced', (_, damage) => {
    const file = savedLists(EVENTS);
    damage(file);
    const view = toDoLists(file, EVENTS);
    expect(view.replaced).toBeTruthy();
    expect(view.titlesOf('home')).toHaveLength(3);
  });

  test('ends within a large row is discarded when this is read', async () => {
    const file = savedLists([item(1, 'home', 'x'.repeat(20_000))]);
    const view = toDoLists(file);
    truncateSync(file, statSync(file).size - 3_000);
    expect(() => view.titlesOf('home')).toThrow(ViewBehind);
    await expectRebuildable(view);
  });
});

test.each([
  ['its own commits', undefined],
  ['a thread', new WalThread()],
])('a long write-ahead log is moved, by %s', async (_, walThread) => {
  const file = join(tempDir(), 'view.db');
  const view = new ToDoLists(file, walThread);
  onTestFinished(() => walThread?.close());
  onTestFinished(() => view.close());
  view.bind(LOG_ID);
  const large = 'x'.repeat(12 * 1024 * 1024);
  let longest = 0;
  for (let i = 1; i <= 15; i++) {
    await view.pause;
    view.apply([item(i, 'home', large, { id: '1', type: i === 1 ? 'ItemAdded' : 'ItemRenamed' })], NONE);
    view.save();
    longest = Math.max(longest, statSync(`${file}-wal`).size);
  }
  expect(longest).toBeLessThan(7 * large.length);
});

describe('a view whose file the thread of WAL checkpoints works on', () => {
  /** A view with a long write-ahead log, and with rows to scrub; the thread ends its work when the test resolves it. */
  async function busyView(work: 'walCheckpoint' | 'scrub') {
    const { promise, resolve: endWork } = Promise.withResolvers<void>();
    const walThread = { walCheckpoint: () => promise, scrub: () => promise.then(() => true) };
    const file = join(tempDir(), 'view.db');
    const view = new ToDoLists(file, walThread as unknown as WalThread, { onErasure: 'deleteRows' });
    onTestFinished(() => view.close());
    view.bind(LOG_ID);
    const length = work === 'walCheckpoint' ? 33 * 1024 * 1024 : 1;
    view.apply([item(1, 'home', 'x'.repeat(length))], NONE);
    if (work === 'scrub') view.erase([1n]);
    view.save();
    if (work === 'scrub') void view.scrub();
    linkSync(file, join(tempDir(), 'old.db')); // so that a new file has another inode
    return { view, file, endWork, identity: fileIdentity(file) };
  }

  test.each(['walCheckpoint', 'scrub'] as const)(
    'is replaced when the thread has ended its %s, and is not read until then',
    async (work) => {
      const { view, file, identity, endWork } = await busyView(work);
      expect(() => view.discard('damaged')).toThrow(ViewBehind);
      const resetting = view.reset(LOG_ID);
      for (let i = 0; i < 10; i++) await new Promise(setImmediate);
      expect(fileIdentity(file)).toBe(identity);
      expect(() => view.titlesOf('home')).toThrow(ViewBehind);
      expect(await view.scrub()).toBe(false);
      endWork();
      await resetting;
      expect(fileIdentity(file)).not.toBe(identity);
      await view.reset('other');
      expect(view.titlesOf('home')).toEqual([]);
    },
  );

  test('is not replaced if it is closed before that', async () => {
    const { view, file, identity, endWork } = await busyView('scrub');
    const resetting = view.reset('other');
    view.close();
    endWork();
    await expect(resetting).rejects.toThrow('is closed');
    expect(fileIdentity(file)).toBe(identity);
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

  test('takes the view back to its last bookmark, and reports that', () => {
    const { view, onLost } = failed();
    expect(onLost).toHaveBeenCalledOnce();
    expect(view.progress).toEqual({ logId: LOG_ID, position: 7n, eventId: 'event-7' });
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

test('a change for which the disk is full takes the view back to its last bookmark', () => {
  const view = toDoLists(undefined, EVENTS);
  view.save();
  view.apply([IRON], NONE);
  const onLost = vi.fn();
  view.onLost = onLost;
  view.db.exec('PRAGMA max_page_count = 1');
  const large = item(9, 'home', 'x'.repeat(100_000));
  expect(() => view.apply([large], NONE)).toThrow('full');
  expect(onLost).toHaveBeenCalledOnce();
  expect([view.progress.position, view.titlesOf('home')]).toEqual([7n, ['Mop', 'Cook', 'Wash']]);
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
  expect(() => view.apply([IRON], NONE)).toThrow(/another program has locked .*view\.db/);
  expect(view.db.prepare('PRAGMA busy_timeout').get()).toEqual({ timeout: 0 });
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
  other.exec('ROLLBACK');
  view.apply([IRON], NONE);
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash', 'Iron']);
});

test('an event whose position does not ascend is not applied, and those before it are', () => {
  const view = toDoLists(undefined, EVENTS.slice(0, 2));
  for (const next of [item(2, 'home', 'Iron'), item(1, 'home', 'Iron')])
    expect(() => view.apply([next], NONE)).toThrow(`the log has position ${next.position} after position 2`);
  expect(() => view.apply([item(4, 'home', 'Cook'), item(3, 'home', 'Iron')], NONE)).toThrow('position 3');
  expect([view.progress.position, view.titlesOf('home')]).toEqual([4n, ['Sweep', 'Cook']]);
});

test('a view is closed even if its last commit fails', () => {
  const view = toDoLists(undefined, EVENTS);
  const { db } = view;
  failNextCommit(db);
  expect(() => view.close()).toThrow('full');
  expect(db.isOpen).toBe(false);
});

test('after any changes, saves, failed saves, crashes, restarts and resets, the view is the fold of the log', async () => {
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
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      let file = join(tempDir(), 'view.db');
      let view = new ToDoLists(file);
      view.bind(LOG_ID);
      const log: RecordedEvent[] = [];
      const catchUp = (): void => view.apply(log.slice(Number(view.progress.position)), NONE);
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
          await view.reset(LOG_ID);
          catchUp();
        } else if (one === 'list') {
          for (const list of LISTS) expect(view.titlesOf(list)).toEqual(foldOf(log, list));
        } else if (one === 'check') {
          expect(view.replaced).toBeUndefined();
        } else {
          if (one === 'crash') file = asAfterCrash(file);
          view.close();
          view = new ToDoLists(file);
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

import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Problem, RecordedEvent } from '../../src/eventStore.ts';
import { ViewComparison } from '../../src/views/viewComparison.ts';
import { inFile, item, LOG_ID, NONE, savedLists, ToDoLists, toDoLists } from './toDoLists.ts';

const EVENTS = [
  item(1, 'home', 'Sweep'),
  item(2, 'work', 'Write'),
  item(3, 'home', 'Cook'),
  item(5, 'work', 'Read'),
  item(6, 'home', 'Mop', { type: 'ItemRenamed', id: '1' }),
  item(8, 'home', 'Wash'),
  item(9, 'work', '', { type: 'ItemRemoved', id: '2' }),
];

function open(file: string, skip = NONE): ViewComparison {
  const comparison = new ViewComparison({
    name: 'toDoLists',
    file,
    open: (draft) => new ToDoLists(draft),
    logId: LOG_ID,
    draftFile: join(tempDir(), 'draft.db'),
    skip,
  });
  onTestFinished(() => comparison[Symbol.dispose]());
  return comparison;
}

/** All differences of a view from a log. */
function differences(comparison: ViewComparison, events: readonly RecordedEvent[] = EVENTS): Problem[] {
  for (const event of events) comparison.apply(event);
  return [...comparison.problems()];
}

const ofRow = (position: bigint, problem: string): Problem => ({
  position,
  problem: `the view toDoLists ${problem}`,
});
const COOK = 'list home, position 3, id 3, title Cook';
const missingCook = ofRow(3n, `lacks a row that follows from the log: ${COOK}`);
const bookmarkAt = (position: bigint): Problem => ({
  position,
  problem: 'the bookmark of the view toDoLists names an event that the log does not have',
});

describe('a view that is the fold of its log', () => {
  test('has no differences at any bookmark, with later events in the log', () => {
    for (let seen = 0; seen <= EVENTS.length; seen++) {
      const comparison = open(savedLists(EVENTS.slice(0, seen)));
      expect(comparison.bookmark.position).toBe(EVENTS[seen - 1]?.position ?? 0n);
      expect(differences(comparison)).toEqual([]);
    }
  });

  test.each([
    ['processes events', (view: ToDoLists) => view.apply(EVENTS.slice(3), NONE)],
    ['is reset', (view: ToDoLists) => view.reset('other')],
  ])('has none if it %s meanwhile, and its server can write it', async (_, change) => {
    const file = join(tempDir(), 'view.db');
    const view = toDoLists(file, EVENTS.slice(0, 3));
    view.save();
    const comparison = open(file);
    await change(view);
    view.save();
    expect(differences(comparison)).toEqual([]);
  });

  test('has none if its file is replaced meanwhile', () => {
    const file = savedLists(EVENTS);
    const comparison = open(file);
    for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
    new ToDoLists(file).close();
    expect(differences(comparison)).toEqual([]);
  });

  test('has none for events to skip', () => {
    const skip = new Set(['event-3']);
    const file = join(tempDir(), 'view.db');
    const view = toDoLists(file);
    view.apply(EVENTS, skip);
    view.save();
    expect(differences(open(file, skip))).toEqual([]);
    expect(differences(open(file))).toEqual([missingCook]);
  });
});

describe('a view differs if', () => {
  const added = (list: string, position: number) =>
    `INSERT INTO items VALUES ('${list}', ${position}, '7', 'Rest')`;
  const surplus = (list: string, position: bigint) =>
    ofRow(
      position,
      `has a row that does not follow from the log: list ${list}, position ${position}, id 7, title Rest`,
    );

  test.for<[what: string, sql: string, ...problems: Problem[]]>([
    [
      'a row has another value',
      "UPDATE items SET title = 'Rest' WHERE position = 3",
      ofRow(3n, `has a wrong row: ${COOK.replace('Cook', 'Rest')}; according to the log, it has title Cook`),
    ],
    ['a row is missing', 'DELETE FROM items WHERE position = 3', missingCook],
    ['a row was added', added('home', 4), surplus('home', 4n)],
    ['a row was added for another list', added('garden', 3), surplus('garden', 3n)],
    ['a row is beyond the bookmark', added('work', 10), surplus('work', 10n)],
    [
      'a row has another key',
      'UPDATE items SET position = 4 WHERE position = 3',
      missingCook,
      ofRow(4n, `has a row that does not follow from the log: ${COOK.replace('position 3', 'position 4')}`),
    ],
    ['the bookmark is between two events', 'UPDATE bookmark SET position = 10', bookmarkAt(10n)],
    ['the bookmark has the ID of another event', "UPDATE bookmark SET event_id = 'e'", bookmarkAt(9n)],
  ])('%s', ([, sql, ...problems]) => {
    const file = savedLists(EVENTS);
    inFile(file, sql);
    expect(differences(open(file))).toEqual(problems);
  });

  test('the log has lost processed events', () => {
    const problems = differences(open(savedLists(EVENTS)), EVENTS.slice(0, 5));
    expect(problems).toEqual([
      bookmarkAt(9n),
      ofRow(2n, 'lacks a row that follows from the log: list work, position 2, id 2, title Write'),
      ofRow(8n, 'has a row that does not follow from the log: list home, position 8, id 8, title Wash'),
    ]);
  });
});

describe('a file', () => {
  const saved =
    (sql: string) =>
    (file: string): void => {
      new ToDoLists(file).close();
      inFile(file, sql);
    };

  test.for<[what: string, make: (file: string) => unknown, reason: RegExp]>([
    ['of garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage')), /not a database/],
    ['that is empty', (file) => writeFileSync(file, ''), /not this view/],
    ['of another program', (file) => inFile(file, 'CREATE TABLE music (title TEXT)'), /not this view/],
    ['of another version', saved('PRAGMA user_version = 7'), /version 7, not 1/],
    ['without its bookmark', saved('DELETE FROM bookmark'), /bookmark/],
  ])('%s is rejected with the reason, and not changed', ([, make, reason]) => {
    const file = join(tempDir(), 'view.db');
    make(file);
    const before = readFileSync(file);
    expect(() => open(file)).toThrow(reason);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test('that is damaged is named', () => {
    const file = savedLists(EVENTS);
    inFile(file, 'DROP TABLE items');
    const comparison = open(file);
    const problem = `the view ${file} is damaged: no such table: main.items`;
    expect(differences(comparison)).toEqual([{ problem }]);
    expect(comparison.isDamaged).toBe(true);
  });
});

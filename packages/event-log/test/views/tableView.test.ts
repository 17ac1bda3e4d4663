import { copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { tempDir } from '../../../../test/support/tempDir.ts';
import { type RecordedEvent, START } from '../../src/eventStore.ts';
import { ViewDamaged } from '../../src/views/view.ts';
import { inFile, item, LOG_ID, NONE, savedLists, ToDoLists, toDoLists } from './toDoLists.ts';

const EVENTS = [
  item(1, 'home', 'Sweep'),
  item(2, 'work', 'Write'),
  item(3, 'home', 'Cook'),
  item(4, 'home', 'Mop', { type: 'ItemRenamed', id: '1' }),
  item(5, 'work', 'Read'),
  item(6, 'home', 'Wash'),
  item(7, 'work', '', { type: 'ItemRemoved', id: '2' }),
];

/** A copy of the file of an open view. */
function asAfterCrash(file: string): string {
  const copy = join(tempDir(), 'view.db');
  for (const part of ['', '-wal']) copyFileSync(`${file}${part}`, `${copy}${part}`);
  return copy;
}

/** Expects that a damaged view is empty, and can be rebuilt. */
async function expectRebuildable(view: ToDoLists): Promise<void> {
  expect(view).toMatchObject({ unsaved: 0, applied: { logId: '', position: START } });
  await view.reset(LOG_ID);
  view.apply(EVENTS, NONE);
  await view.save();
  expect(view.titlesOf('home')).toEqual(['Mop', 'Cook', 'Wash']);
}

describe.each([
  ['in memory', 0, async () => {}],
  ['that are being saved', 0, async (view: ToDoLists) => void view.save()],
  ['that are saved', 0, (view: ToDoLists) => view.save()],
  ['in the file and changed in memory', 3, async () => {}],
])('rows %s', (_, saved, saveIfNeeded) => {
  async function filledLists(): Promise<ToDoLists> {
    const view = await toDoLists(undefined, EVENTS.slice(0, saved));
    await view.save();
    view.apply(EVENTS.slice(saved), NONE);
    await saveIfNeeded(view);
    return view;
  }

  test('are read in key order, after a key, until the reader has enough, and by key', async () => {
    const view = await filledLists();
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
  });
});

test('more rows than are read together, and large ones, are read', async () => {
  const titles = Array.from({ length: 400 }, (_, i) => `${i} ${'ü'.repeat(i % 100 === 50 ? 9_000 : 5)}`);
  const events = titles.map((title, i) => item(i + 1, i % 2 ? 'work' : 'home', title));
  const view = await toDoLists(await savedLists(events));
  expect(view.titlesOf('home')).toEqual(titles.filter((_, i) => i % 2 === 0));
  expect(view.positionsOf('work')).toHaveLength(200);
});

test('texts with control characters or unpaired surrogates are read as SQLite stores them', async () => {
  const file = await savedLists([item(1, 'home\ud800', 'a\0\n\ud83d'), item(2, 'home\ufffd', 'b')]);
  const view = await toDoLists(file, [item(3, 'home\udfff', 'c')]);
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
  ])('%s is replaced', async (_, damage) => {
    const file = await savedLists(EVENTS);
    damage(file);
    const view = await toDoLists(file, EVENTS);
    expect(view.replaced).toBeTruthy();
    expect(view.titlesOf('home')).toHaveLength(3);
  });

  test('ends within a large row is damaged when this is read', async () => {
    const file = await savedLists([item(1, 'home', 'x'.repeat(20_000))]);
    const view = await toDoLists(file);
    truncateSync(file, statSync(file).size - 3_000);
    expect(() => view.titlesOf('home')).toThrow(ViewDamaged);
  });
});

describe('a row that', () => {
  const HOME = "list = 'home' AND position = 3";
  const DAMAGES = [
    ['has another title', `UPDATE rows SET title = 'Coo' WHERE ${HOME}`],
    ['is missing', `DELETE FROM rows WHERE ${HOME}`],
    ['is missing at the start', 'DELETE FROM rows WHERE position = 1'],
    ['is missing at the end', "DELETE FROM rows WHERE list = 'home' AND position = 6"],
    ['was added', 'INSERT INTO rows SELECT list, 4, id, title, checksum, link FROM rows WHERE position = 3'],
    [
      'was added at the start',
      "INSERT INTO rows SELECT 'a', 1, id, title, checksum, link FROM rows WHERE position = 1",
    ],
    ['was moved', `UPDATE rows SET position = 2 WHERE ${HOME}`],
    ['was moved to another list', `UPDATE rows SET list = 'work' WHERE ${HOME}`],
    [
      'was swapped with another one',
      'UPDATE rows SET (id, title, checksum) = (SELECT id, title, checksum FROM rows AS other WHERE other.position = 9 - rows.position) WHERE position IN (3, 6)',
    ],
    ['has another checksum', `UPDATE rows SET checksum = checksum + 1 WHERE ${HOME}`],
    ['has another link', `UPDATE rows SET link = link + 1 WHERE ${HOME}`],
    ['has no head', 'DELETE FROM head'],
    ['was deleted with all others', 'DELETE FROM rows'],
  ] as const;
  const LISTS = ['', 'a', 'home', 'house', 'work', 'zoo'];

  test.each(DAMAGES)('%s is not served: the view is damaged, and can be rebuilt', async (_, sql) => {
    const file = await savedLists(EVENTS);
    const view = await toDoLists(file);
    const onDamage = vi.fn();
    view.onDamage = onDamage;
    inFile(file, sql); // what its thread finds of it is handled later
    const read = () => LISTS.map((list) => [view.titlesOf(list), view.positionsOf(list)]);
    expect(read).toThrow(ViewDamaged);
    expect(onDamage).toHaveBeenCalledOnce();
    await expectRebuildable(view);
  });

  test.each(DAMAGES)('%s is found after the start, before anyone reads it', async (_, sql) => {
    const file = await savedLists(EVENTS);
    inFile(file, sql);
    const view = await toDoLists(file);
    await expect.poll(() => view.replaced).toContain('checksums');
    expect(() => view.titlesOf('home')).toThrow(ViewDamaged);
  });

  test.each(DAMAGES.slice(0, 3))(
    '%s is found by a save that changes it, or the one before',
    async (_, sql) => {
      const file = await savedLists(EVENTS);
      const view = await toDoLists(file);
      inFile(file, sql);
      const removed = ['1', '3'].map((id, i) => item(8 + i, 'home', '', { type: 'ItemRemoved', id }));
      const changes = async () => {
        view.apply(removed, NONE);
        await view.save();
      };
      await expect(changes()).rejects.toThrow(ViewDamaged);
    },
  );
});

test('a save that is under way when the file is found damaged is rejected, and leaves nothing', async () => {
  const file = await savedLists(EVENTS);
  const view = await toDoLists(file, [item(8, 'home', 'Iron')]);
  writeFileSync(file, readFileSync(file).fill(255, 4096));
  const saving = expect(view.save()).rejects.toThrow(ViewDamaged);
  for (let i = 0; i < 10; i++) await null; // the thread has it, and its reply cannot be handled yet
  expect(() => view.titlesOf('home')).toThrow(ViewDamaged);
  await saving;
  await expectRebuildable(view);
});

test('after any changes, saves, restarts and resets, the view is the fold of the log', async () => {
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
      arbitrary: fc.constantFrom('save', 'start saving', 'fail to save', 'crash', 'close', 'reset', 'list'),
    },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
      let file = join(tempDir(), 'view.db');
      let view = await ToDoLists.open(file);
      await view.reset(LOG_ID);
      const log: RecordedEvent[] = [];
      const catchUp = (): void => view.apply(log.slice(Number(view.applied.position)), NONE);
      for (const one of [...steps, 'list', 'close', 'list', 'check'] as const) {
        if (typeof one === 'object') {
          const { list, title, ...rest } = one;
          log.push(item(log.length + 1, list, title, rest));
          catchUp();
        } else if (one === 'save') await view.save();
        else if (one === 'start saving') void view.save();
        else if (one === 'fail to save') {
          using other = new DatabaseSync(file);
          await view.save();
          other.exec('BEGIN IMMEDIATE');
          log.push(item(log.length + 1, 'a', 'Late'));
          catchUp();
          await expect(view.save()).rejects.toThrow('locked');
        } else if (one === 'reset') {
          await view.reset(LOG_ID);
          catchUp();
        } else if (one === 'list') {
          for (const list of LISTS) expect(view.titlesOf(list)).toEqual(foldOf(log, list));
        } else if (one === 'check') {
          expect(view.replaced).toBeUndefined();
        } else {
          if (one === 'crash') file = asAfterCrash(file);
          await view.close();
          view = await ToDoLists.open(file);
          catchUp();
        }
      }
      await view.close();
    }),
    { numRuns: 15, seed: 1 },
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

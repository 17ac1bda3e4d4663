import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test, vi } from 'vitest';
import { type EventLog, type RecordedEvent, StoreUnavailable } from '../../src/eventStore.ts';
import { rebuildView } from '../../src/views/rebuildView.ts';
import { item, LOG_ID, logOf, NONE, ToDoLists, toDoLists } from './toDoLists.ts';

type Options = Partial<Parameters<typeof rebuildView>[0]>;
type Progress = Parameters<NonNullable<Options['onProgress']>>[0];

const rebuild = (log: EventLog, file: string, options: Options = {}) =>
  rebuildView({
    log,
    open: (draft) => new ToDoLists(draft),
    file,
    skip: NONE,
    signal: new AbortController().signal,
    onProgress: () => {},
    ...options,
  });

const items = (count: number, first = 1): RecordedEvent[] =>
  Array.from({ length: count }, (_, i) => item(first + i, i % 2 ? 'work' : 'home', `${first + i}`));

const newFile = (): string => join(tempDir(), 'view.db');

/** The lists in a file, and its checkpoint. */
function contentOf(file: string) {
  const view = toDoLists(file);
  const { replaced, progress } = view;
  const content = { replaced, progress, home: view.titlesOf('home'), work: view.titlesOf('work') };
  view.close();
  return content;
}

const SIX_ITEMS = {
  replaced: undefined,
  progress: { logId: LOG_ID, position: 6n, eventId: 'event-6' },
  home: ['1', '3', '5'],
  work: ['2', '4', '6'],
};

/** The files beside the view. */
const leftovers = (file: string): string[] =>
  readdirSync(dirname(file)).filter((name) => name !== basename(file));

/** Writes a view that differs from the new one. */
const writeOld = (file: string): void => toDoLists(file, [item(1, 'home', 'Weed')]).close();

/** Writes a view and its write-ahead log, as after a kill. */
function writeAsAfterCrash(file: string): void {
  writeOld(file);
  const db = new DatabaseSync(file);
  db.exec("UPDATE items SET title = 'Nettle'");
  const files = [file, `${file}-wal`].map((name) => [name, readFileSync(name)] as const);
  db.close();
  for (const [name, bytes] of files) writeFileSync(name, bytes);
}

/** A view that `save` saves; it gets the number of the save, from 1. The first save is that of the reset. */
const savedBy = (save: (number: number, inFact: () => void, file: string) => void) => (file: string) => {
  const view = new ToDoLists(file);
  const inFact = view.save.bind(view);
  let saves = 0;
  vi.spyOn(view, 'save').mockImplementation(() => save(++saves, inFact, file));
  return view;
};

describe('a rebuilt view', () => {
  test('is the fold of its log, and bound to it', async () => {
    const file = newFile();
    expect(await rebuild(logOf([]), file)).toEqual({ events: 0 });
    expect(contentOf(file)).toMatchObject({ progress: { logId: LOG_ID, position: 0n }, home: [] });
    expect(await rebuild(logOf(items(6)), file)).toEqual({ events: 6 });
    expect(contentOf(file)).toEqual(SIX_ITEMS);
  });

  test('is complete up to its checkpoint if events are appended meanwhile', async () => {
    const [file, events] = [newFile(), items(1_100)];
    const reported: object[] = [];
    const onProgress = (progress: Progress): void => {
      if (reported.length === 0) events.push(...items(100, 1_101));
      reported.push(progress);
    };
    expect(await rebuild(logOf(events), file, { onProgress })).toEqual({ events: 1_200 });
    expect(contentOf(file).home).toHaveLength(600);
    expect(reported).toEqual([
      { events: 500, position: 500n, end: 1_100n },
      { events: 1_000, position: 1_000n, end: 1_100n },
      { events: 1_200, position: 1_200n, end: 1_200n },
    ]);
  });
});

test.for<[string, (file: string) => void]>([
  ['another view', writeOld],
  ['garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage'))],
  ['an empty file', (file) => writeFileSync(file, '')],
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
      writeOld(`${file}.new`);
      writeFileSync(`${file}.new-wal`, Buffer.alloc(10_000, 'garbage'));
    },
  ],
])('a rebuild replaces %s', async ([, make]) => {
  const file = newFile();
  make(file);
  await rebuild(logOf(items(6)), file);
  expect(leftovers(file)).toEqual([]);
  expect(contentOf(file)).toEqual(SIX_ITEMS);
});

const reason = new Error('stopped');
const failing = (at: number) =>
  savedBy((number, inFact) => {
    if (number === at) throw reason;
    inFact();
  });
const abortedWhen = (isTime: (progress: Progress) => boolean): Options => {
  const stopping = new AbortController();
  return {
    signal: stopping.signal,
    onProgress: (progress) => {
      if (isTime(progress)) stopping.abort(reason);
    },
  };
};

test.each<[string, Options, unknown]>([
  ['the rebuild is aborted before its start', { signal: AbortSignal.abort(reason) }, reason],
  ['the rebuild is aborted', abortedWhen(() => true), reason],
  ['the rebuild is aborted after the last event', abortedWhen(({ events }) => events === 1_100), reason],
  ['it cannot be reset', { open: failing(1) }, reason],
  ['its last events cannot be saved', { open: failing(2) }, reason],
  [
    'the log cannot be read',
    { log: { ...logOf(items(6)), readAll: () => Promise.reject(new StoreUnavailable('closed')) } },
    new StoreUnavailable('closed'),
  ],
])('the old view is kept, without leftover files, if %s', async (_, options, expected) => {
  const file = newFile();
  writeOld(file);
  const before = readFileSync(file);
  await expect(rebuild(logOf(items(1_100)), file, options)).rejects.toEqual(expected);
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(leftovers(file)).toEqual([]);
});

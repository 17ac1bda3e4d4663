import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import type { RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { ViewComparison } from '../../../event-log/src/views/viewComparison.ts';
import { MerkleTreeView } from '../../src/view/treeView.ts';

/** Two full tiles of level 0, and a partial one. */
const EVENTS = Array.from(
  { length: 600 },
  (_, i): RecordedEvent => ({
    position: BigInt(10 * (i + 1)), // with gaps, as in EventStoreDB
    stream: `list-${i}`,
    revision: 0n,
    id: `e${i}`,
    type: 'Added',
    data: { title: `${i}` },
    metadata: {},
  }),
);
const altered = ({ ...event }: RecordedEvent): RecordedEvent => ({ ...event, data: { title: 'altered' } });
const LEVEL_0 = 'level = 0 AND number';

/** A file with the tree of the first 580 events, changed by this SQL. */
function treeFile(sql = ''): string {
  const file = join(tempDir(afterAll), 'tree.db');
  const view = MerkleTreeView.open(file);
  view.bind('m');
  view.apply(EVENTS.slice(0, 580));
  view.close();
  using db = new DatabaseSync(file);
  db.exec(sql);
  return file;
}

/** The problems of the tree in a file, compared with a log of these events. */
function problemsOf(file: string, events = EVENTS, logId = 'm') {
  const open = (draft: string) => MerkleTreeView.open(draft);
  const draftFile = join(tempDir(), 'draft.db');
  const comparison = new ViewComparison({
    name: 'merkleTree',
    file,
    open,
    logId,
    draftFile,
    skip: new Set(),
  });
  onTestFinished(() => comparison[Symbol.dispose]());
  for (const event of events) comparison.apply(event);
  return [...comparison.problems()];
}

const notThere = (index: number) => ({
  event: { after: BigInt(10 * 256 * Math.floor(index / 256)), offset: index % 256 },
  problem: `the view merkleTree does not have the entry of this event, index ${index}`,
});

test('a tree that has the entries of the log up to its checkpoint has no problems', () => {
  expect(problemsOf(treeFile())).toEqual([]);
});

test.each([0, 255, 256, 511, 579])(
  'of altered events, only the first one is a problem, with its place: event %i',
  (i) => {
    const changed = EVENTS.map((event, at) => (at === i || at === 590 ? altered(event) : event));
    expect(problemsOf(treeFile(), changed)).toEqual([notThere(i)]);
    const twice = changed.with(i + 1, altered(EVENTS[i + 1] as RecordedEvent));
    expect(problemsOf(treeFile(), twice)).toEqual([notThere(i)]);
  },
);

test('an event that was removed from the log is found at its successor', () => {
  expect(problemsOf(treeFile(), EVENTS.toSpliced(300, 1))).toEqual([notThere(300)]);
});

test.each<[what: string, sql: string, problem: object]>([
  ['an altered entry', `UPDATE tiles SET hashes = zeroblob(8192) WHERE ${LEVEL_0} = 1`, notThere(256)],
  ['a missing tile', `DELETE FROM tiles WHERE ${LEVEL_0} = 1`, notThere(256)],
  [
    'an altered hash of level 1',
    'UPDATE tiles SET hashes = zeroblob(64) WHERE level = 1',
    { problem: 'the view merkleTree does not have the hashes of tile/1/000.p/2' },
  ],
  [
    'another position before a tile',
    `UPDATE tiles SET starts_after = 7 WHERE ${LEVEL_0} = 1`,
    { problem: 'the view merkleTree has a wrong position before tile/0/001' },
  ],
  [
    'more hashes',
    `UPDATE tiles SET hashes = CAST(hashes || zeroblob(32) AS BLOB) WHERE ${LEVEL_0} = 2`,
    { problem: 'the view merkleTree has hashes that do not follow from the log' },
  ],
  [
    'another level',
    'INSERT INTO tiles VALUES (2, 0, zeroblob(32), NULL)',
    { problem: 'the view merkleTree has hashes that do not follow from the log' },
  ],
])('a tree has one problem with %s', (_, sql, problem) => {
  expect(problemsOf(treeFile(sql))).toEqual([problem]);
});

test('a tree ahead of its log names an event that the log does not have', () => {
  expect(problemsOf(treeFile(), EVENTS.slice(0, 579))).toEqual([
    {
      position: 5_800n,
      problem: 'the bookmark of the view merkleTree names an event that the log does not have',
    },
    { problem: 'the view merkleTree has hashes that do not follow from the log' },
  ]);
});

test('a tree of another log, or a damaged file, is a problem', () => {
  expect(problemsOf(treeFile(), EVENTS, 'other')).toEqual([
    { problem: 'the view merkleTree belongs to another log: the next start rebuilds it' },
  ]);
  const file = treeFile('DROP TABLE tiles');
  expect(problemsOf(file)).toEqual([{ problem: `the view ${file} is damaged: no such table: main.tiles` }]);
  writeFileSync(file, 'x'.repeat(4_096));
  expect(() => problemsOf(file)).toThrow(/not a database/);
});

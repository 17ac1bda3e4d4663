import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { alterLog } from '@event-sourced/testing/logs';
import { beforeAll, describe, expect, test } from 'vitest';
import { printable } from '../../packages/transparency-log/src/notes/printable.ts';
import { VIEWS } from '../../src/views.ts';
import { failure, runCli, succeeded } from '../support/cli.ts';
import type { Plant } from '../support/service.ts';
import { usedDirectory } from '../support/usedDataDir.ts';

/** In log order, from position 1. */
const PLANTS: [user: string, id: bigint, plant: Plant][] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1n, { name: 'Oak' }],
  ['alice', 2n, { name: 'Moss' }],
  ['bob', 2n, { name: '', tag: '' }],
  ['alice', 3n, { name: 'unit \u001f, nul \0, quote ", backslash \\' }],
  ['bob', 3n, { name: 'emoji 🌱👩‍🌾', tag: '\ufeff' }],
  ['alice', -(2n ** 63n), { name: 'line \u2028 \r\n \x1b[31m' }],
  ['bob', 2n ** 63n - 1n, { name: 'unknown \ufffd' }],
  ['alice', 4n, { name: 'Ivy' }],
  ['bob', 4n, { name: 'Elm' }],
  ['alice', 5n, { name: 'Ash' }],
  ['bob', 5n, { name: 'Yew' }],
];
const SIZE = PLANTS.length;
const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** The log and view of the service, without tampering. */
const untouched = await usedDirectory(PLANTS);
/** The SIZE:ROOT that the auditor has kept. */
let expectedRoot: string;

beforeAll(async () => {
  const stdout = succeeded(await runCli(['verify'], { DATA_DIR: untouched.original }));
  expect(stdout).toMatch(/^problems +none$/m);
  expectedRoot = /^expect +(\S+)$/m.exec(stdout)?.[1] as string;
});

/** A copy of the data directory with one view, to be tampered with. */
function home() {
  const dir = untouched.copy();
  const view = join(dir, 'view.db');
  for (const { file } of Object.values(VIEWS)) if (file(dir) !== view) rmSync(file(dir));
  return { dir, log: join(dir, 'log.db'), view, tree: join(dir, 'merkleTree.db') };
}
type Home = ReturnType<typeof home>;

const verify = ({ dir }: Home, expect?: string) =>
  runCli(['verify', ...(expect === undefined ? [] : [`--expect=${expect}`])], { DATA_DIR: dir });

function inFile(file: string, sql: string): void {
  using db = new DatabaseSync(file);
  db.exec(sql);
}

/** Removes the constraints of the table: types and uniqueness. */
function withoutConstraints({ dir }: Home, sql: string): void {
  alterLog(
    dir,
    `ALTER TABLE events RENAME TO strict_events;
     CREATE TABLE events (position INTEGER PRIMARY KEY, id, stream, revision, type, data, metadata, recorded_at);
     INSERT INTO events SELECT * FROM strict_events;
     DROP TABLE strict_events;
     ${sql}`,
  );
}

/** Changes bytes in the file itself. */
function inBytes(file: string, from: string, to: string): void {
  const bytes = readFileSync(file);
  const [old, other] = [Buffer.from(from), Buffer.from(to)];
  expect(other).toHaveLength(old.length);
  let changed = 0;
  for (let at = bytes.indexOf(old); at !== -1; at = bytes.indexOf(old, at + 1), changed++)
    other.copy(bytes, at);
  expect(changed).toBe(1);
  writeFileSync(file, bytes);
}

const change = (column: string, from: string, to: string, position: number): string =>
  `UPDATE events SET ${column} = replace(${column}, '${from}', '${to}') WHERE position = ${position};`;

/** A valid event that no user caused. */
const forged = (position: number | bigint): string =>
  `INSERT INTO events VALUES (
    ${position}, '01980000-0000-7000-8000-000000000001', 'plant-mallory/1', 0, 'PlantCreated',
    '{"id":"1","user":"mallory","name":"Weed"}',
    '{"$correlationId":"c","schemaVersion":1,"occurredAt":"2026-03-01T12:00:00.000Z"}',
    '2026-03-01T12:00:00.000Z');`;

/** The problems on stdout; their number must be on stderr, in one line. */
async function problemsOf(home: Home, expected?: string): Promise<string[]> {
  const { code, stdout, stderr } = await verify(home, expected);
  const problems = stdout.split('\n').flatMap((line) => /^ {10}(.+)$/.exec(line)?.[1] ?? []);
  const counted = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  expect({ code, stderr }, stdout).toEqual({ code: 1, stderr: `verification failed: ${counted}\n` });
  return problems;
}

/** SQL for the log, or what else is done to the files. */
type Tampering = string | ((home: Home) => void);

function tampered(tampering: Tampering): Home {
  const copy = home();
  if (typeof tampering === 'string') alterLog(copy.dir, tampering);
  else tampering(copy);
  return copy;
}

const WEED = '{"name":"Weed"}';

const isNotValid = (position: number, part: 'data' | 'metadata'): string =>
  `position ${position}: its ${part} is not valid for a PlantCreated`;

const differs = (position: number, user: string, byLog: string, inView: string): string =>
  `position ${position}: the view plantsByUser has a wrong row: user ${user}, position ${position}, id ${PLANTS[position - 1]?.[1]}, plant ${inView}; according to the log, it has plant ${byLog}`;

const lacksRow = (position: number, user: string, plant: string): string =>
  `position ${position}: the view plantsByUser lacks a row that follows from the log: user ${user}, position ${position}, id 1, plant ${plant}`;

const hasRow = (position: number, user: string): string =>
  `position ${position}: the view plantsByUser has a row that does not follow from the log: user ${user}, position ${position}, id ${PLANTS[position - 1]?.[1]}, plant ${printable(JSON.stringify(PLANTS[position - 1]?.[2]))}`;

const unknownCheckpoint = (position: number): string =>
  `position ${position}: the checkpoint of the view plantsByUser names an event that the log does not have`;

const rootIsAnother = expect.stringMatching(
  new RegExp(
    `^(the first ${SIZE} events are not the expected events: their root is |the log has \\d+ events, fewer than the expected ${SIZE}$)`,
  ),
);

test.for<[what: string, tampering: Tampering, ...problems: string[]]>([
  [
    'a byte of a name changed in the file',
    ({ log }) => inBytes(log, '"name":"Fern"', '"name":"fern"'),
    differs(1, 'alice', '{"name":"fern","tag":"indoor"}', '{"name":"Fern","tag":"indoor"}'),
  ],
  ['an escape written differently', change('data', '\\u001f', '\\u001F', 5), isNotValid(5, 'data')],
  [
    'an additional member of the data',
    change('data', '"Moss"', '"Moss","note":"x"', 3),
    'position 3: its data has the unknown member "note"',
  ],
  [
    'an event removed in the middle',
    'DELETE FROM events WHERE position = 6',
    'position 7: position 6 is missing before it',
    hasRow(6, 'bob'),
  ],
  [
    'an event inserted in the middle, with the others renumbered',
    `UPDATE events SET position = -position WHERE position >= 6;
     UPDATE events SET position = 1 - position WHERE position < 0;
     ${forged(6)}`,
    lacksRow(6, 'mallory', WEED),
    unknownCheckpoint(12),
  ],
])('verify reports: %s', async ([, tampering, ...problems]) => {
  const home = tampered(tampering);
  expect(await problemsOf(home, expectedRoot)).toEqual(expect.arrayContaining([...problems, rootIsAnother]));
});

test.for<[what: string, tampering: Tampering]>([
  [
    'a plant with another name in the log and in the view',
    (home) => {
      alterLog(home.dir, change('data', '"Moss"', '"Weed"', 3));
      inFile(home.view, `UPDATE plants SET plant = '${WEED}' WHERE position = 3`);
    },
  ],
  [
    'an event removed from the log and the view, with the others renumbered',
    (home) => {
      const remove = (table: string) =>
        `DELETE FROM ${table} WHERE position = 3; UPDATE ${table} SET position = position - 1 WHERE position > 3;`;
      alterLog(home.dir, remove('events'));
      inFile(home.view, `${remove('plants')} UPDATE checkpoint SET position = position - 1`);
    },
  ],
  [
    'an event removed from the log, without a view',
    (home) => {
      alterLog(home.dir, 'DELETE FROM events WHERE position = 12');
      rmSync(home.view);
    },
  ],
])('verify reports only by the Merkle tree or with the expected root: %s', async ([, tampering]) => {
  const home = tampered(tampering);
  for (const problem of await problemsOf(home)) expect(problem).toContain('merkleTree');
  rmSync(home.tree);
  expect(await verify(home)).toMatchObject({ code: 0, stderr: '' });
  expect(await problemsOf(home, expectedRoot)).toEqual([rootIsAnother]);
});

test.for<[what: string, tampering: Tampering, problem: string]>([
  [
    'a byte of an entry of the tree changed',
    ({ tree }) =>
      inFile(
        tree,
        "UPDATE tiles SET hashes = CAST(substr(hashes, 1, 32) || x'0000000000000000' || substr(hashes, 41) AS BLOB) WHERE level = 0",
      ),
    'position 2: the view merkleTree does not have the entry of this event',
  ],
  [
    'a tile of the tree at another position',
    ({ tree }) => inFile(tree, 'UPDATE tiles SET starts_after = 1'),
    `the view merkleTree has a wrong position before tile/0/000.p/${SIZE}`,
  ],
])('verify reports, although the root of the events is the same: %s', async ([, tampering, problem]) => {
  expect(await problemsOf(tampered(tampering), expectedRoot)).toEqual([problem]);
});

describe('the expected root', () => {
  test('may be in upper case; that of the empty log always matches', async () => {
    for (const one of [expectedRoot.toUpperCase(), `0:${EMPTY_ROOT}`])
      expect(await verify(home(), one)).toMatchObject({ code: 0, stderr: '' });
  });

  const MALFORMED = ['', '12', '12:', ':', 'x', '12:12', '-1:ROOT', '1.0:ROOT', '12:ROOT0', ' 12:ROOT'];
  test.for([...MALFORMED, '12:ROOT\n', '12 ROOT'])(
    '%j is rejected in one line, and the log is not read',
    async (pattern) => {
      const expected = pattern.replace('ROOT', EMPTY_ROOT);
      const rule =
        '--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits, or a file with a checkpoint';
      expect(await verify(home(), expected)).toEqual(
        failure(`${rule}; the file ${JSON.stringify(expected)} does not exist.`),
      );
    },
  );
});

test.each(['id', 'stream', 'type', 'data', 'metadata'])(
  'verify fails if %s is stored as a BLOB, and reports the position in one line',
  async (column) => {
    const sql = `UPDATE events SET ${column} = CAST(${column} AS BLOB) WHERE position = 3`;
    const home = tampered((copy) => withoutConstraints(copy, sql));
    expect(await verify(home, expectedRoot)).toEqual(
      failure('the log is damaged: the row at position 3 is damaged'),
    );
  },
);

import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, test } from 'vitest';
import { PLANTS_BY_USER } from '../../projections/plantsFormat.ts';
import type { Row } from '../../projections/viewProtocol.ts';
import { rootOfLog } from '../../src/audit/proof.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { printable } from '../../src/transparency/printable.ts';
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

type Home = { dir: string; log: string; view: string; tree: string };

/** A copy of the data directory, to be tampered with. */
function home(): Home {
  const dir = untouched.copy();
  return { dir, log: join(dir, 'log.db'), view: join(dir, 'view.db'), tree: join(dir, 'merkleTree.db') };
}

const verify = ({ dir }: Home, expect?: string) =>
  runCli(['verify', ...(expect === undefined ? [] : [`--expect=${expect}`])], { DATA_DIR: dir });

/** Without the triggers, which are then restored, like an intruder. */
function inLog({ log }: Home, sql: string): void {
  using db = new DatabaseSync(log);
  const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
  for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
  db.exec(sql);
  for (const { sql } of triggers) db.exec(`${sql}`);
}

function inView({ view }: Home, ...statements: string[]): void {
  using db = new DatabaseSync(view);
  for (const sql of statements) db.exec(sql);
}

/** The same, with the numbers and checksums that the service would have saved. */
function inViewConsistently({ view }: Home, sql: string): void {
  using db = new DatabaseSync(view);
  db.exec(sql);
  const rows = db.prepare('SELECT user, position, id, plant FROM plants ORDER BY user, position');
  rows.setReturnArrays(true);
  const plants = rows.all() as unknown as Row[];
  db.exec(PLANTS_BY_USER.empty);
  PLANTS_BY_USER.insert(db)(plants);
}

function inTree({ tree }: Home, sql: string): void {
  using db = new DatabaseSync(tree);
  db.exec(sql);
}

/** Removes the constraints of the table: types and uniqueness. */
function withoutConstraints(home: Home, sql: string): void {
  inLog(
    home,
    `ALTER TABLE events RENAME TO strict_events;
     CREATE TABLE events (position INTEGER PRIMARY KEY, id, stream, revision, type, data, metadata, recorded_at);
     INSERT INTO events SELECT * FROM strict_events;
     DROP TABLE strict_events;
     ${sql}`,
  );
}

/** Changes bytes in the file itself. */
function inBytes(file: string, from: string | Buffer, to: string | Buffer): void {
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

const renumber = (from: number): string =>
  `UPDATE events SET position = -position WHERE position >= ${from};
   UPDATE events SET position = 1 - position WHERE position < 0;`;

const swap = (one: number, other: number): string =>
  `UPDATE events SET position = 1000 WHERE position = ${one};
   UPDATE events SET position = ${one} WHERE position = ${other};
   UPDATE events SET position = ${other} WHERE position = 1000;`;

/** A valid event that no user caused: mallory's plant 1, or another. */
const forged = (
  position: number | bigint,
  { user = 'mallory', id = 1, revision = 0n, type = 'PlantCreated' } = {},
): string =>
  `INSERT INTO events VALUES (
    ${position}, '01980000-0000-7000-8000-00000000000${id}', 'plant-${user}/${id}', ${revision}, '${type}',
    '{"id":"${id}","user":"${user}","name":"Weed"}',
    '{"$correlationId":"c","schemaVersion":1,"occurredAt":"2026-03-01T12:00:00.000Z"}',
    '2026-03-01T12:00:00.000Z');`;

/** The columns of an event that are in the root, as text. */
function partsOf(log: string, position: number): Record<string, string> {
  using db = new DatabaseSync(log, { readOnly: true });
  const row = db
    .prepare('SELECT id, stream, type, data, metadata FROM events WHERE position = ?')
    .get(position);
  return row as Record<string, string>;
}

/** SIZE:ROOT, as printed by verify. */
async function rootIn(file: string): Promise<string> {
  const log = openLogReader(file, { exact: true });
  const { size, root } = await rootOfLog(log, new AbortController().signal);
  await log.close();
  return `${size}:${root}`;
}

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
  if (typeof tampering === 'string') inLog(copy, tampering);
  else tampering(copy);
  return copy;
}

const WEED = '{"name":"Weed"}';

const differs = (position: number, byLog: string, inView: string): string =>
  `position ${position}: by the log it is ${byLog}, in the view ${inView}`;

const onlyInLog = (position: number, user: string): string =>
  `position ${position}: the log has a plant of "${user}" that the view does not have`;

const plantAt = (position: number): string => JSON.stringify(PLANTS[position - 1]?.[2]);

const onlyInView = (position: number, user: string, plant = plantAt(position)): string =>
  `position ${position}: the view has a plant of "${user}" that the log does not have: ${printable(plant)}`;

const beyondCheckpoint = (position: number, user: string, plant = plantAt(position)): string =>
  `position ${position}: the view has a plant of "${user}" beyond its checkpoint: ${plant}`;

const unknownCheckpoint = (position: number): string =>
  `position ${position}: the checkpoint of the view names an event that the log does not have`;

const WITHOUT_CHECKSUMS =
  'the view FILE is damaged: its rows do not have the checksums that were saved with them';

const rootIsAnother = expect.stringMatching(
  new RegExp(
    `^(the first ${SIZE} events are not the expected ones: their root is |the log has \\d+ events, fewer than the expected ${SIZE}$)`,
  ),
);

describe('verify reports:', () => {
  test.for<[what: string, tampering: Tampering, ...problems: (string | RegExp)[]]>([
    [
      'a byte of a name changed in the file',
      ({ log }) => inBytes(log, '"name":"Fern"', '"name":"fern"'),
      differs(1, '{"name":"fern","tag":"indoor"}', '{"name":"Fern","tag":"indoor"}'),
    ],
    [
      'an event removed in the middle',
      'DELETE FROM events WHERE position = 6',
      'position 7: position 6 is missing before it',
      onlyInView(6, 'bob'),
    ],
    [
      'two events of one user swapped',
      swap(9, 11),
      differs(9, '{"name":"Ash"}', '{"name":"Ivy"}'),
      differs(11, '{"name":"Ivy"}', '{"name":"Ash"}'),
    ],
    [
      'an event inserted in the middle, with the others renumbered',
      `${renumber(6)} ${forged(6)}`,
      onlyInLog(6, 'mallory'),
      unknownCheckpoint(12),
    ],
    [
      'an event in an existing stream',
      (home) =>
        withoutConstraints(
          home,
          `${change('data', '"id":"5"', '"id":"4"', 11)} ${change('stream', '/5', '/4', 11)}`,
        ),
      /^position (9|11): revision 0 of its stream is also at position (11|9)$/,
    ],
  ])('%s', async ([, tampering, ...problems]) => {
    const home = tampered(tampering);
    const expected = problems.map((one) => (typeof one === 'string' ? one : expect.stringMatching(one)));
    expect(await problemsOf(home, expectedRoot)).toEqual(
      expect.arrayContaining([...expected, rootIsAnother]),
    );
  });
});

describe('verify reports in the view:', () => {
  test.for<[what: string, sql: string, ...problems: string[]]>([
    [
      'a row moved to another user',
      "UPDATE plants SET user = 'bob' WHERE position = 3",
      onlyInLog(3, 'alice'),
      onlyInView(3, 'bob'),
    ],
    [
      'a checkpoint moved back',
      'UPDATE checkpoint SET position = 10',
      unknownCheckpoint(10),
      beyondCheckpoint(11, 'alice'),
      beyondCheckpoint(12, 'bob'),
    ],
    ['a changed number', 'UPDATE plants SET number = 7 WHERE position = 3', WITHOUT_CHECKSUMS],
  ])('%s', async ([, sql, ...problems]) => {
    const home = tampered((home) => inView(home, sql));
    expect(await problemsOf(home)).toEqual(problems.map((problem) => problem.replace('FILE', home.view)));
  });
});

describe('verify reports only by the Merkle tree or with the expected root:', () => {
  test.for<[what: string, tampering: Tampering]>([
    [
      'a plant with another name in the log and in the view',
      (home) => {
        inLog(home, change('data', '"Moss"', '"Weed"', 3));
        inViewConsistently(home, `UPDATE plants SET plant = '${WEED}' WHERE position = 3`);
      },
    ],
    [
      'an event removed from the log and the view, with the others renumbered',
      (home) => {
        const remove = (table: string) =>
          `DELETE FROM ${table} WHERE position = 3; UPDATE ${table} SET position = position - 1 WHERE position > 3;`;
        inLog(home, remove('events'));
        inViewConsistently(home, `${remove('plants')} UPDATE checkpoint SET position = position - 1`);
      },
    ],
    [
      'the last event removed from the log and the view',
      (home) => {
        inLog(home, 'DELETE FROM events WHERE position = 12');
        inViewConsistently(
          home,
          `DELETE FROM plants WHERE position = 12;
           UPDATE checkpoint SET position = 11, event_id = '${partsOf(home.log, 11).id}'`,
        );
      },
    ],
  ])('%s', async ([, tampering]) => {
    const home = tampered(tampering);
    for (const problem of await problemsOf(home)) expect(problem).toContain('Merkle tree');
    rmSync(home.tree);
    expect(await verify(home)).toMatchObject({ code: 0, stderr: '' });
    expect(await problemsOf(home, expectedRoot)).toEqual([rootIsAnother]);
  });
});

test('the root changes with each byte of an event that is changed in the file', async () => {
  const { log } = home();
  const bytes = readFileSync(log);
  const { id, stream, type, data, metadata } = partsOf(log, 6);
  const event = Buffer.from(`${id}${stream}${type}${data}${metadata}`); // in the file, without the revision 0
  const start = bytes.indexOf(event);
  expect(start).toBeGreaterThan(0);
  const undetected: number[] = [];
  for (let at = start; at < start + event.length; at++) {
    writeFileSync(log, bytes.with(at, bytes.readUInt8(at) ^ 1));
    if ((await rootIn(log)) === expectedRoot) undetected.push(at - start);
  }
  expect(undetected).toEqual([]);
  writeFileSync(log, bytes);
  expect(await rootIn(log)).toBe(expectedRoot);
});

const hashOf = (level: number, at: number, byte: number): string =>
  `UPDATE tiles SET hashes = CAST(substr(hashes, 1, ${at}) || x'${byte.toString(16).padStart(2, '0').repeat(8)}' || substr(hashes, ${at + 9}) AS BLOB)
   WHERE level = ${level}`;

const anotherLeaf = (position: number): string =>
  `position ${position}: the Merkle tree has another leaf for it, or none`;
const UNKNOWN_CHECKPOINT =
  'the checkpoint of the Merkle tree names an event that is not the last of its leaves';

describe('verify reports in the Merkle tree:', () => {
  test.for<[what: string, tampering: Tampering, ...problems: string[]]>([
    ['a byte of a leaf changed', (home) => inTree(home, hashOf(0, 32, 0)), anotherLeaf(2)],
    [
      'a leaf added',
      (home) => inTree(home, 'UPDATE tiles SET hashes = CAST(hashes || zeroblob(32) AS BLOB)'),
      'the Merkle tree has 13 leaves, the log only 12 events',
    ],
    ['all its tiles removed', (home) => inTree(home, 'DELETE FROM tiles'), UNKNOWN_CHECKPOINT],
    [
      'a tile at another position',
      (home) => inTree(home, 'UPDATE tiles SET starts_after = 1'),
      'position 1: the Merkle tree has its tile at another position',
    ],
  ])('%s', async ([, tampering, ...problems]) => {
    const home = tampered(tampering);
    expect(await problemsOf(home)).toEqual(problems.map((problem) => problem.replace('FILE', home.tree)));
  });
});

describe('the expected root', () => {
  test.for([
    ['of a smaller size', '11:ROOT', 'the first 11 events are not the expected ones: their root is '],
    ['of a larger size', '13:ROOT', 'the log has 12 events, fewer than the expected 13'],
  ] as const)('%s does not match', async ([, expected, problem]) => {
    const withRoot = (text: string) => text.replace('ROOT', `${expectedRoot.split(':')[1]}`);
    expect(await problemsOf(home(), withRoot(expected))).toEqual([
      expect.stringMatching(`^${withRoot(problem)}`),
    ]);
  });

  test.for(['', '12', 'x', '-1:ROOT', '12:ROOT0', '12:ROOT\n'])(
    '%j is rejected in one line, and the log is not read',
    async (pattern) => {
      const refused = await verify(home(), pattern.replace('ROOT', EMPTY_ROOT));
      expect(refused).toEqual(
        failure('--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits, or a file.'),
      );
    },
  );
});

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, test } from 'vitest';
import { rootOfLog } from '../../src/audit/proof.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { runCli } from '../support/cli.ts';
import { type Plant, startService } from '../support/service.ts';
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
  const { stdout, ...ended } = await runCli(['verify'], { DATA_DIR: untouched.original });
  expect(ended).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^problems +none$/m);
  expectedRoot = /^expect +(\S+)$/m.exec(stdout)?.[1] as string;
});

type Home = { dir: string; log: string; view: string };

/** A copy of the data directory, to be tampered with. */
function home(): Home {
  const dir = untouched.copy();
  return { dir, log: join(dir, 'log.db'), view: join(dir, 'view.db') };
}

type Ended = { code: number | null; stdout: string; stderr: string };

const verify = ({ dir }: Home, expect?: string): Promise<Ended> =>
  runCli(['verify', ...(expect === undefined ? [] : [`--expect=${expect}`])], { DATA_DIR: dir });

/** Drops the triggers first, like an intruder. */
function inLog({ log }: Home, sql: string): void {
  using db = new DatabaseSync(log);
  db.exec('DROP TRIGGER events_are_never_updated; DROP TRIGGER events_are_never_deleted');
  db.exec(sql);
}

/** Sets the numbers of plants by their order. */
const RENUMBER = `UPDATE plants SET number = (
  SELECT count(*) FROM plants AS other WHERE other.user = plants.user AND other.position <= plants.position)`;

function inView({ view }: Home, ...statements: string[]): void {
  using db = new DatabaseSync(view);
  for (const sql of statements) db.exec(sql);
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

/** Offsets of the bytes of one column in the file; the columns are adjacent, without the revision 0. */
function offsetsOf(
  file: Buffer,
  { id, stream, type, data, metadata }: Record<string, string>,
  part: string,
): number[] {
  const event = Buffer.from(`${id}${stream}${type}${data}${metadata}`);
  const start = file.indexOf(event);
  expect(start).toBeGreaterThan(0);
  const [length, before] = [Buffer.byteLength(part), event.indexOf(part)];
  return Array.from({ length }, (_, i) => start + before + i);
}

/** SIZE:ROOT, as printed by verify. */
async function rootIn(file: string): Promise<string> {
  const log = openLogReader(file, { exact: true });
  try {
    const { size, root } = await rootOfLog(log, new AbortController().signal);
    return `${size}:${root}`;
  } finally {
    await log.close();
  }
}

/** The problems on stdout; their number must be on stderr, in one line. */
function problemsIn({ code, stdout, stderr }: Ended): string[] {
  const problems = stdout.split('\n').flatMap((line) => /^ {10}(.+)$/.exec(line)?.[1] ?? []);
  const counted = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  expect({ code, stderr }, stdout).toEqual({
    code: 1,
    stderr: `verification failed: ${counted}\n`,
  });
  return problems;
}

const problemsOf = async (home: Home, expect?: string): Promise<string[]> =>
  problemsIn(await verify(home, expect));

/** At least these problems. */
const includingProblems = (...problems: RegExp[]) =>
  expect.arrayContaining(problems.map((problem) => expect.stringMatching(problem)));

const rootIsAnother = expect.stringMatching(
  new RegExp(
    `^(the first ${SIZE} events are not the expected ones: their root is |the log has \\d+ events, fewer than the expected ${SIZE}$)`,
  ),
);

describe('verify reports, with the expected root or without it:', () => {
  test.for<[what: string, tamper: (home: Home) => void, ...problems: RegExp[]]>([
    [
      'a byte of a name changed in the file',
      ({ log }) => inBytes(log, '"name":"Fern"', '"name":"fern"'),
      /^position 1: by the log it is \{"name":"fern","tag":"indoor"\}, in the view \{"name":"Fern","tag":"indoor"\}$/,
    ],
    [
      'a byte of a name changed to invalid UTF-8',
      ({ log }) => inBytes(log, '"name":"Oak"', Buffer.from('"name":"O\xe4k"', 'latin1')),
      /^position 2: /,
    ],
    [
      'an escape written differently',
      (home) => inLog(home, change('data', '\\u001f', '\\u001F', 5)),
      /^position 5: its data is not that of a PlantCreated$/,
    ],
    [
      'a letter written as an escape',
      (home) => inLog(home, change('data', '"Moss"', '"\\u004doss"', 3)),
      /^position 3: its data is not that of a PlantCreated$/,
    ],
    [
      'an additional space in the JSON',
      (home) => inLog(home, change('metadata', '"schemaVersion":1', '"schemaVersion": 1', 3)),
      /^position 3: its metadata is not that of a PlantCreated$/,
    ],
    [
      'a line break after the data',
      (home) => inLog(home, 'UPDATE events SET data = data || char(10) WHERE position = 4'),
      /^position 4: its data is not that of a PlantCreated$/,
    ],
    [
      'a NUL and text after it',
      (home) => inLog(home, "UPDATE events SET data = data || char(0) || 'x' WHERE position = 4"),
      /^position 4: its data is not that of a PlantCreated$/,
    ],
    [
      'a duplicate key',
      (home) => inLog(home, change('data', '"name":"Oak"', '"name":"Elm","name":"Oak"', 2)),
      /^position 2: its data is not that of a PlantCreated$/,
    ],
    [
      'an event removed in the middle',
      (home) => inLog(home, 'DELETE FROM events WHERE position = 6'),
      /^position 7: position 6 is missing before it$/,
      /^position 6: the view has a plant of "bob" that the log does not have: /,
    ],
    [
      'events removed at the start',
      (home) => inLog(home, 'DELETE FROM events WHERE position <= 2'),
      /^position 3: positions 1 to 2 are missing before it$/,
      /^position 1: the view has a plant of "alice" that the log does not have: /,
      /^position 2: the view has a plant of "bob" that the log does not have: /,
    ],
    [
      'an event removed at the end',
      (home) => inLog(home, `DELETE FROM events WHERE position = ${SIZE}`),
      /^position 12: the checkpoint of the view names an event that the log does not have$/,
      /^position 12: the view has a plant of "bob" that the log does not have: /,
    ],
    [
      'all events removed',
      (home) => inLog(home, 'DELETE FROM events'),
      /^position 12: the checkpoint of the view names an event that the log does not have$/,
      ...PLANTS.map(
        (_, i) =>
          new RegExp(`^position ${i + 1}: the view has a plant of "\\w+" that the log does not have: `),
      ),
    ],
    [
      'two events of one user swapped',
      (home) => inLog(home, swap(9, 11)),
      /^position 9: by the log it is \{"name":"Ash"\}, in the view \{"name":"Ivy"\}$/,
      /^position 11: by the log it is \{"name":"Ivy"\}, in the view \{"name":"Ash"\}$/,
    ],
    [
      'two events of two users swapped',
      (home) => inLog(home, swap(3, 10)),
      /^position 3: the log has a plant of "bob" that the view does not have$/,
      /^position 10: the log has a plant of "alice" that the view does not have$/,
    ],
    [
      'an event inserted in the middle, with the others renumbered',
      (home) => inLog(home, `${renumber(6)} ${forged(6)}`),
      /^position 6: the log has a plant of "mallory" that the view does not have$/,
      /^position 12: the checkpoint of the view names an event that the log does not have$/,
    ],
    ['an event at position 0', (home) => inLog(home, forged(0)), /^position 0: positions start at 1$/],
    [
      'an event at a negative position',
      (home) => inLog(home, forged(-5)),
      /^position -5: positions start at 1$/,
    ],
    [
      'an event at the lowest possible position',
      (home) => inLog(home, forged(-(2n ** 63n))),
      /^position -9223372036854775808: positions start at 1$/,
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
    [
      'another revision',
      (home) => inLog(home, 'UPDATE events SET revision = 1 WHERE position = 3'),
      /^position 3: revision 0 of its stream is not before it$/,
      /^position 3: it is a PlantCreated at revision 1 of its stream$/,
    ],
    [
      'the highest possible revision',
      (home) => inLog(home, 'UPDATE events SET revision = 9223372036854775807 WHERE position = 3'),
      /^position 3: revision 9223372036854775806 of its stream is not before it$/,
    ],
    [
      'an unknown type',
      (home) => inLog(home, "UPDATE events SET type = 'PlantRemoved' WHERE position = 3"),
      /^position 3: the view has a plant of "alice" that the log does not have: \{"name":"Moss"\}$/,
    ],
    [
      'another stream',
      (home) => inLog(home, "UPDATE events SET stream = 'plant-bob/77' WHERE position = 3"),
      /^position 3: it is in the stream "plant-bob\/77", but its data belongs to "plant-alice\/2"$/,
    ],
    [
      'an invalid ID',
      (home) => inLog(home, "UPDATE events SET id = 'x' WHERE position = 3"),
      /^position 3: its ID is not a UUID$/,
    ],
  ])('%s', async ([, tamper, ...problems]) => {
    const tampered = home();
    tamper(tampered);
    const [plain, expecting] = [await problemsOf(tampered), await problemsOf(tampered, expectedRoot)];
    expect(plain).toEqual(includingProblems(...problems));
    expect(expecting).toEqual(expect.arrayContaining([...plain, rootIsAnother]));
  });
});

describe('verify reports in the view:', () => {
  test.for<[what: string, sql: string, ...problems: RegExp[]]>([
    [
      'a changed row',
      `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 2`,
      /^position 2: by the log it is \{"name":"Oak"\}, in the view \{"name":"Weed"\}$/,
    ],
    [
      'a removed row',
      'DELETE FROM plants WHERE position = 7',
      /^position 7: the log has a plant of "alice" that the view does not have$/,
    ],
    [
      'a row moved to another user',
      "UPDATE plants SET user = 'bob' WHERE position = 3",
      /^position 3: the log has a plant of "alice" that the view does not have$/,
      /^position 3: the view has a plant of "bob" that the log does not have: \{"name":"Moss"\}$/,
    ],
    [
      'a row with another ID',
      "UPDATE plants SET id = '77' WHERE position = 3",
      /^position 3: by the log it is ID 2, in the view ID 77$/,
    ],
    [
      'a row added for an existing user',
      `INSERT INTO plants VALUES ('alice', 2, 9, '9', '{"name":"Weed"}')`,
      /^position 2: the view has a plant of "alice" that the log does not have: \{"name":"Weed"\}$/,
    ],
    [
      'a row added for a new user',
      `INSERT INTO plants VALUES ('mallory', 2, 9, '9', '{"name":"Weed"}')`,
      /^position 2: the view has a plant of "mallory" that the log does not have: \{"name":"Weed"\}$/,
    ],
    [
      'a row added before the first',
      `INSERT INTO plants VALUES ('alice', -1, 9, '9', '{"name":"Weed"}')`,
      /^position -1: the view has a plant of "alice" that the log does not have: \{"name":"Weed"\}$/,
    ],
    [
      'a row added beyond the checkpoint',
      `INSERT INTO plants VALUES ('alice', 13, 9, '9', '{"name":"Weed"}')`,
      /^position 13: the view has a plant of "alice" beyond its checkpoint: \{"name":"Weed"\}$/,
    ],
    [
      'a row removed and another one added',
      `DELETE FROM plants WHERE position = 7; INSERT INTO plants VALUES ('mallory', 7, 9, '9', '{"name":"Weed"}')`,
      /^position 7: the log has a plant of "alice" that the view does not have$/,
      /^position 7: the view has a plant of "mallory" that the log does not have: \{"name":"Weed"\}$/,
    ],
    [
      'a checkpoint moved forward',
      'UPDATE checkpoint SET position = 20',
      /^position 20: the checkpoint of the view names an event that the log does not have$/,
    ],
    [
      'a checkpoint moved back',
      'UPDATE checkpoint SET position = 10',
      /^position 10: the checkpoint of the view names an event that the log does not have$/,
      /^position 11: the view has a plant of "alice" beyond its checkpoint: \{"name":"Ash"\}$/,
      /^position 12: the view has a plant of "bob" beyond its checkpoint: \{"name":"Yew"\}$/,
    ],
    [
      'a checkpoint moved to the start',
      "UPDATE checkpoint SET position = 0, event_id = ''; DELETE FROM plants WHERE position > 2",
      /^position 1: the view has a plant of "alice" beyond its checkpoint: /,
      /^position 2: the view has a plant of "bob" beyond its checkpoint: /,
    ],
    [
      'a checkpoint with the id of another event',
      "UPDATE checkpoint SET event_id = '01980000-0000-7000-8000-000000000001'",
      /^position 12: the checkpoint of the view names an event that the log does not have$/,
    ],
    [
      'a checkpoint with another log ID',
      "UPDATE checkpoint SET log_id = 's0123456789ab'",
      /^the view belongs to another log: the next start rebuilds it$/,
    ],
    [
      'a checkpoint without a log ID',
      "UPDATE checkpoint SET log_id = ''",
      /^the view belongs to another log/,
    ],
    ['a removed checkpoint', 'DELETE FROM checkpoint', /^cannot read the view: .*checkpoint/],
    ['a removed table', 'DROP TABLE plants', /^cannot read the view: no such table: plants$/],
  ])('%s', async ([, sql, ...problems]) => {
    const tampered = home();
    inView(tampered, sql);
    expect(await problemsOf(tampered)).toEqual(problems.map((problem) => expect.stringMatching(problem)));
  });

  test('a file replaced by garbage', async () => {
    const tampered = home();
    writeFileSync(tampered.view, Buffer.alloc(20_000, 'garbage'));
    expect(await problemsOf(tampered)).toEqual(['cannot read the view: file is not a database']);
  });

  test('a file replaced by the view of another log', async () => {
    const [tampered, other] = [home(), await startService()];
    await other.close();
    cpSync(join(other.dir, 'view.db'), tampered.view);
    expect(await problemsOf(tampered)).toEqual([
      'the view belongs to another log: the next start rebuilds it',
    ]);
  });
});

describe('verify reports only with the expected root:', () => {
  test.for<[what: string, tamper: (home: Home) => void]>([
    [
      'a plant with another name in the log and in the view',
      (home) => {
        inLog(home, change('data', '"Moss"', '"Weed"', 3));
        inView(home, `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 3`);
      },
    ],
    [
      'a plant moved to another user in the log and in the view',
      (home) => {
        inLog(
          home,
          `${change('data', '"id":"2","user":"alice"', '"id":"77","user":"bob"', 3)} ${change('stream', 'alice/2', 'bob/77', 3)}`,
        );
        inView(home, "UPDATE plants SET user = 'bob', id = '77' WHERE position = 3", RENUMBER);
      },
    ],
    [
      'another time',
      (home) =>
        inLog(
          home,
          `UPDATE events SET metadata = json_set(metadata, '$.occurredAt', '2026-03-01T12:00:00.000Z') WHERE position = 3`,
        ),
    ],
    [
      'another id of an event',
      (home) =>
        inLog(home, "UPDATE events SET id = '01980000-0000-7000-8000-000000000001' WHERE position = 3"),
    ],
    [
      'an additional key that is not read',
      (home) => inLog(home, change('data', '"name":"Moss"', '"name":"Moss","note":"x"', 3)),
    ],
    [
      'an event removed from the log and the view, with the others renumbered',
      (home) => {
        inLog(
          home,
          `DELETE FROM events WHERE position = 3; UPDATE events SET position = position - 1 WHERE position > 3`,
        );
        inView(
          home,
          `DELETE FROM plants WHERE position = 3; UPDATE plants SET position = position - 1 WHERE position > 3;
           UPDATE checkpoint SET position = position - 1`,
          RENUMBER,
        );
      },
    ],
    [
      'the last event removed from the log and the view',
      (home) => {
        inLog(home, 'DELETE FROM events WHERE position = 12');
        using log = new DatabaseSync(home.log);
        const id = log.prepare('SELECT id FROM events WHERE position = 11').get()?.id;
        inView(
          home,
          `DELETE FROM plants WHERE position = 12; UPDATE checkpoint SET position = 11, event_id = '${id}'`,
        );
      },
    ],
    [
      'an event removed from the log, without a view',
      (home) => {
        inLog(home, 'DELETE FROM events WHERE position = 12');
        rmSync(home.view);
      },
    ],
  ])('%s', async ([, tamper]) => {
    const tampered = home();
    tamper(tampered);
    const [plain, expecting] = [await verify(tampered), await problemsOf(tampered, expectedRoot)];
    expect(plain).toMatchObject({ code: 0, stderr: '' });
    expect(expecting).toEqual([rootIsAnother]);
  });
});

test('verify reports with the expected root a replacement character changed to invalid UTF-8', async () => {
  const tampered = home();
  inBytes(tampered.log, 'unknown \ufffd', Buffer.from('unknown \xf0\xbf\xbd', 'latin1'));
  expect(await problemsOf(tampered, expectedRoot)).toEqual(expect.arrayContaining([rootIsAnother]));
});

test('the root changes with each byte of an event that is changed in the file', async () => {
  const { log } = home();
  const bytes = readFileSync(log);
  const parts = partsOf(log, 6);
  const undetected: string[] = [];
  for (const [part, text] of Object.entries(parts)) {
    for (const place of offsetsOf(bytes, parts, text)) {
      const changed = Buffer.from(bytes);
      changed[place] = (changed[place] as number) ^ 1;
      writeFileSync(log, changed);
      if ((await rootIn(log)) === expectedRoot) undetected.push(`${part}: byte ${place}`);
    }
  }
  expect(undetected).toEqual([]);
  writeFileSync(log, bytes);
  expect(await rootIn(log)).toBe(expectedRoot);
});

describe('verify reports, although the root of the first events is the same:', () => {
  test.for<[what: string, tamper: (home: Home) => void, problem: string]>([
    [
      'members in another order',
      (home) => inLog(home, change('data', '"id":"2","user":"alice"', '"user":"alice","id":"2"', 3)),
      'position 3: its members are not in the order in which this service writes them',
    ],
    [
      'a gap',
      (home) => {
        inLog(home, `UPDATE events SET position = 20 WHERE position = ${SIZE}`);
        inView(
          home,
          `UPDATE plants SET position = 20 WHERE position = ${SIZE}; UPDATE checkpoint SET position = 20`,
        );
      },
      'position 20: positions 12 to 19 are missing before it',
    ],
    [
      'a valid event appended after a gap',
      (home) => inLog(home, forged(SIZE + 2)),
      'position 14: position 13 is missing before it',
    ],
    [
      'an event of another type appended with a negative revision',
      (home) => inLog(home, forged(SIZE + 1, { revision: -1n, type: 'PlantRemoved' })),
      'position 13: revisions start at 0',
    ],
    [
      'an event appended to a new stream, but not at revision 0',
      (home) => inLog(home, forged(SIZE + 1, { revision: 5n, type: 'PlantRemoved' })),
      'position 13: revision 4 of its stream is not before it',
    ],
  ])('%s', async ([, tamper, problem]) => {
    const tampered = home();
    tamper(tampered);
    for (const expected of [undefined, expectedRoot])
      expect(await problemsOf(tampered, expected)).toEqual([problem]);
  });
});

describe('the expected root', () => {
  test('matches while events are only appended', async () => {
    const grown = home();
    inLog(grown, forged(SIZE + 1));
    const { code, stdout, stderr } = await verify(grown, expectedRoot);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^size +13$/m);
    expect(stdout).toMatch(/^view +compared up to position 12$/m);
  });

  test('may be in upper case; that of the empty log always matches', async () => {
    const untampered = home();
    for (const one of [expectedRoot.toUpperCase(), `0:${EMPTY_ROOT}`])
      expect(await verify(untampered, one)).toMatchObject({ code: 0, stderr: '' });
  });

  test('of another log, of a larger size, or another one of size 0 does not match', async () => {
    const [untampered, root] = [home(), expectedRoot.split(':')[1]];
    expect(await problemsOf(untampered, `${SIZE - 1}:${root}`)).toEqual([
      expect.stringMatching(/^the first 11 events are not the expected ones: their root is /),
    ]);
    expect(await problemsOf(untampered, `${SIZE}:${EMPTY_ROOT}`)).toEqual([
      `the first 12 events are not the expected ones: their root is ${root}`,
    ]);
    expect(await problemsOf(untampered, `${SIZE + 1}:${root}`)).toEqual([
      'the log has 12 events, fewer than the expected 13',
    ]);
    expect(await problemsOf(untampered, `999999999999999:${root}`)).toEqual([
      'the log has 12 events, fewer than the expected 999999999999999',
    ]);
    expect(await problemsOf(untampered, `0:${root}`)).toEqual([
      `the first 0 events are not the expected ones: their root is ${EMPTY_ROOT}`,
    ]);
  });

  test.for([
    '',
    '12',
    '12:',
    ':',
    'x',
    '12:12',
    '-1:ROOT',
    '1.0:ROOT',
    '12:ROOT0',
    ' 12:ROOT',
    '12:ROOT\n',
    '12 ROOT',
  ])('%j is rejected in one line, and the log is not read', async (pattern) => {
    const malformed = pattern.replace('ROOT', EMPTY_ROOT);
    expect(await verify(home(), malformed)).toEqual({
      code: 1,
      stdout: '',
      stderr: '--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits.\n',
    });
  });
});

test.each(['id', 'stream', 'type', 'data', 'metadata'])(
  'verify fails if %s is stored as a BLOB, and reports the position in one line',
  async (column) => {
    const tampered = home();
    withoutConstraints(tampered, `UPDATE events SET ${column} = CAST(${column} AS BLOB) WHERE position = 3`);
    for (const expected of [undefined, expectedRoot])
      expect(await verify(tampered, expected)).toEqual({
        code: 1,
        stdout: '',
        stderr: 'the row at position 3 is damaged\n',
      });
  },
);

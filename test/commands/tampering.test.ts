import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, test } from 'vitest';
import { rootOfLog } from '../../src/audit/proof.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { type Plant, startService } from '../support/service.ts';
import { typed } from './typed.ts';
import { usedDirectory } from './usedDirectory.ts';

/** They stand in the log in this order, from position 1. */
const GARDEN: [user: string, id: bigint, plant: Plant][] = [
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
const SIZE = GARDEN.length;
const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** What the service has left: a log and a view that nobody has touched yet. */
const untouched = await usedDirectory(GARDEN);
/** What the auditor has written down. */
let note: string;

beforeAll(async () => {
  const { stdout, ...ended } = await typed(['verify'], { DATA_DIR: untouched.original });
  expect(ended).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^faults +none$/m);
  note = /^expect +(\S+)$/m.exec(stdout)?.[1] as string;
});

type Home = { dir: string; log: string; view: string };

/** A copy of the data directory, to be tampered with. */
function home(): Home {
  const dir = untouched.copy();
  return { dir, log: join(dir, 'log.db'), view: join(dir, 'view.db') };
}

type Ended = { code: number | null; stdout: string; stderr: string };

const verify = ({ dir }: Home, expect?: string): Promise<Ended> =>
  typed(['verify', ...(expect === undefined ? [] : [`--expect=${expect}`])], { DATA_DIR: dir });

/** As an intruder would: the triggers go first. */
function inLog({ log }: Home, sql: string): void {
  using db = new DatabaseSync(log);
  db.exec('DROP TRIGGER events_are_never_updated; DROP TRIGGER events_are_never_deleted');
  db.exec(sql);
}

function inView({ view }: Home, sql: string): void {
  using db = new DatabaseSync(view);
  db.exec(sql);
}

/** Takes away what the table insists on: types, and that nothing is there twice. */
function withoutRules(home: Home, sql: string): void {
  inLog(
    home,
    `ALTER TABLE events RENAME TO strict_events;
     CREATE TABLE events (position INTEGER PRIMARY KEY, id, stream, revision, type, data, metadata, recorded_at);
     INSERT INTO events SELECT * FROM strict_events;
     DROP TABLE strict_events;
     ${sql}`,
  );
}

/** Changes bytes in the file itself, wherever they are. */
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

/** An event without a fault but that nobody has caused it: mallory's plant 1, or another. */
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

/** Where the bytes of one column are in the file; the columns stand there one after the other, but for the revision 0. */
function placesOf(
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

/** As verify prints it. */
async function rootIn(file: string): Promise<string> {
  const log = openSqliteLog(file, { exact: true });
  try {
    const { size, root } = await rootOfLog(log, new AbortController().signal);
    return `${size}:${root}`;
  } finally {
    await log.close();
  }
}

/** What has been found: faults on stdout, and their number on stderr, in one line. */
function faultsIn({ code, stdout, stderr }: Ended): string[] {
  const faults = stdout.split('\n').flatMap((line) => /^ {10}(.+)$/.exec(line)?.[1] ?? []);
  const counted = faults.length === 1 ? '1 fault' : `${faults.length} faults`;
  expect({ code, stderr }, stdout).toEqual({
    code: 1,
    stderr: `${counted}: the log or its view is not as it has to be\n`,
  });
  return faults;
}

const faultsOf = async (home: Home, expect?: string): Promise<string[]> =>
  faultsIn(await verify(home, expect));

/** These faults at least. */
const named = (...faults: RegExp[]) =>
  expect.arrayContaining(faults.map((fault) => expect.stringMatching(fault)));

const rootIsAnother = expect.stringMatching(
  new RegExp(
    `^(the first ${SIZE} events are not those that were expected: their root is |the log has \\d+ events, not the ${SIZE} )`,
  ),
);

describe('verify finds, with the note or without it, and names', () => {
  test.for<[what: string, tamper: (home: Home) => void, ...faults: RegExp[]]>([
    [
      'a byte of a name, changed in the file itself',
      ({ log }) => inBytes(log, '"name":"Fern"', '"name":"fern"'),
      /^position 1: the log says \{"name":"fern","tag":"indoor"\}, the view says \{"name":"Fern","tag":"indoor"\}$/,
    ],
    [
      'a byte of a name, changed so that it is no UTF-8',
      ({ log }) => inBytes(log, '"name":"Oak"', Buffer.from('"name":"O\xe4k"', 'latin1')),
      /^position 2: /,
    ],
    [
      'an escape that is written otherwise',
      (home) => inLog(home, change('data', '\\u001f', '\\u001F', 5)),
      /^position 5: its data is not that of a PlantCreated$/,
    ],
    [
      'a letter that is written as an escape',
      (home) => inLog(home, change('data', '"Moss"', '"\\u004doss"', 3)),
      /^position 3: its data is not that of a PlantCreated$/,
    ],
    [
      'a space that JSON does not mind',
      (home) => inLog(home, change('metadata', '"schemaVersion":1', '"schemaVersion": 1', 3)),
      /^position 3: its metadata is not that of a PlantCreated$/,
    ],
    [
      'a line break after the data',
      (home) => inLog(home, 'UPDATE events SET data = data || char(10) WHERE position = 4'),
      /^position 4: its data is not that of a PlantCreated$/,
    ],
    [
      'a nul and what comes after it',
      (home) => inLog(home, "UPDATE events SET data = data || char(0) || 'x' WHERE position = 4"),
      /^position 4: its data is not that of a PlantCreated$/,
    ],
    [
      'a key that is there twice',
      (home) => inLog(home, change('data', '"name":"Oak"', '"name":"Elm","name":"Oak"', 2)),
      /^position 2: its data is not that of a PlantCreated$/,
    ],
    [
      'an event that is removed in the middle',
      (home) => inLog(home, 'DELETE FROM events WHERE position = 6'),
      /^position 7: position 6 is missing before it$/,
      /^position 6: the view has a plant of "bob" that the log has not: /,
    ],
    [
      'events that are removed at the start',
      (home) => inLog(home, 'DELETE FROM events WHERE position <= 2'),
      /^position 3: positions 1 to 2 are missing before it$/,
      /^position 1: the view has a plant of "alice" that the log has not: /,
      /^position 2: the view has a plant of "bob" that the log has not: /,
    ],
    [
      'an event that is removed at the end',
      (home) => inLog(home, `DELETE FROM events WHERE position = ${SIZE}`),
      /^position 12: the checkpoint of the view names an event that is not there$/,
      /^position 12: the view has a plant of "bob" that the log has not: /,
    ],
    [
      'all events, removed',
      (home) => inLog(home, 'DELETE FROM events'),
      /^position 12: the checkpoint of the view names an event that is not there$/,
      ...GARDEN.map(
        (_, i) => new RegExp(`^position ${i + 1}: the view has a plant of "\\w+" that the log has not: `),
      ),
    ],
    [
      'two events of one user that are swapped',
      (home) => inLog(home, swap(9, 11)),
      /^position 9: the log says \{"name":"Ash"\}, the view says \{"name":"Ivy"\}$/,
      /^position 11: the log says \{"name":"Ivy"\}, the view says \{"name":"Ash"\}$/,
    ],
    [
      'two events of two users that are swapped',
      (home) => inLog(home, swap(3, 10)),
      /^position 3: the log has a plant of "bob" that the view has not$/,
      /^position 10: the log has a plant of "alice" that the view has not$/,
    ],
    [
      'an event that is inserted in the middle, all others renumbered',
      (home) => inLog(home, `${renumber(6)} ${forged(6)}`),
      /^position 6: the log has a plant of "mallory" that the view has not$/,
      /^position 12: the checkpoint of the view names an event that is not there$/,
    ],
    ['an event at position 0', (home) => inLog(home, forged(0)), /^position 0: positions begin at 1$/],
    [
      'an event at a negative position',
      (home) => inLog(home, forged(-5)),
      /^position -5: positions begin at 1$/,
    ],
    [
      'an event at the lowest position there can be',
      (home) => inLog(home, forged(-(2n ** 63n))),
      /^position -9223372036854775808: positions begin at 1$/,
    ],
    [
      'an event whose stream is there already',
      (home) =>
        withoutRules(
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
      'the highest revision there can be',
      (home) => inLog(home, 'UPDATE events SET revision = 9223372036854775807 WHERE position = 3'),
      /^position 3: revision 9223372036854775806 of its stream is not before it$/,
    ],
    [
      'a foreign type',
      (home) => inLog(home, "UPDATE events SET type = 'PlantRemoved' WHERE position = 3"),
      /^position 3: the view has a plant of "alice" that the log has not: \{"name":"Moss"\}$/,
    ],
    [
      'another stream',
      (home) => inLog(home, "UPDATE events SET stream = 'plant-bob/77' WHERE position = 3"),
      /^position 3: it is in the stream "plant-bob\/77", but its data is of "plant-alice\/2"$/,
    ],
    [
      'an id that is none',
      (home) => inLog(home, "UPDATE events SET id = 'x' WHERE position = 3"),
      /^position 3: its id is no UUID$/,
    ],
  ])('%s', async ([, tamper, ...faults]) => {
    const tampered = home();
    tamper(tampered);
    const [plain, expecting] = [await faultsOf(tampered), await faultsOf(tampered, note)];
    expect(plain).toEqual(named(...faults));
    expect(expecting).toEqual(expect.arrayContaining([...plain, rootIsAnother]));
  });
});

describe('verify finds in the view, and names,', () => {
  test.for<[what: string, sql: string, ...faults: RegExp[]]>([
    [
      'a row that is changed',
      `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 2`,
      /^position 2: the log says \{"name":"Oak"\}, the view says \{"name":"Weed"\}$/,
    ],
    [
      'a row that is removed',
      'DELETE FROM plants WHERE position = 7',
      /^position 7: the log has a plant of "alice" that the view has not$/,
    ],
    [
      'a row that is given to another user',
      "UPDATE plants SET user = 'bob' WHERE position = 3",
      /^position 3: the log has a plant of "alice" that the view has not$/,
      /^position 3: the view has a plant of "bob" that the log has not: \{"name":"Moss"\}$/,
    ],
    [
      'a row that is added for a user who is there',
      `INSERT INTO plants VALUES ('alice', 2, '{"name":"Weed"}')`,
      /^position 2: the view has a plant of "alice" that the log has not: \{"name":"Weed"\}$/,
    ],
    [
      'a row that is added for a user who is not',
      `INSERT INTO plants VALUES ('mallory', 2, '{"name":"Weed"}')`,
      /^position 2: the view has a plant of "mallory" that the log has not: \{"name":"Weed"\}$/,
    ],
    [
      'a row that is added before the first',
      `INSERT INTO plants VALUES ('alice', -1, '{"name":"Weed"}')`,
      /^position -1: the view has a plant of "alice" that the log has not: \{"name":"Weed"\}$/,
    ],
    [
      'a row that is added beyond the checkpoint',
      `INSERT INTO plants VALUES ('alice', 13, '{"name":"Weed"}')`,
      /^position 13: the view has a plant of "alice" beyond its checkpoint: \{"name":"Weed"\}$/,
    ],
    [
      'a row that is removed and another one added',
      `DELETE FROM plants WHERE position = 7; INSERT INTO plants VALUES ('mallory', 7, '{"name":"Weed"}')`,
      /^position 7: the log has a plant of "alice" that the view has not$/,
      /^position 7: the view has a plant of "mallory" that the log has not: \{"name":"Weed"\}$/,
    ],
    [
      'a checkpoint that is moved forward',
      'UPDATE checkpoint SET position = 20',
      /^position 20: the checkpoint of the view names an event that is not there$/,
    ],
    [
      'a checkpoint that is moved back',
      'UPDATE checkpoint SET position = 10',
      /^position 10: the checkpoint of the view names an event that is not there$/,
      /^position 11: the view has a plant of "alice" beyond its checkpoint: \{"name":"Ash"\}$/,
      /^position 12: the view has a plant of "bob" beyond its checkpoint: \{"name":"Yew"\}$/,
    ],
    [
      'a checkpoint that is moved to the start',
      "UPDATE checkpoint SET position = 0, event_id = ''; DELETE FROM plants WHERE position > 2",
      /^position 1: the view has a plant of "alice" beyond its checkpoint: /,
      /^position 2: the view has a plant of "bob" beyond its checkpoint: /,
    ],
    [
      'a checkpoint with the id of another event',
      "UPDATE checkpoint SET event_id = '01980000-0000-7000-8000-000000000001'",
      /^position 12: the checkpoint of the view names an event that is not there$/,
    ],
    [
      'a checkpoint with another mark',
      "UPDATE checkpoint SET mark = 's0123456789ab'",
      /^the view is of another log: it is built anew at the next start$/,
    ],
    ['a checkpoint without a mark', "UPDATE checkpoint SET mark = ''", /^the view is of /],
    ['a checkpoint that is removed', 'DELETE FROM checkpoint', /^the view cannot be read: .*checkpoint/],
    ['a table that is removed', 'DROP TABLE plants', /^the view cannot be read: no such table: plants$/],
  ])('%s', async ([, sql, ...faults]) => {
    const tampered = home();
    inView(tampered, sql);
    expect(await faultsOf(tampered)).toEqual(faults.map((fault) => expect.stringMatching(fault)));
  });

  test('a file that is replaced by garbage', async () => {
    const tampered = home();
    writeFileSync(tampered.view, Buffer.alloc(20_000, 'garbage'));
    expect(await faultsOf(tampered)).toEqual(['the view cannot be read: file is not a database']);
  });

  test('a file that is replaced by the view of another log', async () => {
    const [tampered, other] = [home(), await startService()];
    await other.close();
    cpSync(join(other.dir, 'view.db'), tampered.view);
    expect(await faultsOf(tampered)).toEqual([
      'the view is of another log: it is built anew at the next start',
    ]);
  });
});

describe('verify finds only with the note', () => {
  test.for<[what: string, tamper: (home: Home) => void]>([
    [
      'a plant that has another name in the log and in the view',
      (home) => {
        inLog(home, change('data', '"Moss"', '"Weed"', 3));
        inView(home, `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 3`);
      },
    ],
    [
      'a plant that is given to another user, in the log and in the view',
      (home) => {
        inLog(
          home,
          `${change('data', '"id":"2","user":"alice"', '"id":"77","user":"bob"', 3)} ${change('stream', 'alice/2', 'bob/77', 3)}`,
        );
        inView(home, "UPDATE plants SET user = 'bob' WHERE position = 3");
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
      'a key more, which nobody reads',
      (home) => inLog(home, change('data', '"name":"Moss"', '"name":"Moss","note":"x"', 3)),
    ],
    [
      'an event that is removed everywhere, the others renumbered',
      (home) => {
        inLog(
          home,
          `DELETE FROM events WHERE position = 3; UPDATE events SET position = position - 1 WHERE position > 3`,
        );
        inView(
          home,
          `DELETE FROM plants WHERE position = 3; UPDATE plants SET position = position - 1 WHERE position > 3;
           UPDATE checkpoint SET position = position - 1`,
        );
      },
    ],
    [
      'the last event, removed everywhere',
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
      'an event that is removed, without a view',
      (home) => {
        inLog(home, 'DELETE FROM events WHERE position = 12');
        rmSync(home.view);
      },
    ],
  ])('%s', async ([, tamper]) => {
    const tampered = home();
    tamper(tampered);
    const [plain, expecting] = [await verify(tampered), await faultsOf(tampered, note)];
    expect(plain).toMatchObject({ code: 0, stderr: '' });
    expect(expecting).toEqual([rootIsAnother]);
  });
});

test('verify finds, with the note, a byte that is no UTF-8 any more where the character was unknown before', async () => {
  const tampered = home();
  inBytes(tampered.log, 'unknown \ufffd', Buffer.from('unknown \xf0\xbf\xbd', 'latin1'));
  expect(await faultsOf(tampered, note)).toEqual(expect.arrayContaining([rootIsAnother]));
});

test('the root that verify prints is another one for each byte of an event that is changed in the file itself', async () => {
  const { log } = home();
  const bytes = readFileSync(log);
  const parts = partsOf(log, 6);
  const unfound: string[] = [];
  for (const [part, text] of Object.entries(parts)) {
    for (const place of placesOf(bytes, parts, text)) {
      const changed = Buffer.from(bytes);
      changed[place] = (changed[place] as number) ^ 1;
      writeFileSync(log, changed);
      if ((await rootIn(log)) === note) unfound.push(`${part}: byte ${place}`);
    }
  }
  expect(unfound).toEqual([]);
  writeFileSync(log, bytes);
  expect(await rootIn(log)).toBe(note);
});

describe('verify finds, though the root of the first events is the same,', () => {
  test.for<[what: string, tamper: (home: Home) => void, fault: string]>([
    [
      'members in another order',
      (home) => inLog(home, change('data', '"id":"2","user":"alice"', '"user":"alice","id":"2"', 3)),
      'position 3: its members are not in the order in which they are written',
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
      'an event without a fault that is appended with a gap',
      (home) => inLog(home, forged(SIZE + 2)),
      'position 14: position 13 is missing before it',
    ],
    [
      'an event of whatever type that is appended with a revision before the first',
      (home) => inLog(home, forged(SIZE + 1, { revision: -1n, type: 'PlantRemoved' })),
      'position 13: revisions begin at 0',
    ],
    [
      'an event that is appended to a stream of its own, but not as its first',
      (home) => inLog(home, forged(SIZE + 1, { revision: 5n, type: 'PlantRemoved' })),
      'position 13: revision 4 of its stream is not before it',
    ],
  ])('%s', async ([, tamper, fault]) => {
    const tampered = home();
    tamper(tampered);
    for (const expected of [undefined, note]) expect(await faultsOf(tampered, expected)).toEqual([fault]);
  });
});

describe('the note', () => {
  test('holds as long as the log has only grown', async () => {
    const grown = home();
    inLog(grown, forged(SIZE + 1));
    const { code, stdout, stderr } = await verify(grown, note);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^size +13$/m);
    expect(stdout).toMatch(/^view +compared up to position 12$/m);
  });

  test('may be written in capitals, and one about nothing always holds', async () => {
    const untampered = home();
    for (const one of [note.toUpperCase(), `0:${EMPTY_ROOT}`])
      expect(await verify(untampered, one)).toMatchObject({ code: 0, stderr: '' });
  });

  test('of another log does not hold, nor of more than there is, nor another one about nothing', async () => {
    const [untampered, root] = [home(), note.split(':')[1]];
    expect(await faultsOf(untampered, `${SIZE - 1}:${root}`)).toEqual([
      expect.stringMatching(/^the first 11 events are not those that were expected: their root is /),
    ]);
    expect(await faultsOf(untampered, `${SIZE}:${EMPTY_ROOT}`)).toEqual([
      `the first 12 events are not those that were expected: their root is ${root}`,
    ]);
    expect(await faultsOf(untampered, `${SIZE + 1}:${root}`)).toEqual([
      'the log has 12 events, not the 13 that were expected',
    ]);
    expect(await faultsOf(untampered, `999999999999999:${root}`)).toEqual([
      'the log has 12 events, not the 999999999999999 that were expected',
    ]);
    expect(await faultsOf(untampered, `0:${root}`)).toEqual([
      `the first 0 events are not those that were expected: their root is ${EMPTY_ROOT}`,
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
  ])('that reads %j is refused, in one line, and nothing is read', async (pattern) => {
    const malformed = pattern.replace('ROOT', EMPTY_ROOT);
    expect(await verify(home(), malformed)).toEqual({
      code: 1,
      stdout: '',
      stderr: '--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits.\n',
    });
  });
});

test.each(['id', 'stream', 'type', 'data', 'metadata'])(
  'verify ends where it finds that %s is stored as bytes, and names the position in its one line',
  async (column) => {
    const tampered = home();
    withoutRules(tampered, `UPDATE events SET ${column} = CAST(${column} AS BLOB) WHERE position = 3`);
    for (const expected of [undefined, note])
      expect(await verify(tampered, expected)).toEqual({
        code: 1,
        stdout: '',
        stderr: 'the row at position 3 is damaged\n',
      });
  },
);

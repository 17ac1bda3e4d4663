import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { alterLog, appendTo, eventId, logWith, plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { VIEWS } from '../../src/views.ts';
import { failure, runCli, succeeded } from '../support/cli.ts';
import { pageOf } from '../support/damage.ts';
import { Load } from '../support/load.ts';
import { treeSaved } from '../support/merkleTreeFile.ts';
import { startService } from '../support/service.ts';
import { usedDirectory } from '../support/usedDataDir.ts';
import { verifyDir } from '../support/verifyDir.ts';

const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** Of the views. */
const NAMES = Object.keys(VIEWS);

type Env = Record<string, string>;

const verify = (env: Env, ...args: string[]) => runCli(['verify', ...args], env);

const used = await usedDirectory([
  ['alice', 1, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1, { name: 'unit \u001f, line \u2028' }],
  ['alice', 2, { name: 'Moss' }],
]);

const malformed = (n: number) => ({ ...plantOf('alice', n, ''), data: { name: 5 } });

function inFile(dir: string, name: string, sql: string): void {
  using db = new DatabaseSync(join(dir, name));
  db.exec(sql);
}

const problemsIn = (stdout: string): string[] =>
  JSON.parse(stdout).problems.map(({ problem }: { problem: string }) => problem);

const contentsOf = (dir: string): Map<string, string> =>
  new Map(
    readdirSync(dir)
      .filter((name) => name !== 'drafts')
      .map((name) => [name, readFileSync(join(dir, name)).toString('base64')]),
  );

describe('verify', () => {
  test('prints the root of the log on stdout, as text or JSON, and nothing on stderr, and changes no file', async () => {
    const dir = used.copy();
    const before = contentsOf(dir);
    const words = succeeded(await verify({ DATA_DIR: dir }));
    const json = succeeded(await verify({ DATA_DIR: dir }, '--json'));
    const facts = JSON.parse(json);
    expect(json).toBe(`${JSON.stringify(facts)}\n`);
    expect(facts).toEqual({
      size: 3,
      position: '3',
      notices: [],
      root: expect.stringMatching(/^[\da-f]{64}$/),
      views: Object.fromEntries(NAMES.map((name) => [name, '3'])),
      unknown: 0,
      erased: 0,
      records: 0,
      skipped: 0,
      problemCount: 0,
      problems: [],
    });
    expect(words).toBe(`size      3
position  3
root      ${facts.root}
expect    3:${facts.root}
${NAMES.map((name) => `view      ${name} compared up to position 3\n`).join('')}problems  none
`);
    const after = contentsOf(dir);
    for (const [name, bytes] of before) expect(after.get(name) === bytes, name).toBe(true);
  });

  test('reads acknowledged events of a server that has not closed its files, and changes none', async () => {
    const [running, dir] = [await startService({ MERKLE_TREE: 'on' }), tempDir()];
    for (const user of ['alice', 'bob'])
      expect((await running.as(user).create(1, { name: 'Fern' })).status).toBe(200);
    await treeSaved(running.dir, 2);
    cpSync(running.dir, dir, { recursive: true }); // the files if it were killed now
    const data = ['log.db', 'view.db', 'merkleTree.db'].flatMap((name) => [name, `${name}-wal`]);
    const before = contentsOf(dir);
    const { code, stdout } = await verify({ DATA_DIR: dir });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^size +2$/m) });
    const after = contentsOf(dir);
    for (const name of data) expect(before.get(name) === after.get(name), name).toBe(true);
    const again = await startService({ DATA_DIR: dir });
    expect(await again.as('bob').list()).toEqual([{ name: 'Fern' }]);
  });

  test('reports a missing view and a missing tree, and prints the root of an empty log', async () => {
    const [dir, { dir: empty, close }] = [used.copy(), await startService()];
    await close();
    for (const name of ['view.db', 'merkleTree.db']) rmSync(join(dir, name));
    const { views, problems } = JSON.parse(succeeded(await verify({ DATA_DIR: dir }, '--json')));
    expect({ views, problems }).toMatchObject({
      views: { plantsByUser: null, merkleTree: null },
      problems: [],
    });
    const ofEmpty = succeeded(await verify({ DATA_DIR: empty }, '--expect', `0:${EMPTY_ROOT}`));
    expect(ofEmpty).toMatch(new RegExp(`^size +0\nposition +0\nroot +${EMPTY_ROOT}$`, 'm'));
    expect(existsSync(join(dir, 'view.db'))).toBe(false);
  });

  test('leaves out the Merkle tree with MERKLE_TREE=off, since its file may be old', async () => {
    const DATA_DIR = used.copy();
    writeFileSync(join(DATA_DIR, 'merkleTree.db'), 'old');
    const env = { DATA_DIR, MERKLE_TREE: 'off' };
    expect(succeeded(await verify(env))).not.toMatch(/merkleTree/);
    expect((await verify({ DATA_DIR })).code).toBe(1);
  });

  test('reports an invalid PlantCreated, unless SKIP_EVENTS has it', async () => {
    const dir = used.copy();
    const event = malformed(3);
    appendTo(dir, event);
    const found = await verify({ DATA_DIR: dir });
    const passed = succeeded(await verify({ DATA_DIR: dir, SKIP_EVENTS: event.id }));
    expect(found).toMatchObject({ code: 1, stderr: 'verification failed: 1 problem\n' });
    expect(found.stdout).toMatch(
      /^problems {2}1\n {10}position 4: its data is not valid for a PlantCreated\n$/m,
    );
    expect(passed).toMatch(/^skipped {3}1 event in SKIP_EVENTS\nproblems {2}none$/m);
  });

  test('counts all problems and lists 100, as text and as JSON', async () => {
    const dir = appendTo(tempDir(), ...Array.from({ length: 150 }, (_, i) => malformed(i + 1)));
    const [words, json] = [await verify({ DATA_DIR: dir }), await verify({ DATA_DIR: dir }, '--json')];
    const stderr = 'verification failed: 150 problems\n';
    expect(words).toMatchObject({ code: 1, stderr });
    expect(json).toMatchObject({ code: 1, stderr });
    const listed = Array.from({ length: 100 }, (_, i) => ({
      position: `${i + 1}`,
      problem: 'its data is not valid for a PlantCreated',
    }));
    expect(words.stdout.split('\n').slice(4 + NAMES.length)).toEqual([
      'problems  150',
      ...listed.map(({ position, problem }) => `          position ${position}: ${problem}`),
      '          and 50 more',
      '',
    ]);
    const { problemCount, problems } = JSON.parse(json.stdout);
    expect({ problemCount, problems }).toEqual({ problemCount: 150, problems: listed });
  });

  test('prints no control characters, whatever the view contains', async () => {
    const dir = used.copy();
    const evil = '\x1b]0;mallory\x07\x1b[2J\r\n\x9b31m\u202e\u2066\u2028\x7f';
    inFile(
      dir,
      'view.db',
      `UPDATE plants SET plant = '{"name":"${evil}"}' WHERE position = 1;
       INSERT INTO plants VALUES ('mallory${evil}', 9, 9, '{}')`,
    );
    const [words, json] = [await verify({ DATA_DIR: dir }), await verify({ DATA_DIR: dir }, '--json')];
    const stderr = 'verification failed: 2 problems\n';
    for (const one of [words, json]) expect(one).toMatchObject({ code: 1, stderr });
    expect(words.stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(json.stdout).not.toContain('\x1b');
    expect(words.stdout.split('\n')).toHaveLength(8 + NAMES.length);
    const escaped = evil.replace(
      /[^\]0;mallory[2J31]/gu,
      (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`,
    );
    expect(words.stdout).toContain(`, plant {"name":"${escaped}"}; according to the log, `);
    const { problems } = JSON.parse(json.stdout);
    expect(problems[0]).toEqual({
      position: '1',
      problem: `the view plantsByUser has a wrong row: user alice, position 1, id 1, plant {"name":"${evil}"}; according to the log, it has plant {"name":"Fern","tag":"indoor"}`,
    });
  });
});

test('verify beside a server that creates plants finds no problems, however far the view is behind', async () => {
  const { dir, as } = await startService();
  const load = new Load();
  load.start({ as });
  const verifications: Awaited<ReturnType<typeof verifyDir>>[] = [];
  const sizes = () => new Set(verifications.map(({ size }) => size)).size;
  const behind = () => verifications.filter(({ size, view = 0n }) => BigInt(size) > view).length;
  while (sizes() < 10 || behind() < 3) {
    verifications.push(await verifyDir(dir));
    await nextTurn();
  }
  await load.stop();
  expect(verifications.flatMap(({ problems }) => problems)).toEqual([]);
});

test('verify on EventStoreDB prints the same root as for an embedded log with the same events, and writes nothing', async () => {
  const events = [plantOf('alice', 1, 'Fern'), plantOf('bob', 1, 'unit \u001f, line \u2028')].map(
    (event, i) => ({ ...event, id: eventId(i + 1) }),
  );
  const fake = await startFakeServer();
  const env = { EVENTSTOREDB_URL: fake.url, DATA_DIR: tempDir() };
  fake.write('invoice-1', { data: { due: true } });
  const [, last] = writeTo(fake, ...events);
  const service = await startService(env);
  await expect.poll(async () => (await service.as('bob').list()).length).toBe(1); // the view has caught up, too
  await service.close();
  const here = await verify({ DATA_DIR: appendTo(tempDir(), ...events) }, '--json');
  const there = await verify(env, '--json');
  const { root, position } = JSON.parse(here.stdout);
  expect({ code: here.code, position }).toEqual({ code: 0, position: '2' });
  expect(there).toMatchObject({ code: 0, stderr: '' });
  const end = `${last?.position}`;
  expect(JSON.parse(there.stdout)).toMatchObject({
    size: 2,
    root,
    position: end,
    views: { plantsByUser: end },
    problems: [],
  });
  const [written, missing] = [fake.log.all.length, join(tempDir(), 'data')];
  const again = await verify({ ...env, DATA_DIR: missing }, '--expect', `2:${root}`);
  expect(again).toMatchObject({ code: 0, stderr: '' });
  expect([fake.log.all.length, existsSync(missing)]).toEqual([written, false]);
});

describe('verify finds', () => {
  const WRONG_ROW = /^the view plantsByUser has a wrong row: user alice, position 1/;
  const ENTRY = 'the view merkleTree does not have the entry of this event';

  /** The SIZE:ROOT that an auditor has kept. */
  const kept = async () =>
    /^expect +(\S+)$/m.exec(succeeded(await verify({ DATA_DIR: used.original })))?.[1] as string;

  const RENAME = `UPDATE events SET data = replace(data, 'Fern', 'Weed') WHERE position = 1`;
  const REMOVE = 'DELETE FROM events WHERE position = 3';

  test.for<[what: string, tamper: (dir: string) => void, ...problems: (string | RegExp)[]]>([
    ['an altered event', (dir) => alterLog(dir, RENAME), WRONG_ROW, ENTRY],
    [
      'an event that was removed in the middle',
      (dir) => alterLog(dir, 'DELETE FROM events WHERE position = 2'),
      'position 2 is missing before it',
      ENTRY,
      /^the view plantsByUser has a row that does not follow from the log: user bob/,
    ],
    [
      'an event that was inserted, with the others renumbered',
      (dir) =>
        alterLog(
          dir,
          `UPDATE events SET position = -position WHERE position >= 2;
           UPDATE events SET position = 1 - position WHERE position < 0;
           INSERT INTO events SELECT 2, 'x', 'plant-mallory/1', 0, type, '{"id":"1","user":"mallory","name":"Weed"}',
             metadata, recorded_at FROM events WHERE position = 1`,
        ),
      /^the view plantsByUser lacks a row that follows from the log: user mallory/,
      ENTRY,
    ],
  ])('%s, by the views, the tree and the root', async ([, tamper, ...problems]) => {
    const dir = used.copy();
    tamper(dir);
    const { code, stdout } = await verify({ DATA_DIR: dir }, '--json', '--expect', await kept());
    expect(code).toBe(1);
    for (const problem of [...problems, /the expected (events|3)/])
      expect(problemsIn(stdout)).toContainEqual(expect.stringMatching(problem));
  });

  test('only by the tree or the root what was altered in the log and in the view', async () => {
    const expected = await kept();
    for (const tamper of [
      (dir: string) => {
        alterLog(dir, RENAME);
        inFile(
          dir,
          'view.db',
          `UPDATE plants SET plant = '{"name":"Weed","tag":"indoor"}' WHERE position = 1`,
        );
      },
      (dir: string) => {
        alterLog(dir, REMOVE);
        for (const { file, isAwaited } of Object.values(VIEWS)) if (isAwaited) rmSync(file(dir));
      },
    ]) {
      const DATA_DIR = used.copy();
      tamper(DATA_DIR);
      for (const problem of problemsIn((await verify({ DATA_DIR }, '--json')).stdout))
        expect(problem).toContain('merkleTree');
      rmSync(join(DATA_DIR, 'merkleTree.db'));
      expect(await verify({ DATA_DIR })).toMatchObject({ code: 0, stderr: '' });
      const { stdout } = await verify({ DATA_DIR }, '--json', '--expect', expected);
      expect(problemsIn(stdout)).toEqual([expect.stringMatching(/the expected (events|3)/)]);
    }
  });

  test('an altered entry of the tree, although the root of the events is the same', async () => {
    const dir = used.copy();
    const hashes = `CAST(substr(hashes, 1, 32) || x'0000000000000000' || substr(hashes, 41) AS BLOB)`;
    inFile(dir, 'merkleTree.db', `UPDATE tiles SET hashes = ${hashes} WHERE level = 0`);
    const { stdout } = await verify({ DATA_DIR: dir }, '--json', '--expect', await kept());
    expect(problemsIn(stdout)).toEqual([expect.stringContaining(ENTRY)]);
  });

  test('a column that is stored as a BLOB, in one line', async () => {
    const dir = used.copy();
    alterLog(
      dir,
      `ALTER TABLE events RENAME TO strict_events;
       CREATE TABLE events (position INTEGER PRIMARY KEY, id, stream, revision, type, data, metadata, recorded_at);
       INSERT INTO events SELECT * FROM strict_events;
       DROP TABLE strict_events;
       UPDATE events SET data = CAST(data AS BLOB) WHERE position = 3`,
    );
    expect(await verify({ DATA_DIR: dir })).toEqual(
      failure('the log is damaged: the row at position 3 is damaged'),
    );
  });

  test('a damaged index', async () => {
    const DATA_DIR = logWith({ events: 12 });
    const file = join(DATA_DIR, 'log.db');
    const { rootpage, size } = pageOf(file, 'sqlite_autoindex_events_2');
    const bytes = readFileSync(file);
    const at = bytes.indexOf('plant-bob/2', (rootpage - 1) * size);
    bytes[at] = (bytes[at] as number) + 1;
    writeFileSync(file, bytes);
    const { code, stdout } = await verify({ DATA_DIR }, '--json');
    expect(code).toBe(1);
    expect(problemsIn(stdout)).toContain(
      'the log is damaged: row 2 missing from index sqlite_autoindex_events_2',
    );
  });

  test('missing, altered and unknown triggers and indexes; tables of other programs are notices', async () => {
    const DATA_DIR = logWith({ events: 12 });
    inFile(
      DATA_DIR,
      'log.db',
      `DROP TRIGGER events_are_never_updated;
       DROP TRIGGER events_are_never_deleted;
       CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
         WHEN old.stream <> 'plant-bob/2' BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
       CREATE TRIGGER quiet BEFORE INSERT ON EVENTS BEGIN SELECT RAISE(IGNORE); END;
       CREATE UNIQUE INDEX narrow ON Events (type, position);
       CREATE TABLE other (id); CREATE TRIGGER forge AFTER INSERT ON other BEGIN DELETE FROM events; END`,
    );
    const { code, stdout } = await verify({ DATA_DIR }, '--json');
    expect(code).toBe(1);
    expect(problemsIn(stdout).toSorted()).toEqual([
      'the log has an altered trigger events_are_never_deleted',
      'the log has an unknown index narrow',
      'the log has an unknown trigger forge',
      'the log has an unknown trigger quiet',
      'the log has no trigger events_are_never_updated',
    ]);
    expect(JSON.parse(stdout).notices).toContain('the file has a table other of another program');
  });
});

describe('the expected root', () => {
  test('may be in upper case; that of the empty log always matches', async () => {
    const { size, root } = JSON.parse(succeeded(await verify({ DATA_DIR: used.original }, '--json')));
    for (const one of [`${size}:${root}`.toUpperCase(), `0:${EMPTY_ROOT}`])
      expect((await verify({ DATA_DIR: used.original }, '--expect', one)).code).toBe(0);
  });

  test.for(['12', '12:12', '-1:ROOT', '12:ROOT0', ' 12:ROOT', '12:ROOT\n'])(
    '%j is rejected in one line',
    async (pattern) => {
      const expected = pattern.replace('ROOT', EMPTY_ROOT);
      const rule =
        '--expect must be SIZE:ROOT, a number of events and 64 hexadecimal digits, or a file with a checkpoint';
      expect(await verify({ DATA_DIR: used.original }, `--expect=${expected}`)).toEqual(
        failure(`${rule}; the file ${JSON.stringify(expected)} does not exist.`),
      );
    },
  );
});

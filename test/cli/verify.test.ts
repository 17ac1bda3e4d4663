import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { appendTo, eventId, plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { VIEWS } from '../../src/views.ts';
import { runCli, succeeded } from '../support/cli.ts';
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

function inView(dir: string, sql: string): void {
  using db = new DatabaseSync(join(dir, 'view.db'));
  db.exec(sql);
}

const contentsOf = (dir: string): Map<string, string> =>
  new Map(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name)).toString('base64')]));

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
    inView(
      dir,
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

test.each(['softDelete', 'truncate', 'tombstone'] as const)(
  'verify on EventStoreDB reads on after a stream that was deleted by %s: its events stay in the log',
  async (how) => {
    const fake = await startFakeServer();
    writeTo(fake, plantOf('alice', 1, 'Fern'), plantOf('bob', 1, 'Oak'));
    fake.write('plant-alice/1', { type: 'PlantPruned' });
    fake.log.delete('plant-alice/1', how);
    const verified = await verify({ EVENTSTOREDB_URL: fake.url, DATA_DIR: tempDir() }, '--json');
    const size = how === 'tombstone' ? 4 : 3; // a tombstone is an event of the stream
    expect(JSON.parse(succeeded(verified))).toMatchObject({ size, problems: [] });
  },
);

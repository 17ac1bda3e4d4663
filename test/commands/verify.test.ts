import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import type { Verdict } from '../../src/audit/verify.ts';
import { startDouble } from '../copy/logs.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { appendTo, eventId, logWith, plantOf, writeTo } from '../support/logs.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { verifyDir } from '../support/verifyDir.ts';
import { expectRefused, typed, typing } from './typed.ts';
import { usedDirectory } from './usedDirectory.ts';

const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

type Env = Record<string, string>;

const verify = (env: Env, ...args: string[]) => typed(['verify', ...args], env);

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

describe('npm run verify', () => {
  test('prints what the log hashes to on stdout and nothing on stderr, in words or in one line of JSON, and changes no byte', async () => {
    const dir = used.copy();
    const before = contentsOf(dir);
    const words = await verify({ DATA_DIR: dir });
    const json = await verify({ DATA_DIR: dir }, '--json');
    expect(json).toMatchObject({ code: 0, stderr: '' });
    const facts = JSON.parse(json.stdout);
    expect(json.stdout).toBe(`${JSON.stringify(facts)}\n`);
    expect(facts).toEqual({
      size: 3,
      position: '3',
      root: expect.stringMatching(/^[\da-f]{64}$/),
      view: '3',
      foreign: 0,
      skipped: 0,
      faultCount: 0,
      faults: [],
    });
    expect(words).toEqual({
      code: 0,
      stderr: '',
      stdout: `size      3
position  3
root      ${facts.root}
expect    3:${facts.root}
view      compared up to position 3
faults    none
`,
    });
    const after = contentsOf(dir);
    for (const [name, bytes] of before) expect(after.get(name) === bytes, name).toBe(true);
  });

  test('reads what a server has acknowledged that has not closed its files, and changes no byte of it', async () => {
    const [running, dir] = [await startService(), tempDir()];
    for (const user of ['alice', 'bob'])
      expect((await running.as(user).create(1, { name: 'Fern' })).status).toBe(200);
    cpSync(running.dir, dir, { recursive: true }); // what there is where it is killed now
    const data = ['log.db', 'log.db-wal', 'view.db', 'view.db-wal'];
    const before = contentsOf(dir);
    const { code, stdout } = await verify({ DATA_DIR: dir });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^size +2$/m) });
    const after = contentsOf(dir);
    for (const name of data) expect(before.get(name) === after.get(name), name).toBe(true);
    const again = await startService({ DATA_DIR: dir });
    expect(await again.as('bob').list()).toEqual([{ name: 'Fern' }]);
  });

  test('where there is no view says so, and where there is no event gives the root of nothing', async () => {
    const [dir, { dir: empty, close }] = [used.copy(), await startService()];
    await close();
    rmSync(join(dir, 'view.db'));
    const ended = [
      await verify({ DATA_DIR: dir }, '--json'),
      await verify({ DATA_DIR: empty }, '--expect', `0:${EMPTY_ROOT}`),
    ] as const;
    for (const one of ended) expect(one).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(ended[0].stdout)).toMatchObject({ size: 3, view: null, faults: [] });
    expect(ended[1].stdout).toMatch(new RegExp(`^size +0\nposition +0\nroot +${EMPTY_ROOT}$`, 'm'));
    expect(existsSync(join(dir, 'view.db'))).toBe(false);
  });

  test('where there is no log says so in one line, and makes none', async () => {
    const dir = tempDir();
    expect(await verify({ DATA_DIR: join(dir, 'nowhere') })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `there is no log ${join(dir, 'nowhere', 'log.db')}\n`,
    });
    expect(readdirSync(dir)).toEqual([]);
  });

  test('names a PlantCreated that is malformed, unless SKIP_EVENTS names it', async () => {
    const dir = used.copy();
    const event = malformed(3);
    appendTo(dir, event);
    const found = await verify({ DATA_DIR: dir });
    const passed = await verify({ DATA_DIR: dir, SKIP_EVENTS: event.id });
    expect(found).toMatchObject({
      code: 1,
      stderr: '1 fault: the log or its view is not as it has to be\n',
    });
    expect(found.stdout).toMatch(/^faults {4}1\n {10}position 4: its data is not that of a PlantCreated\n$/m);
    expect(passed).toMatchObject({ code: 0, stderr: '' });
    expect(passed.stdout).toMatch(/^skipped {3}1 event named in SKIP_EVENTS\nfaults {4}none$/m);
  });

  test('counts all faults and lists a hundred, in both forms', async () => {
    const dir = appendTo(tempDir(), ...Array.from({ length: 150 }, (_, i) => malformed(i + 1)));
    const [words, json] = [await verify({ DATA_DIR: dir }), await verify({ DATA_DIR: dir }, '--json')];
    const stderr = '150 faults: the log or its view is not as it has to be\n';
    expect(words).toMatchObject({ code: 1, stderr });
    expect(json).toMatchObject({ code: 1, stderr });
    const listed = Array.from({ length: 100 }, (_, i) => ({
      position: `${i + 1}`,
      fault: 'its data is not that of a PlantCreated',
    }));
    expect(words.stdout.split('\n').slice(5)).toEqual([
      'faults    150',
      ...listed.map(({ position, fault }) => `          position ${position}: ${fault}`),
      '          and 50 more',
      '',
    ]);
    const { faultCount, faults } = JSON.parse(json.stdout);
    expect({ faultCount, faults }).toEqual({ faultCount: 150, faults: listed });
  });

  test('prints nothing that could steer a terminal, whatever stands in the view', async () => {
    const dir = used.copy();
    const evil = '\x1b]0;mallory\x07\x1b[2J\r\n\x9b31m\u202e\u2066\u2028\x7f';
    inView(
      dir,
      `UPDATE plants SET plant = '{"name":"${evil}"}' WHERE position = 1;
       INSERT INTO plants VALUES ('mallory${evil}', 9, '{}')`,
    );
    const [words, json] = [await verify({ DATA_DIR: dir }), await verify({ DATA_DIR: dir }, '--json')];
    const stderr = '2 faults: the log or its view is not as it has to be\n';
    for (const one of [words, json]) expect(one).toMatchObject({ code: 1, stderr });
    expect(words.stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(json.stdout).not.toContain('\x1b');
    expect(words.stdout.split('\n')).toHaveLength(9);
    const escaped = evil.replace(
      /[^\]0;mallory[2J31]/gu,
      (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`,
    );
    expect(words.stdout).toContain(`, the view says {"name":"${escaped}"}\n`);
    const { faults } = JSON.parse(json.stdout);
    expect(faults[0]).toEqual({
      position: '1',
      fault: `the log says {"name":"Fern","tag":"indoor"}, the view says {"name":"${evil}"}`,
    });
  });
});

/** Verifies again and again, until there is no reason to go on; each time all is opened anew. */
async function verifyWhile(goOn: (verdicts: Verdict[]) => boolean, dir: string): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  while (goOn(verdicts)) {
    verdicts.push(await verifyDir(dir));
    await nextTurn();
  }
  return verdicts;
}

describe('verify beside a server', () => {
  test('that goes on creating plants finds nothing, however far the view is behind', async () => {
    const { dir, as, close } = await startService();
    let isOver = false;
    let created = 0;
    const post = async (user: string): Promise<void> => {
      for (let id = 1; !isOver; id++) {
        expect((await as(user).create(id, { name: `${user}'s ${id}` })).status).toBe(200);
        created++;
      }
    };
    const posting = Promise.all(['alice', 'alice2', 'bob', 'bob2'].map(post));
    const sizesIn = (verdicts: Verdict[]) => new Set(verdicts.map(({ size }) => size));
    const isBehind = ({ size, view }: Verdict) => BigInt(size) > (view ?? 0n);
    const verdicts = await verifyWhile((so) => sizesIn(so).size < 10 || so.filter(isBehind).length < 3, dir);
    const first = await verify({ DATA_DIR: dir }, '--json');
    const { size, root } = JSON.parse(first.stdout);
    const grown = created + 10;
    await expect.poll(() => created).toBeGreaterThan(grown);
    const later = await verify({ DATA_DIR: dir }, '--json', '--expect', `${size}:${root}`);
    isOver = true;
    await posting;
    expect(verdicts.flatMap(({ faults }) => faults)).toEqual([]);
    for (const { code, stderr } of [first, later]) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(later.stdout).size).toBeGreaterThan(size);
    await close();
    const { stdout } = await verify({ DATA_DIR: dir }, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ size: created, view: `${created}`, faultCount: 0 });
  });

  test('that builds its view anew says so, or finds nothing', async () => {
    const dir = logWith({ events: 2_000 });
    const isReady = async (): Promise<void> => {
      const { url, close } = await startService({ DATA_DIR: dir });
      await expect.poll(async () => (await fetch(`${url}/health/ready`)).status).toBe(200);
      await close();
    };
    await isReady();
    // Of another event: the server will not go on from it.
    inView(dir, "UPDATE checkpoint SET event_id = 'x'");
    let isOver = false;
    const building = isReady().finally(() => {
      isOver = true;
    });
    const verdicts = await verifyWhile(() => !isOver, dir);
    await building;
    const outcomes = verdicts.map(({ faults }) => {
      const said = faults.map(({ fault }) => fault);
      if (said.length === 0) return 'nothing';
      if (said.includes('the view has been built anew meanwhile: verify again')) return 'anew';
      return said[0];
    });
    const before = 'the checkpoint of the view names an event that is not there';
    expect(outcomes.filter((one) => ![before, 'nothing', 'anew'].includes(`${one}`))).toEqual([]);
    const { stdout } = await verify({ DATA_DIR: dir }, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ size: 2_000, faultCount: 0 });
  });
});

describe('verify on EventStoreDB', () => {
  test('gives the same root as on a log with the same events in a directory, gaps or none', async () => {
    const events = [plantOf('alice', 1, 'Fern'), plantOf('bob', 1, 'unit \u001f, line \u2028')].map(
      (event, i) => ({ ...event, id: eventId(i + 1) }),
    );
    const double = await startDouble();
    const env = { EVENTSTOREDB_URL: double.url, DATA_DIR: tempDir() };
    double.write('invoice-1', { data: { due: true } });
    const [, last] = writeTo(double, ...events);
    const service = await startService(env);
    await expect.poll(async () => (await service.as('bob').list()).length).toBe(1); // the view has come so far, too
    await service.close();
    const here = await verify({ DATA_DIR: appendTo(tempDir(), ...events) }, '--json');
    const there = await verify(env, '--json');
    const { root, position } = JSON.parse(here.stdout);
    expect({ code: here.code, position }).toEqual({ code: 0, position: '2' });
    expect(there).toMatchObject({ code: 0, stderr: '' });
    const end = `${last?.position}`;
    expect(JSON.parse(there.stdout)).toMatchObject({ size: 2, root, position: end, view: end, faults: [] });
    const again = await verify(env, '--expect', `2:${root}`);
    expect(again).toMatchObject({ code: 0, stderr: '' });
  });

  test('ends when it is stopped, also before its subscription is confirmed', async () => {
    const double = await startDouble();
    writeTo(double, plantOf('alice', 1, 'Fern'), plantOf('bob', 2, 'Oak'));
    for (const held of [1, -1]) {
      double.holdAfter(held);
      const before = double.calls.subscribe;
      const verifying = typing(['verify'], { EVENTSTOREDB_URL: double.url });
      await expect.poll(() => double.calls.subscribe).toBeGreaterThan(before);
      stopClock(); // no time-out ends it
      verifying.stop();
      expect(await verifying.ended).toEqual({ code: null, stdout: '', stderr: '' });
      vi.useRealTimers();
    }
  });

  test('that is away ends with one line', async () => {
    const double = await startDouble();
    await double.stop();
    stopClock();
    const [ended] = await untilSettled(verify({ DATA_DIR: tempDir(), EVENTSTOREDB_URL: double.url }));
    expectRefused(ended, /EventStoreDB cannot be reached/);
  });
});

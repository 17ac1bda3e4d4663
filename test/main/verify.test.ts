import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { ViewComparison } from '../../projections/viewComparison.ts';
import { type Verdict, verifyLog } from '../../src/audit/verify.ts';
import { NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { createPlant } from '../../src/plants/plant.ts';
import { openIn, startDouble } from '../copy/logs.ts';
import { canRun, MAIN, NODE, run, signalGroup, start, startServer } from '../support/process.ts';
import { client, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

type Env = Record<string, string>;

const commandOf = (...args: string[]) => [NODE, MAIN, 'verify', ...args];
const verify = (env: Env, ...args: string[]) => run({ command: commandOf(...args), env });

/** A data directory in which a server has stored plants of alice and of bob. */
async function usedDirectory(env: Env = {}): Promise<string> {
  const { dir, as, close } = await startService(env);
  expect((await as('alice').create(1, { name: 'Fern', tag: 'indoor' })).status).toBe(200);
  expect((await as('bob').create(1, { name: 'unit \u001f, line \u2028' })).status).toBe(200);
  expect((await as('alice').create(2, { name: 'Moss' })).status).toBe(200);
  expect(await as('alice').list()).toHaveLength(2); // the view has come so far, too
  await close();
  return dir;
}

/** A data directory with so many plants in its log, and no view yet. */
async function dirOf(plants: number): Promise<string> {
  const dir = tempDir();
  const log = await openIn(dir);
  const surroundings = { now: () => new Date(0), newId: randomUUID, correlationId: 'c' };
  const plant = (i: number) =>
    createPlant(log, { user: i % 2 ? 'alice' : 'bob', id: BigInt(i), name: `Plant ${i}` }, surroundings);
  await Promise.all(Array.from({ length: plants }, (_, i) => plant(i)));
  await log.close();
  return dir;
}

const malformed = () => ({ id: randomUUID(), type: 'PlantCreated', data: { name: 5 }, metadata: {} });

function inView(dir: string, sql: string): void {
  using db = new DatabaseSync(join(dir, 'view.db'));
  db.exec(sql);
}

const contentsOf = (dir: string): Map<string, string> =>
  new Map(readdirSync(dir).map((name) => [name, readFileSync(join(dir, name)).toString('base64')]));

describe('npm run verify', () => {
  test('prints what the log hashes to on stdout and nothing on stderr, in words or in one line of JSON, and changes no byte', async () => {
    const dir = await usedDirectory();
    const before = contentsOf(dir);
    const [words, json] = await Promise.all([
      run({ command: ['npm', 'run', '-s', 'verify'], env: { DATA_DIR: dir } }),
      verify({ DATA_DIR: dir }, '--json'),
    ]);
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
      signal: null,
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

  test('reads what a server has acknowledged that was killed, and changes no byte of it', async () => {
    const dir = tempDir();
    const server = await startServer({ env: { DATA_DIR: dir } });
    const as = client(server.url, dir);
    for (const user of ['alice', 'bob'])
      expect((await as(user).create(1, { name: 'Fern' })).status).toBe(200);
    await server.kill();
    const data = ['log.db', 'log.db-wal', 'view.db', 'view.db-wal'];
    const before = contentsOf(dir);
    const { code, stdout } = await verify({ DATA_DIR: dir });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^size +2$/m) });
    const after = contentsOf(dir);
    for (const name of data) expect(before.get(name) === after.get(name), name).toBe(true);
    const again = await startServer({ env: { DATA_DIR: dir } });
    expect(await client(again.url, dir)('bob').list()).toEqual([{ name: 'Fern' }]);
  });

  test('where there is no view says so, and where there is no event gives the root of nothing', async () => {
    const [dir, { dir: empty, close }] = [await usedDirectory(), await startService()];
    await close();
    rmSync(join(dir, 'view.db'));
    const ended = await Promise.all([
      verify({ DATA_DIR: dir }, '--json'),
      verify({ DATA_DIR: empty }, '--expect', `0:${EMPTY_ROOT}`),
    ]);
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
    const dir = await usedDirectory();
    const log = await openIn(dir);
    const event = malformed();
    await log.append('plant-alice/3', event, NO_STREAM);
    await log.close();
    const [found, passed] = await Promise.all([
      verify({ DATA_DIR: dir }),
      verify({ DATA_DIR: dir, SKIP_EVENTS: event.id }),
    ]);
    expect(found).toMatchObject({
      code: 1,
      stderr: '1 fault: the log or its view is not as it has to be\n',
    });
    expect(found.stdout).toMatch(/^faults {4}1\n {10}position 4: its data is not that of a PlantCreated\n$/m);
    expect(passed).toMatchObject({ code: 0, stderr: '' });
    expect(passed.stdout).toMatch(/^skipped {3}1 event named in SKIP_EVENTS\nfaults {4}none$/m);
  });

  test('counts all faults and lists a hundred, in both forms', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const append = (i: number) => log.append(`plant-alice/${i}`, malformed(), NO_STREAM);
    await Promise.all(Array.from({ length: 150 }, (_, i) => append(i)));
    await log.close();
    const [words, json] = await Promise.all([verify({ DATA_DIR: dir }), verify({ DATA_DIR: dir }, '--json')]);
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
    const dir = await usedDirectory();
    const evil = '\x1b]0;mallory\x07\x1b[2J\r\n\x9b31m\u202e\u2066\u2028\x7f';
    inView(
      dir,
      `UPDATE plants SET plant = '{"name":"${evil}"}' WHERE position = 1;
       INSERT INTO plants VALUES ('mallory${evil}', 9, '{}')`,
    );
    const [words, json] = await Promise.all([verify({ DATA_DIR: dir }), verify({ DATA_DIR: dir }, '--json')]);
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

/** Verifies in this process, as often as it can until the end of something; each time all is opened anew. */
async function verifyUntil(end: Promise<unknown>, dir: string): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  let isOver = false;
  void end.finally(() => {
    isOver = true;
  });
  const skip = new Set<string>();
  while (!isOver) {
    const view = ViewComparison.open(join(dir, 'view.db'), skip);
    const log = openSqliteLog(join(dir, 'log.db'), { exact: true });
    const { signal } = new AbortController();
    verdicts.push(await verifyLog({ log, gapless: true, view, skip, signal }));
    view?.close();
    await log.close();
    await nextTurn();
  }
  return verdicts;
}

describe('verify beside a server', () => {
  test('that goes on creating plants finds nothing, however far the view is behind', async () => {
    const dir = tempDir();
    const server = await startServer({ env: { DATA_DIR: dir } });
    const as = client(server.url, dir);
    let isOver = false;
    let created = 0;
    const post = async (user: string): Promise<void> => {
      for (let id = 1; !isOver; id++) {
        expect((await as(user).create(id, { name: `${user}'s ${id}` })).status).toBe(200);
        created++;
      }
    };
    const posting = Promise.all(['alice', 'alice2', 'bob', 'bob2'].map(post));
    const processes = (async () => {
      const first = await verify({ DATA_DIR: dir }, '--json');
      const { size, root } = JSON.parse(first.stdout);
      return [first, await verify({ DATA_DIR: dir }, '--json', '--expect', `${size}:${root}`)];
    })();
    const verdicts = await verifyUntil(processes, dir);
    isOver = true;
    await posting;
    expect(verdicts.flatMap(({ faults }) => faults)).toEqual([]);
    for (const { code, stderr } of await processes) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const sizes = new Set(verdicts.map(({ size }) => size));
    expect(sizes.size).toBeGreaterThan(2);
    expect(verdicts.some(({ size, view }) => BigInt(size) > (view ?? 0n))).toBe(true);
    process.kill(server.pid, 'SIGTERM');
    await server.ended;
    const { stdout } = await verify({ DATA_DIR: dir }, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ size: created, view: `${created}`, faultCount: 0 });
  });

  test('that builds its view anew says so, or finds nothing', async () => {
    const dir = await dirOf(10_000);
    const isReady = async (): Promise<void> => {
      const server = await startServer({ env: { DATA_DIR: dir } });
      while ((await fetch(`${server.url}/health/ready`)).status !== 200);
      process.kill(server.pid, 'SIGTERM');
      await server.ended;
    };
    await isReady();
    // Of another event: the server will not go on from it.
    inView(dir, "UPDATE checkpoint SET event_id = 'x'");
    const verdicts = await verifyUntil(isReady(), dir);
    const outcomes = verdicts.map(({ faults }) => {
      const said = faults.map(({ fault }) => fault);
      if (said.length === 0) return 'nothing';
      if (said.includes('the view has been built anew meanwhile: verify again')) return 'anew';
      return said[0];
    });
    const before = 'the checkpoint of the view names an event that is not there';
    expect(outcomes.filter((one) => ![before, 'nothing', 'anew'].includes(`${one}`))).toEqual([]);
    const { stdout } = await verify({ DATA_DIR: dir }, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ size: 10_000, faultCount: 0 });
  });
});

describe('verify on EventStoreDB', () => {
  test('gives the same root as on its copy in a directory, gaps or none', async () => {
    const double = await startDouble();
    double.write('invoice-1', { data: { due: true } });
    const dir = await usedDirectory({ EVENTSTOREDB_URL: double.url, DATA_DIR: tempDir() });
    const to = tempDir();
    const copied = await run({ command: [NODE, MAIN, 'copy', '--from', double.url, '--to', to] });
    expect(copied).toMatchObject({ code: 0 });
    const [there, here] = await Promise.all([
      verify({ DATA_DIR: dir, EVENTSTOREDB_URL: double.url }, '--json'),
      verify({ DATA_DIR: to }, '--json'),
    ]);
    const { root, position } = JSON.parse(here.stdout);
    expect({ code: here.code, position }).toEqual({ code: 0, position: '3' });
    expect(there).toMatchObject({ code: 0, stderr: '' });
    const last = `${double.log.all.at(-1)?.position}`;
    expect(JSON.parse(there.stdout)).toMatchObject({ size: 3, root, position: last, view: last, faults: [] });
    const again = await verify({ DATA_DIR: dir, EVENTSTOREDB_URL: double.url }, '--expect', `3:${root}`);
    expect(again).toMatchObject({ code: 0, stderr: '' });
  });

  test('that is away ends with one line', async () => {
    const double = await startDouble();
    await double.stop();
    const { code, stdout, stderr } = await verify({ DATA_DIR: tempDir(), EVENTSTOREDB_URL: double.url });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\n$/);
  });
});

describe('Ctrl-C', () => {
  test('ends verify at once, without a word more, while the log does not answer', async () => {
    const double = await startDouble();
    const dir = await usedDirectory({ EVENTSTOREDB_URL: double.url, DATA_DIR: tempDir() });
    double.slow(60_000);
    const { read, subscribe } = double.calls;
    const verifying = start({
      command: ['npm', 'run', '-s', 'verify'],
      env: { DATA_DIR: dir, EVENTSTOREDB_URL: double.url },
    });
    while (double.calls.read === read && double.calls.subscribe === subscribe)
      await new Promise((resolve) => setTimeout(resolve, 5));
    signalGroup(verifying.pid, 'SIGINT');
    const pressed = performance.now();
    const { code, signal } = await verifying.ended;
    expect(performance.now() - pressed).toBeLessThan(2_000);
    expect(code === 130 || signal === 'SIGINT').toBe(true);
    expect(verifying.stdout()).toBe('');
    expect(verifying.stderr()).toBe('');
  });

  const onTerminal = (command: string[]) => {
    const quoted = command.map((part) => `'${part}'`).join(' ');
    return ['script', '-qec', quoted, '/dev/null'];
  };
  const hasTerminal = canRun('verify on a terminal', onTerminal(['true']));

  test.runIf(hasTerminal)('on a terminal ends the bar of verify, and verify with it', async () => {
    const dir = await dirOf(100_000);
    const verifying = start({ command: onTerminal(commandOf()), env: { DATA_DIR: dir } });
    await verifying.printed(/verifying .* events/);
    verifying.stdin.write('\x03');
    const pressed = performance.now();
    expect((await verifying.ended).code).toBe(128 + 2);
    expect(performance.now() - pressed).toBeLessThan(2_000);
    expect(verifying.stdout()).not.toMatch(/root|^\s+at /m);
  });

  test.runIf(hasTerminal)('is not needed: a bar goes to the end, and the root comes after it', async () => {
    const dir = await dirOf(2_000);
    const { code, stdout } = await run({ command: onTerminal(commandOf()), env: { DATA_DIR: dir } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/verifying .*100% \| 2000 events.*^size +2000\r\n.*^faults +none\r\n$/ms);
  });
});

import { randomUUID } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { ViewComparison } from '../../projections/viewComparison.ts';
import { verifyLog } from '../../src/audit/verify.ts';
import { NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { createPlant } from '../../src/plants/plant.ts';
import { openIn, startDouble } from '../copy/logs.ts';
import { everything } from '../eventStore/contract.ts';
import { canRun, MAIN, NODE, run, signalGroup, start, startServer } from '../support/process.ts';
import { client, type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const REBUILD = [NODE, MAIN, 'rebuild'];

type Env = Record<string, string>;

const rebuild = (env: Env) => run({ command: REBUILD, env });

const rebuilt = (events: number) => ({
  code: 0,
  signal: null,
  stdout: '',
  stderr: `the view has been built anew from ${events} events\n`,
});

const viewIn = (dir: string): string => join(dir, 'view.db');

const GARDEN: [user: string, id: number, plant: Plant][] = [
  ['alice', 1, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1, { name: '', tag: '' }],
  ['alice', 2, { name: 'unit \u001f, nul \0, line \u2028' }],
  ['bob', 2, { name: 'emoji 🌱👩‍🌾' }],
];

type Lists = [ofAlice: Plant[], ofBob: Plant[]];

async function listsOf({ as }: Pick<Awaited<ReturnType<typeof startService>>, 'as'>): Promise<Lists> {
  return [await as('alice').list(), await as('bob').list()];
}

const LISTS: Lists = [
  [GARDEN[0]?.[2] as Plant, GARDEN[2]?.[2] as Plant],
  [GARDEN[1]?.[2] as Plant, GARDEN[3]?.[2] as Plant],
];

/** A data directory in which a server has stored the garden. */
async function usedDirectory(env: Env = {}): Promise<string> {
  const service = await startService(env);
  for (const [user, id, plant] of GARDEN) expect((await service.as(user).create(id, plant)).status).toBe(200);
  expect(await listsOf(service)).toEqual(LISTS);
  await service.close();
  return service.dir;
}

/** What the next server answers from the view, which it finds good: it begins where the view ends. */
async function answersOf(env: Env, position = '4'): Promise<Lists> {
  const service = await startService(env);
  const lists = await listsOf(service);
  const begun = service.log().filter(({ msg }) => /anew|caught up/.test(msg));
  expect(begun, `from ${position}`).toEqual([]);
  await service.close();
  return lists;
}

/** All that verify finds in a directory, and how far its view has come. */
async function verdictOf(dir: string): Promise<{ view: bigint | undefined; faults: object[] }> {
  const skip = new Set<string>();
  const view = ViewComparison.open(viewIn(dir), skip);
  const log = openSqliteLog(join(dir, 'log.db'), { exact: true });
  try {
    return await verifyLog({ log, gapless: true, view, skip, signal: new AbortController().signal });
  } finally {
    view?.close();
    await log.close();
  }
}

describe('npm run rebuild', () => {
  test('builds a view that answers the same, in a new file', async () => {
    const dir = await usedDirectory();
    const { ino } = statSync(viewIn(dir));
    expect(await run({ command: ['npm', 'run', '-s', 'rebuild'], env: { DATA_DIR: dir } })).toEqual(
      rebuilt(4),
    );
    expect(statSync(viewIn(dir)).ino).not.toBe(ino);
    expect(statSync(viewIn(dir)).mode & 0o777).toBe(0o600);
    expect(await verdictOf(dir)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test.for<[string, (dir: string) => void]>([
    ['is missing', (dir) => rmSync(viewIn(dir))],
    ['is garbage', (dir) => writeFileSync(viewIn(dir), Buffer.alloc(10_000, 'garbage'))],
  ])('builds the view where it %s', async ([, tamper]) => {
    const dir = await usedDirectory();
    tamper(dir);
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(4));
    expect(await verdictOf(dir)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR: dir })).toEqual(LISTS);
  });

  test('builds the view where a server has been killed, from what it has acknowledged', async () => {
    const DATA_DIR = tempDir();
    const server = await startServer({ env: { DATA_DIR } });
    const as = client(server.url, DATA_DIR);
    for (const [user, id, plant] of GARDEN) expect((await as(user).create(id, plant)).status).toBe(200);
    await server.kill();
    expect(statSync(`${viewIn(DATA_DIR)}-wal`).size).toBeGreaterThan(0);
    expect(await rebuild({ DATA_DIR })).toEqual(rebuilt(4));
    expect(readdirSync(DATA_DIR).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
    expect(await verdictOf(DATA_DIR)).toMatchObject({ view: 4n, faults: [] });
    expect(await answersOf({ DATA_DIR })).toEqual(LISTS);
  });

  test('builds the view of EventStoreDB', async () => {
    const { url: EVENTSTOREDB_URL } = await startDouble();
    const env = { EVENTSTOREDB_URL, DATA_DIR: tempDir() };
    await usedDirectory(env);
    rmSync(viewIn(env.DATA_DIR));
    expect(await rebuild(env)).toEqual(rebuilt(4));
    expect(await answersOf(env)).toEqual(LISTS);
  });

  test('is refused, in one line, while a server holds the directory, whose view stays', async () => {
    const service = await startService();
    for (const [user, id, plant] of GARDEN) await service.as(user).create(id, plant);
    const before = readdirSync(service.dir).sort();
    const { ino } = statSync(viewIn(service.dir));
    expect(await rebuild({ DATA_DIR: service.dir })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: `the data directory ${service.dir} cannot be used: another server is using it\n`,
    });
    expect(readdirSync(service.dir).sort()).toEqual(before);
    expect(statSync(viewIn(service.dir)).ino).toBe(ino);
    expect(await listsOf(service)).toEqual(LISTS);
  });

  test('is refused, in one line, where there is no log, and makes nothing', async () => {
    const dir = tempDir();
    new PlantsByUser(viewIn(dir)).close();
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: `there is no log ${join(dir, 'log.db')}\n`,
    });
    expect(readdirSync(dir)).toEqual(['view.db']);
  });

  test('ends at a PlantCreated that is malformed, and the old view stays, unless SKIP_EVENTS names it', async () => {
    const dir = await usedDirectory();
    const log = await openIn(dir);
    const event = { id: randomUUID(), type: 'PlantCreated', data: { name: 5 }, metadata: {} };
    await log.append('plant-alice/3', event, NO_STREAM);
    await log.close();
    const [before, names] = [readFileSync(viewIn(dir)), readdirSync(dir)];
    expect(await rebuild({ DATA_DIR: dir })).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: `event ${event.id} at position 5 is no valid PlantCreated\n`,
    });
    expect(readFileSync(viewIn(dir)).equals(before)).toBe(true);
    expect(readdirSync(dir)).toEqual(names);
    const env = { DATA_DIR: dir, SKIP_EVENTS: event.id };
    expect(await rebuild(env)).toEqual(rebuilt(5));
    expect(await answersOf(env)).toEqual(LISTS);
  });
});

describe('a rebuild of many plants', () => {
  const PLANTS = 20_000;
  /** How far the old view has come, so that it can be told from a new one. */
  const OLD = 100n;
  const NEW = BigInt(PLANTS);

  let original: string;

  beforeAll(async () => {
    original = mkdtempSync(join(tmpdir(), 'plant-store-'));
    const onFatal = (error: Error): never => {
      throw error;
    };
    const log = await openSqliteEventStore({
      file: join(original, 'log.db'),
      now: () => new Date(),
      onFatal,
    });
    const surroundings = { now: () => new Date(0), newId: randomUUID, correlationId: 'c' };
    const plant = (i: number) =>
      createPlant(log, { user: i % 2 ? 'alice' : 'bob', id: BigInt(i), name: `Plant ${i}` }, surroundings);
    await Promise.all(Array.from({ length: PLANTS }, (_, i) => plant(i)));
    const view = new PlantsByUser(viewIn(original));
    view.reset(await log.mark());
    view.apply((await everything(log)).slice(0, Number(OLD)), new Set());
    view.close();
    await log.close();
    return () => rmSync(original, { recursive: true });
  });

  function copy(): string {
    const dir = tempDir();
    cpSync(original, dir, { recursive: true });
    return dir;
  }

  /** A rebuild that has begun to build. */
  async function begun(dir: string, command: readonly string[] = REBUILD) {
    const rebuilding = start({ command, env: { DATA_DIR: dir } });
    await vi.waitUntil(() => existsSync(`${viewIn(dir)}.new`), { timeout: 20_000, interval: 1 });
    return rebuilding;
  }

  /** How long each lives once it has begun to build, in milliseconds: the same in every run. */
  const LIVES = [0, ...fc.sample(fc.noBias(fc.integer({ min: 0, max: 300 })), { numRuns: 4, seed: 2026 })];

  test('killed at random moments leaves the old view or the new one, and the next server answers in full', async () => {
    const dir = copy();
    const left: (bigint | undefined)[] = [];
    for (const life of LIVES) {
      const rebuilding = await begun(dir);
      await pause(life);
      await rebuilding.kill();
      const { view, faults } = await verdictOf(dir);
      expect(faults).toEqual([]);
      left.push(view);
      const service = await startService({ DATA_DIR: dir });
      expect((await listsOf(service)).map((list) => list.length)).toEqual([PLANTS / 2, PLANTS / 2]);
      await service.close();
      for (const name of readdirSync(original)) cpSync(join(original, name), join(dir, name));
    }
    expect(left).toContain(OLD);
    expect(left.filter((view) => view !== OLD && view !== NEW)).toEqual([]);
    expect(await rebuild({ DATA_DIR: dir })).toEqual(rebuilt(PLANTS));
    expect(readdirSync(dir).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
    expect(await verdictOf(dir)).toMatchObject({ view: NEW, faults: [] });
  });

  test('ended by Ctrl-C leaves the old view and nothing else', async () => {
    const dir = copy();
    const before = readFileSync(viewIn(dir));
    const rebuilding = await begun(dir, ['npm', 'run', '-s', 'rebuild']);
    signalGroup(rebuilding.pid, 'SIGINT');
    const pressed = performance.now();
    const { code, signal } = await rebuilding.ended;
    expect(performance.now() - pressed).toBeLessThan(2_000);
    expect(code === 130 || signal === 'SIGINT').toBe(true);
    expect({ stdout: rebuilding.stdout(), stderr: rebuilding.stderr() }).toEqual({ stdout: '', stderr: '' });
    expect(readFileSync(viewIn(dir)).equals(before)).toBe(true);
    expect(readdirSync(dir).sort()).toEqual(['lock.db', ...readdirSync(original)].sort());
  });

  test('tells every two seconds how far it is, where there is no terminal', async () => {
    const rebuilding = await begun(copy());
    process.kill(rebuilding.pid, 'SIGSTOP');
    await pause(2_100); // as if the machine were slow
    process.kill(rebuilding.pid, 'SIGCONT');
    expect((await rebuilding.ended).code).toBe(0);
    expect(rebuilding.stderr()).toMatch(
      /^rebuilding: \d+ events, \d+ %, \d+\/s, \d+ s left\nthe view has been built anew from 20000 events\n$/,
    );
    expect(rebuilding.stdout()).toBe('');
  });

  const quoted = REBUILD.map((part) => `'${part}'`).join(' ');
  const onTerminal = ['script', '-qec', `stty cols 80; exec ${quoted}`, '/dev/null'];
  const hasTerminal = canRun('a rebuild on a terminal', ['script', '-qec', 'true', '/dev/null']);

  test.runIf(hasTerminal)('on a terminal shows a bar with its rate and the time left', async () => {
    const { code, stdout } = await run({ command: onTerminal, env: { DATA_DIR: copy() } });
    expect(code).toBe(0);
    expect(stdout).toMatch(/ events \| \d+\/s \| \d+ s left.*100% \| 20000 events/s);
    expect(stdout).toMatch(/the view has been built anew from 20000 events\r\n$/);
  });

  test.runIf(hasTerminal)('on a terminal is ended by Ctrl-C, and the old view stays', async () => {
    const dir = copy();
    const rebuilding = start({ command: onTerminal, env: { DATA_DIR: dir } });
    await rebuilding.printed(/rebuilding .* events/);
    rebuilding.stdin.write('\x03');
    expect((await rebuilding.ended).code).toBe(128 + 2);
    expect(rebuilding.stdout()).not.toMatch(/anew|^\s+at /m);
    expect(readdirSync(dir).filter((name) => name.startsWith('view.db'))).toEqual(['view.db']);
    expect(await verdictOf(dir)).toMatchObject({ view: OLD, faults: [] });
  });
});

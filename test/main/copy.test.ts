import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { dirWith, startDouble } from '../copy/logs.ts';
import { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { canRun, MAIN, NODE, run, start, startServer } from '../support/process.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const commandOf = (from: string, to: string) => [NODE, MAIN, 'copy', '--from', from, '--to', to];
const copy = (from: string, to: string) => run({ command: commandOf(from, to) });

const GARDEN: [user: string, id: bigint, plant: Plant][] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', 1n, { name: '', tag: '' }],
  ['alice', -(2n ** 63n), { name: 'nul \0, quote ", line \u2028 \r\n' }],
  ['alice', 2n ** 63n - 1n, { name: 'emoji 🌱👩‍🌾', tag: '\ufeff' }],
  ['bob', 2n, { name: 'Moss' }],
];

describe('npm run copy', () => {
  test('moves the plants of everybody to EventStoreDB and back, and each service lists the same', async () => {
    const home = await startService();
    for (const [user, id, plant] of GARDEN) expect((await home.as(user).create(id, plant)).status).toBe(200);
    const lists = await listsOf(home);
    expect(lists.map((list) => list.length)).toEqual([3, 2]);
    await home.close();

    const double = await startDouble();
    expect(await copy(home.dir, double.url)).toEqual(
      ended('copied 5 events: both sides hold the same 5 events'),
    );
    const moved = await startService({ DATA_DIR: home.dir, EVENTSTOREDB_URL: double.url });
    expect(await listsOf(moved)).toEqual(lists);
    expect((await moved.as('alice').create(1n, { name: 'Fern', tag: 'indoor' })).status).toBe(200);
    expect((await moved.as('alice').create(1n, { name: 'Another' })).status).toBe(400);

    const dir = join(tempDir(), 'new', 'data');
    expect(await copy(double.url, dir)).toEqual(ended('copied 5 events: both sides hold the same 5 events'));
    expect(await copy(double.url, dir)).toEqual(
      ended('there was nothing to copy: both sides hold the same 5 events'),
    );
    expect(readdirSync(dir).sort()).toEqual(['lock.db', 'log.db']);
    expect([dir, join(dir, 'log.db')].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o600]);
    expect(await listsOf(await startService({ DATA_DIR: dir }))).toEqual(lists);
  });

  test('--help explains itself', async () => {
    const { code, stdout } = await run({ command: ['npm', 'run', '-s', 'copy', '--', '--help'] });
    expect(code).toBe(0);
    expect(stdout).toContain('npm run -s copy -- --from <url|dir> --to <url|dir>');
  });

  test('ends with 1 and one line where the target holds other plants', async () => {
    const [from, to] = [await dirWith(3), await dirWith(2)];
    const { code, stdout, stderr } = await copy(from, to);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^the target holds other events, and is left as it is: [^\n]+\n$/);
    expect(idsIn(to)).toHaveLength(2);
  });

  test('refuses the directory of a running service, on either side', async () => {
    const other = await dirWith(1);
    const DATA_DIR = tempDir();
    const server = await startServer({ env: { DATA_DIR } });
    const reason = `the data directory ${DATA_DIR} cannot be used: another server is using it, which has to be stopped first\n`;
    const refused = await Promise.all([copy(DATA_DIR, tempDir()), copy(other, DATA_DIR)]);
    expect(refused).toEqual([
      { code: 1, signal: null, stdout: '', stderr: `--from: ${reason}` },
      { code: 1, signal: null, stdout: '', stderr: `--to: ${reason}` },
    ]);
    expect((await fetch(`${server.url}/health/ready`)).status).toBe(200);
  });

  test('is ended at once by SIGINT and by SIGTERM', async () => {
    const from = [await dirWith(300), await dirWith(300)];
    const signals = ['SIGINT', 'SIGTERM'] as const;
    const endings = signals.map(async (signal, i) => {
      const double = await startDouble();
      const copying = start({ command: commandOf(from[i] as string, double.url) });
      await reached(() => double.log.all.length, 50);
      process.kill(copying.pid, signal);
      const { code, signal: by } = await copying.ended;
      return { code, by, isComplete: idsIn(double).length === 300 };
    });
    expect(await Promise.all(endings)).toEqual(signals.map((by) => ({ code: null, by, isComplete: false })));
  });

  const onTerminal = (command: string[]) => {
    const quoted = command.map((part) => `'${part}'`).join(' ');
    return ['script', '-qec', quoted, '/dev/null'];
  };
  const hasTerminal = canRun('a copy on a terminal', onTerminal(['true']));

  test.runIf(hasTerminal)('on a terminal shows bars', async () => {
    const [from, to] = [await dirWith(20), tempDir()];
    const { code, stdout } = await run({ command: onTerminal(commandOf(from, to)) });
    expect(code).toBe(0);
    expect(stdout).toMatch(/copying .*100% \| 20 events.*comparing .*100% \| 20 events/s);
    expect(stdout).toContain('copied 20 events: both sides hold the same 20 events');
  });

  test.runIf(hasTerminal)('on a terminal is ended at once by Ctrl-C', async () => {
    const double = await startDouble();
    double.slow(20);
    const copying = start({ command: onTerminal(commandOf(await dirWith(1_000), double.url)) });
    await copying.printed(/copying .* events/);
    copying.stdin.write('\x03');
    const pressed = performance.now();
    expect((await copying.ended).code).toBe(128 + 2);
    expect(performance.now() - pressed).toBeLessThan(2_000);
  });

  test('tells every two seconds how far it is, where there is no terminal', async () => {
    const double = await startDouble();
    double.slow(20);
    const copying = start({ command: commandOf(await dirWith(1_000), double.url) });
    await vi.waitUntil(() => copying.stderr() !== '', { timeout: 10_000 });
    expect(copying.stderr()).toMatch(/^copying: \d+ events, \d+ %, \d+\/s, \d+ s left\n$/);
  });
});

describe('a copy killed at random moments', () => {
  const EVENTS = 700;
  /** How many events each but the last may copy, and how long it then still lives: the same in every run. */
  const LIVES = fc.sample(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 0, max: 5 })), {
    numRuns: 5,
    seed: 2026,
  });

  /** Gives how many events there were after each kill. */
  async function killAgainAndAgain(from: string, to: string, count: () => number): Promise<number[]> {
    const counts: number[] = [];
    for (const [events, life] of LIVES) {
      const copying = start({ command: commandOf(from, to) });
      await reached(count, count() + events);
      await pause(life);
      await copying.kill();
      expect((await copying.ended).signal).toBe('SIGKILL');
      counts.push(count());
    }
    return counts;
  }

  test('ends complete in EventStoreDB, without duplicates and in order', async () => {
    const from = await dirWith(EVENTS);
    const double = await startDouble();
    const counts = await killAgainAndAgain(from, double.url, () => double.log.all.length);
    expect(counts.every((count) => count < EVENTS)).toBe(true);
    const { code, stdout } = await copy(from, double.url);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/hold the same 700 events\n$/),
    });
    expect(idsIn(double)).toEqual(idsIn(from));
  });

  test('ends complete in a directory, without duplicates and in order', async () => {
    const double = await startDouble();
    for (let i = 0; i < EVENTS; i++)
      double.write(`plant-u${i % 7}/${i}`, { data: { name: `${i}` }, metadata: {} });
    const to = await dirWith(0);
    const counts = await killAgainAndAgain(double.url, to, () => countIn(to));
    expect(counts.every((count) => count < EVENTS)).toBe(true);
    const { code, stdout } = await copy(double.url, to);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/hold the same 700 events\n$/),
    });
    expect(idsIn(to)).toEqual(idsIn(double));
  });
});

type Home = Awaited<ReturnType<typeof startService>>;

function listsOf({ as }: Home): Promise<Plant[][]> {
  return Promise.all(['alice', 'bob'].map((user) => as(user).list()));
}

function ended(result: string) {
  return { code: 0, signal: null, stdout: `${result}\n`, stderr: '' };
}

function idsIn(log: string | EventStoreDbDouble): string[] {
  if (log instanceof EventStoreDbDouble)
    return log.log.all.filter(({ stream }) => stream.startsWith(PLANT_STREAMS)).map(({ id }) => id);
  using db = new DatabaseSync(join(log, 'log.db'), { readOnly: true, timeout: 5_000 });
  return db
    .prepare('SELECT id FROM events ORDER BY position')
    .all()
    .map(({ id }) => id as string);
}

function countIn(dir: string): number {
  using db = new DatabaseSync(join(dir, 'log.db'), { readOnly: true, timeout: 5_000 });
  return Number(db.prepare('SELECT count(*) AS events FROM events').get()?.events);
}

async function reached(count: () => number, least: number): Promise<void> {
  await vi.waitUntil(() => count() >= least, { timeout: 20_000, interval: 5 });
}

import { existsSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { logWith, rowsIn } from '../support/logs.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { typed, withoutProgress } from './typed.ts';

const copying = (from: string, to: string) => typed(['copy', '--from', from, '--to', to]);
const copy = async (from: string, to: string) => withoutProgress(await copying(from, to));

const USAGE = 'npm run copy -- --from <url|dir> --to <url|dir>';
const SECRET = 'Hush-7.3';
const AWAY = `esdb://admin:${SECRET}@127.0.0.1:1?tls=false`;

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
    expect(await listsOf(await startService({ DATA_DIR: dir }))).toEqual(lists);
  });

  test('ends with 1 and one line where the target holds other plants', async () => {
    const [from, to] = [logWith({ events: 3, name: "'other ' || id" }), logWith({ events: 2 })];
    const { code, stdout, stderr } = await copy(from, to);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^the target holds other events, and is left as it is: [^\n]+\n$/);
    expect(rowsIn(join(to, 'log.db'))).toHaveLength(2);
  });

  test('refuses the directory of a running service, on either side', async () => {
    const { dir, url } = await startService();
    const reason = `the data directory ${dir} cannot be used: another server is using it, which has to be stopped first\n`;
    expect(await copy(dir, tempDir())).toEqual({ code: 1, stdout: '', stderr: `--from: ${reason}` });
    expect(await copy(logWith({ events: 1 }), dir)).toEqual({
      code: 1,
      stdout: '',
      stderr: `--to: ${reason}`,
    });
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  });

  test('prints every two seconds how far it is, where there is no terminal', async () => {
    const from = logWith({ events: 30 });
    let now = 0;
    using _ = vi.spyOn(performance, 'now').mockImplementation(() => (now += 100));
    const { code, stdout, stderr } = await copying(from, tempDir());
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'copied 30 events: both sides hold the same 30 events\n',
    });
    expect(stderr).toMatch(/^(copying: \d+ events, \d+ %, \d+\/s, \d+ s left\n)+(comparing: [^\n]+\n)*$/);
  });
});

type Home = Awaited<ReturnType<typeof startService>>;

function listsOf({ as }: Home): Promise<Plant[][]> {
  return Promise.all(['alice', 'bob'].map((user) => as(user).list()));
}

function ended(result: string) {
  return { code: 0, stdout: `${result}\n`, stderr: '' };
}

describe('a copy cannot begin', () => {
  test.each([
    ['without --from and --to', []],
    ['without --to', ['--from', './data']],
    ['without --from', ['--to', './data']],
    ['with two sources', ['--from', './data', '--from', './other', '--to', AWAY]],
  ])('%s', async (_, args) => {
    expect(await refusal(args)).toBe(`one --from and one --to are needed: ${USAGE}`);
  });

  test.each([
    ['with an option that is unknown', ['--form', './data', '--to', AWAY]],
    ['with an option without its value', ['--from', '--to', AWAY]],
    ['with places and no options', ['./data', AWAY]],
  ])('%s', async (_, args) => {
    expect(await refusal(args)).toBe(`usage: ${USAGE}`);
  });

  test.each([
    ['of an unknown scheme', `mongodb://admin:${SECRET}@localhost`],
    ['without its scheme', `admin:${SECRET}@localhost:2113`],
    ['with a slash too few', `esdb:/admin:${SECRET}@localhost:2113`],
    ['with an @ in the password', `esdb://admin:${SECRET}@@localhost:2113`],
    ['with an option that is unknown', `esdb://admin:${SECRET}@localhost?tsl=${SECRET}`],
  ])('with a connection string %s, which it does not repeat', async (_, url) => {
    for (const [option, args] of [
      ['--from', ['--from', url, '--to', tempDir()]],
      ['--to', ['--from', tempDir(), '--to', url]],
    ] as const)
      expect(await refusal([...args])).toMatch(new RegExp(`^${option} (must|has) `));
  });

  test('with a name that is empty', async () => {
    const message = '--to must be a connection string or a directory';
    expect(await refusal(['--from', './data', '--to', ''])).toBe(message);
  });

  test('from one directory to the same, however it is named', async () => {
    const dir = tempDir();
    const link = join(tempDir(), 'link');
    symlinkSync(dir, link);
    for (const same of [dir, `${dir}/`, link, relative('.', dir)])
      expect(await refusal(['--from', dir, '--to', same])).toBe(
        `--from and --to are the same place: ${USAGE}`,
      );
  });

  test.each([AWAY, AWAY.replace('esdb', 'kurrentdb')])('from one server to the same', async (same) => {
    expect(await refusal(['--from', AWAY, '--to', same])).toBe(
      `--from and --to are the same place: ${USAGE}`,
    );
  });

  test('from a directory without a log, which gets none', async () => {
    const to = join(tempDir(), 'to');
    const missing = join(tempDir(), 'missing');
    const empty = tempDir();
    const begun = tempDir();
    writeFileSync(join(begun, 'log.db'), '');
    for (const dir of [missing, empty, begun])
      expect(await refusal(['--from', dir, '--to', to])).toBe(
        `--from: there is no log in the directory ${dir}`,
      );
    expect([missing, to].map((dir) => existsSync(dir))).toEqual([false, false]);
    expect(readdirSync(empty)).toEqual([]);
    expect(statSync(join(begun, 'log.db')).size).toBe(0);
  });

  test('where a directory or its log is something else', async () => {
    const dir = tempDir();
    writeFileSync(join(dir, 'log.db'), 'no SQLite');
    expect(await refusal(['--from', dir, '--to', tempDir()])).toMatch(/^--from: the log .* cannot be used: /);
    const from = logWith({ events: 1 });
    expect(await refusal(['--from', from, '--to', dir])).toMatch(/^--to: the log .* cannot be used: /);
    const file = join(dir, 'log.db');
    expect(await refusal(['--from', from, '--to', file])).toMatch(
      /^--to: the data directory .* cannot be used: /,
    );
  });

  test('from or to a server that is away, or that does not take the user', async () => {
    const double = await startDouble({ users: { admin: 'another' } });
    const closed = double.url.replace('//', `//admin:${SECRET}@`);
    const dir = logWith({ events: 1 });
    const other = logWith({ events: 1 });
    const unwelcome = await refusal(['--from', other, '--to', closed]);
    stopClock();
    const [away] = await untilSettled(refusal(['--from', AWAY, '--to', tempDir()]));
    const [awayToo] = await untilSettled(refusal(['--from', dir, '--to', AWAY]));
    expect(away).toMatch(/^the source cannot be reached: /);
    expect(awayToo).toMatch(/^the target cannot be reached: /);
    expect(unwelcome).toMatch(/^--to: the server does not take the user or the password/);
  });
});

/** What is said in one line of a copy that cannot begin. */
async function refusal(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await typed(['copy', ...args]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(stderr).not.toContain(SECRET);
  return stderr.trimEnd();
}

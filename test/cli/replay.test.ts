import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { FakeEventStoreDb } from '../fakeEventStoreDb/server.ts';
import { expectRefused, runCli, startCli, succeeded } from '../support/cli.ts';
import { stopClock } from '../support/clock.ts';
import { auditorToken, linesOf } from '../support/eventStream.ts';
import { appendTo, logWith, plantOf } from '../support/logs.ts';
import { createPlants, type PlantOfUser } from '../support/plants.ts';
import { startService } from '../support/service.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const PLANTS: PlantOfUser[] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', -5n, { name: 'Oak' }],
  ['Zoë 🌱', 1n, { name: 'nul \0, quote ", backslash \\, line \u2028 \r\n' }],
  ['alice', -(2n ** 63n), { name: '\x1b[2J\u202e', tag: '\ufeff' }],
  ['a/b-c', 7n, { name: 'emoji 🌱👩‍🌾' }],
  ['bob', 2n ** 63n - 1n, { name: '', tag: '' }],
  ['\u202eecila', 1n, { name: '__proto__' }],
  ['bob', 1n, { name: 'Moss' }],
];

type Line = { subject: string; time: string; position: string; data: { id: string } };
const parsed = (stdout: string): Line[] =>
  stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const printed = (lines: string[]): string => lines.map((line) => `${line}\n`).join('');

type Store = 'the embedded log' | 'EventStoreDB';

const fake = await FakeEventStoreDb.start();
afterAll(() => fake.stop());
/** A service over each store, for the tests of this file: each has its own users. */
const homes: Record<Store, Home> = {
  'the embedded log': await startHome(),
  EventStoreDB: await startHome({ EVENTSTOREDB_URL: fake.url }),
};
type Home = Awaited<ReturnType<typeof startHome>>;

async function startHome(env: Record<string, string> = {}) {
  const service = await serviceOfFile(env);
  const token = await auditorToken(service.dir);
  return {
    env: { ...env, DATA_DIR: service.dir },
    post: (...plant: PlantOfUser) => createPlants(service, [plant]),
    /** The body of GET /events. */
    async overHttp(...args: string[]): Promise<string> {
      const query = new URLSearchParams();
      for (let i = 0; i < args.length; i += 2) query.append(`${args[i]}`.slice(2), `${args[i + 1]}`);
      return printed(await linesOf(service.url, { token, query: `?${query}` }));
    },
  };
}

describe.for(Object.keys(homes) as Store[])('npm run replay of %s', (store) => {
  test('prints all events or those of a filter, in order, with the same bytes as GET /events', async () => {
    const home = homes[store];
    for (const plant of PLANTS) {
      fake.write('other-1');
      await home.post(...plant);
    }
    const stdout = succeeded(await runCli(['replay'], home.env));
    const all = parsed(stdout).slice(-PLANTS.length);
    expect(all.map(({ subject, data }) => [subject, data])).toEqual(
      PLANTS.map(([user, id, plant]) => [`plant-${user}/${id}`, { id: `${id}`, user, ...plant }]),
    );
    const positions = all.map(({ position }) => BigInt(position));
    expect(positions).toEqual(positions.toSorted((a, b) => Number(a - b)));
    expect(stdout).toBe(await home.overHttp());

    const [third, fifth] = [all[2], all[4]] as [Line, Line];
    const within = all.filter(({ time }) => time >= third.time && time <= fifth.time);
    expect(within.length).toBeGreaterThanOrEqual(3);
    const ofPositions: [args: string[], expected: Line[]][] = [
      [['--after', third.position, '--limit', '2'], all.slice(3, 5)],
    ];
    const ofEvents: [args: string[], expected: Line[]][] = [
      [['--after', (all.at(-1) as Line).position, '--user', 'zed'], []],
      [['--user', 'bob', '--id', '-5'], [all[1] as Line]],
      [['--since', third.time, '--until', fifth.time], within],
      [['--type', 'PlantCreated', '--id', '1', '--user', '\u202eecila'], [all[6] as Line]],
    ];
    // The store affects no other filter, and each command on EventStoreDB starts a thread.
    for (const [args, expected] of store === 'EventStoreDB' ? ofPositions : [...ofPositions, ...ofEvents]) {
      const stdout = succeeded(await runCli(['replay', ...args], home.env));
      expect(parsed(stdout)).toEqual(expected);
      expect(stdout).toBe(await home.overHttp(...args));
    }
  });

  test('with --follow prints each new event, until it is stopped between two lines', async () => {
    const home = homes[store];
    await home.post('carol', 1, { name: 'Ivy' });
    const { position: ivy } = parsed(await home.overHttp()).at(-1) as Line;
    const ofDave = startCli(['replay', '--follow', '--user', 'dave', '--after', ivy], home.env);
    const isEmbedded = store === 'the embedded log'; // each command on EventStoreDB starts a thread
    const all = isEmbedded && startCli(['replay', '--follow'], home.env);
    if (all) await all.printed(/Ivy.*\n/);
    const started = all ? [ofDave, all] : [ofDave];
    await home.post('dave', 1, { name: 'Elm' });
    for (const { printed } of started) await printed(/Elm.*\n/);

    let isPosting = true;
    const posting = (async () => {
      for (let i = 0; isPosting; i++)
        await home.post(i % 2 === 0 ? 'carol' : 'dave', 1_000 + i, { name: `${i}` });
    })();
    for (const { printed } of started) await printed(/"name":"5".*\n/);
    for (const { stop } of started) stop();
    const endings = await Promise.all(started.map(({ ended }) => ended));
    isPosting = false;
    await posting;
    const expected = [await home.overHttp('--user', 'dave'), await home.overHttp()];
    for (const [i, { code, stdout, stderr }] of endings.entries()) {
      expect({ code, stderr }).toEqual({ code: null, stderr: '' });
      expect(stdout).toMatch(/\n$/);
      expect(expected[i]?.startsWith(stdout)).toBe(true);
    }
  });
});

test('npm run replay prints all events that existed at its start, while the service handles POSTs', async () => {
  const home = homes['the embedded log'];
  for (const id of [1, 2, 3]) await home.post('erin', id, { name: `${id}` });
  const replaying = startCli(['replay'], home.env);
  const posting = (async () => {
    for (let id = 1_000; id < 1_005; id++) await home.post('erin', id, { name: `${id}` });
  })();
  replaying.pauseReader(posting);
  const stdout = succeeded(await replaying.ended);
  await posting;
  expect(parsed(stdout).length).toBeGreaterThanOrEqual(3);
  expect((await home.overHttp()).startsWith(stdout)).toBe(true);
});

test('npm run replay prints an event with spaces in its JSON like GET /events', async () => {
  const dir = appendTo(tempDir(), plantOf('alice', 1, 'Fern'), {
    ...plantOf('bob', 2, 'Oak'),
    data: '{"id": "2", "user": "bob", "name": "Oak"}',
  });
  const { url } = await startService({ DATA_DIR: dir });
  const overHttp = await linesOf(url, { token: await auditorToken(dir) });
  expect(overHttp).toHaveLength(2);
  expect((await runCli(['replay'], { DATA_DIR: dir })).stdout).toBe(printed(overHttp));
});

test('npm run replay prints each event once to a reader that pauses longer than the idle timeout', async () => {
  const EVENTS = 1_600; // more than one batch
  stopClock();
  const replaying = startCli(['replay'], { DATA_DIR: logWith({ events: EVENTS }) });
  let resume = () => {};
  replaying.pauseReader(new Promise<void>((resolve) => (resume = resolve)));
  await replaying.printed(/"plant-alice\/1"/);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(parsed(replaying.stdout()).length).toBeLessThan(EVENTS);
  resume();
  const positions = parsed(succeeded(await replaying.ended)).map(({ position }) => position);
  expect(positions).toEqual(Array.from({ length: EVENTS }, (_, i) => `${i + 1}`));
});

describe('npm run replay -- --table', () => {
  test('prints a heading and a row per event, without control characters', async () => {
    const written = (stream: string, type: string, second: number, data: Record<string, string>) => ({
      ...{ stream, type, data, id: `e${second}` },
      metadata: { occurredAt: `2026-03-01T12:00:0${second}.000Z` },
    });
    const dir = appendTo(
      tempDir(),
      written('plant-alice/1', 'PlantCreated', 1, { id: '1', user: 'alice', name: 'Fern' }),
      written('plant-\u202eecila/1', 'PlantCreated', 2, {
        id: '1',
        user: '\u202eecila',
        name: 'a\u2028b\u2029',
      }),
      written('plant-\x1b[2J\x07\r\n/1', 'Plant\u0085\u200bWatered', 3, { name: '\x1b]0;title\x9b' }),
      written('plant-bob/2', 'PlantCreated', 4, { id: '2', user: 'bob', name: 'emoji 🌱, Zoë' }),
    );
    const stdout = succeeded(await runCli(['replay', '--table'], { DATA_DIR: dir }));
    expect(stdout.split('\n')).toEqual([
      '  position  time                      type          stream                data',
      '         1  2026-03-01T12:00:01.000Z  PlantCreated  plant-alice/1         {"id":"1","user":"alice","name":"Fern"}',
      '         2  2026-03-01T12:00:02.000Z  PlantCreated  plant-\\u{202e}ecila/1        {"id":"1","user":"\\u{202e}ecila","name":"a\\u{2028}b\\u{2029}"}',
      '         3  2026-03-01T12:00:03.000Z  Plant\\u{85}\\u{200b}Watered  plant-\\u{1b}[2J\\u{7}\\u{d}\\u{a}/1       {"name":"\\u001b]0;title\\u{9b}"}',
      '         4  2026-03-01T12:00:04.000Z  PlantCreated  plant-bob/2           {"id":"2","user":"bob","name":"emoji 🌱, Zoë"}',
      '',
    ]);
  });

  test.for([
    ['--type', 'Nothing'],
    ['--after', '3'],
    ['--limit', '0'],
  ])('prints only the heading if no event matches %s %s', async (args) => {
    const stdout = succeeded(
      await runCli(['replay', '--table', ...args], { DATA_DIR: logWith({ events: 3 }) }),
    );
    expect(stdout).toMatch(/^ *position +time[^\n]+\n$/);
  });
});

describe('npm run replay reports in one line, and prints nothing else, for', () => {
  test.for([0, 3, 500, 501])('an unknown user, in a log of %i events', async (events) => {
    const DATA_DIR = logWith({ events });
    for (const args of [[], ['--follow'], ['--table']])
      expectRefused(await runCli(['replay', '--user', 'zed', ...args], { DATA_DIR }), /"zed"/);
  });

  test.for<[what: string, line: RegExp, ...options: string[]]>([
    ['a position beyond the end', /--after .*3/, '--after=4', '--after=4 --follow'],
    ['an invalid position', /--after /, '--after=s.3', '--after=03', '--after=-1', '--after='],
    ['a position beyond 64 bits', /--after /, '--after=9223372036854775808'],
    ['an invalid start', /--since .*RFC 3339/, '--since=yesterday', '--since=2026-03-01'],
    ['an invalid end', /--until .*RFC 3339/, '--until=2026-02-30T12:00:00Z', '--until=2026-03-01T12:00:00'],
    ['an empty time', /--until .*RFC 3339/, '--until='],
    [
      'a start after the end',
      /--since .*--until/,
      '--since=2026-03-01T12:00:01Z --until=2026-03-01T12:00:00Z',
    ],
    ['an invalid limit', /--limit /, '--limit=-1', '--limit=1e3', '--limit='],
    ['an invalid ID', /--id /, '--id=07', '--id=9223372036854775808', '--id='],
    ['an invalid user', /--user /, '--user=', '--user=ali\nce'],
    ['an empty type', /--type /, '--type='],
    ['two users', /--user /, '--user=alice --user=bob'],
    ['two limits', /--limit /, '--limit=1 --limit=2'],
  ])('%s', async ([, line, ...options]) => {
    const DATA_DIR = logWith({ events: 3 });
    for (const option of options)
      expectRefused(await runCli(['replay', ...option.split(' ')], { DATA_DIR }), line);
  });

  test('a position of EventStoreDB without an event', async () => {
    const server = await startFakeServer();
    const [first = 0n, second = 0n] = ['plant-alice/1', 'plant-bob/1'].map((to) => server.write(to).position);
    const env = { DATA_DIR: join(tempDir(), 'data'), EVENTSTOREDB_URL: server.url };
    expectRefused(await runCli(['replay', '--after', `${(first + second) / 2n}`], env), /--after /);
    expect(existsSync(env.DATA_DIR)).toBe(false);
    expect(server.log.all).toHaveLength(2);
  });
});

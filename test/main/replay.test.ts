import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { expectRefused, typed } from '../commands/typed.ts';
import { dirWith, openIn, startDouble } from '../copy/logs.ts';
import { auditorToken, linesOf } from '../support/eventStream.ts';
import { MAIN, NODE, type Process, run, signalGroup, start } from '../support/process.ts';
import { type Plant, startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const REPLAY = [NODE, MAIN, 'replay'];
/** Less than a command may take to put away what it has begun, in milliseconds. */
const AT_ONCE = 3_000;
const ONE_LINE = /^[^\n]+\n$/;

const GARDEN: [user: string, id: bigint, plant: Plant][] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', -5n, { name: 'Oak' }],
  ['Zoë 🌱', 1n, { name: 'nul \0, quote ", backslash \\, line \u2028 \r\n' }],
  ['alice', -(2n ** 63n), { name: '\x1b[2J\u202e', tag: '\ufeff' }],
  ['a/b-c', 7n, { name: 'emoji 🌱👩‍🌾' }],
  ['bob', 2n ** 63n - 1n, { name: '', tag: '' }],
  ['\u202eecila', 1n, { name: '__proto__' }],
  ['bob', 1n, { name: 'Moss' }],
];

type Line = { subject: string; time: string; position: string; data: object };
const parsed = (stdout: string): Line[] =>
  stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

const STORES = [
  { store: 'the embedded log', open: async () => ({ env: {}, disturb: () => {} }) },
  {
    store: 'EventStoreDB',
    open: async () => {
      const double = await startDouble();
      return { env: { EVENTSTOREDB_URL: double.url }, disturb: () => void double.write('other-1') };
    },
  },
];

describe.for(STORES)('npm run replay of $store', ({ open }) => {
  async function startHome() {
    const { env, disturb } = await open();
    const service = await startService(env);
    const token = await auditorToken(service.dir);
    const settings = { DATA_DIR: service.dir, ...env };
    return {
      settings,
      disturb,
      command: (...args: string[]) => ({ command: [...REPLAY, ...args], env: settings }),
      npm: (...args: string[]) => ({ command: ['npm', 'run', '-s', 'replay', '--', ...args], env: settings }),
      async post(user: string, id: bigint | number, plant: Plant): Promise<void> {
        const { status } = await service.as(user).create(id, plant);
        if (status !== 200) throw new Error(`${plant.name} is answered with ${status}`);
      },
      /** What GET /events answers. */
      async overHttp(...args: string[]): Promise<string> {
        const query = new URLSearchParams();
        for (let i = 0; i < args.length; i += 2) query.append(`${args[i]}`.slice(2), `${args[i + 1]}`);
        return (await linesOf(service.url, { token, query: `?${query}` }))
          .map((line) => `${line}\n`)
          .join('');
      },
    };
  }

  type Home = Awaited<ReturnType<typeof startHome>>;

  async function plantGarden({ post, disturb }: Home): Promise<void> {
    for (const [user, id, plant] of GARDEN) {
      disturb();
      await post(user, id, plant);
    }
  }

  /** Posts for alice and bob, one after the other, until told to stop; gives how many there were. */
  function postOn({ post }: Home) {
    let going = true;
    const posting = (async () => {
      let count = 0;
      for (; going; count++)
        await post(count % 2 === 0 ? 'alice' : 'bob', 1_000 + count, { name: `${count}` });
      return count;
    })();
    return async (): Promise<number> => {
      going = false;
      return posting;
    };
  }

  test('prints what was posted, in order, in the bytes of GET /events', async () => {
    const home = await startHome();
    await plantGarden(home);
    const { stdout, ...ended } = await run(home.npm());
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' });
    const lines = parsed(stdout);
    expect(lines.map(({ subject, data }) => [subject, data])).toEqual(
      GARDEN.map(([user, id, plant]) => [`plant-${user}/${id}`, { id: `${id}`, user, ...plant }]),
    );
    const positions = lines.map(({ position }) => BigInt(position));
    expect(positions).toEqual(positions.toSorted((a, b) => Number(a - b)));
    expect(stdout).toBe(await home.overHttp());
  });

  test('prints what fits a filter, as GET /events does', async () => {
    const home = await startHome();
    await plantGarden(home);
    const all = parsed(await home.overHttp());
    const [third, fifth] = [all[2], all[4]] as [Line, Line];
    const within = all.filter(({ time }) => time >= third.time && time <= fifth.time);
    const asked: [args: string[], expected: Line[]][] = [
      [['--user', 'bob', '--id', '-5'], [all[1] as Line]],
      [['--after', third.position, '--limit', '2'], all.slice(3, 5)],
      [['--since', third.time, '--until', fifth.time], within],
      [['--type', 'PlantCreated', '--id', '1', '--user', '\u202eecila'], [all[6] as Line]],
      [['--after', (all.at(-1) as Line).position, '--user', 'zed'], []],
    ];
    for (const [args, expected] of asked) {
      const { stdout, ...ended } = await typed(['replay', ...args], home.settings);
      expect(ended).toEqual({ code: 0, stderr: '' });
      expect(parsed(stdout)).toEqual(expected);
      expect(stdout).toBe(await home.overHttp(...args));
    }
    expect(within.length).toBeLessThan(all.length);
  });

  test('prints whole what was there when it began, while the service takes posts', async () => {
    const home = await startHome();
    await plantGarden(home);
    const stop = postOn(home);
    const { code, stdout, stderr } = await run(home.command());
    expect(await stop()).toBeGreaterThan(0);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(parsed(stdout).length).toBeGreaterThanOrEqual(GARDEN.length);
    expect((await home.overHttp()).startsWith(stdout)).toBe(true);
  });

  test('with --follow goes on with each new event, until a signal ends it at once between two lines', async () => {
    const home = await startHome();
    await home.post('alice', 1, { name: 'Fern' });
    const following = [start(home.command('--follow')), start(home.command('--follow'))];
    const [fern] = parsed(await home.overHttp()) as [Line];
    // A terminal signals npm and what it runs, and npm passes it on: the signal comes more than once.
    following.push(
      start(home.npm('--follow')),
      start(home.command('--follow', '--user', 'bob', '--after', fern.position)),
    );
    await Promise.all(following.slice(0, 3).map(({ printed }) => printed(/Fern.*\n/)));
    await home.post('bob', 1, { name: 'Moss' });
    await Promise.all(following.map(({ printed }) => printed(/Moss.*\n/)));
    const stop = postOn(home);
    await Promise.all(following.map(({ printed }) => printed(/"name":"5".*\n/)));

    const since = performance.now();
    const [first, second, byNpm, last] = following as [Process, Process, Process, Process];
    process.kill(first.pid, 'SIGTERM');
    signalGroup(byNpm.pid, 'SIGINT');
    process.kill(last.pid, 'SIGINT');
    for (let over = false; !over; ) {
      signalGroup(second.pid, 'SIGINT');
      over = await Promise.race([second.ended.then(() => true), pause(0, false)]);
    }
    const endings = await Promise.all(following.map(({ ended }) => ended));
    expect(performance.now() - since).toBeLessThan(AT_ONCE);
    await stop();
    expect(endings).toEqual([
      { code: null, signal: 'SIGTERM' },
      { code: null, signal: 'SIGINT' },
      { code: null, signal: 'SIGINT' },
      { code: null, signal: 'SIGINT' },
    ]);
    const [all, ofBob] = await Promise.all([home.overHttp(), home.overHttp('--user', 'bob')]);
    for (const { stdout, stderr } of following) {
      expect(stderr()).toBe('');
      expect(stdout()).toMatch(/\n$/);
    }
    for (const { stdout } of [first, second, byNpm]) expect(all.startsWith(stdout())).toBe(true);
    expect(ofBob.startsWith(last.stdout())).toBe(true);
  });
});

test('npm run replay prints an event whose JSON somebody else has spaced as GET /events does', async () => {
  const { dir, as, close } = await startService();
  await as('alice').create(1, { name: 'Fern' });
  await close();
  const db = new DatabaseSync(join(dir, 'log.db'));
  db.exec(`
    INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
    SELECT 'e2', 'plant-bob/1', 0, type, '{"id": "1", "user": "bob", "name": "Oak"}', metadata, recorded_at FROM events
  `);
  db.close();
  const { url } = await startService({ DATA_DIR: dir });
  const overHttp = await linesOf(url, { token: await auditorToken(dir) });
  expect(overHttp).toHaveLength(2);
  const { stdout } = await run({ command: REPLAY, env: { DATA_DIR: dir } });
  expect(stdout).toBe(overHttp.map((line) => `${line}\n`).join(''));
});

describe('npm run replay to a reader', () => {
  const EVENTS = 100_000;
  /** Of the command, in MiB: twice what it needs, and far less than those events weigh. */
  const HEAP = 80;
  /** Longer than a reader who does not come back keeps a subscription, in milliseconds. */
  const LONG = 2_500;
  const hasProc = existsSync('/proc/self/stat');

  /** Names have a thousand characters. */
  function largeLog(): string {
    const dir = tempDir();
    using db = openLogFile(join(dir, 'log.db'));
    db.exec(`
      PRAGMA synchronous = OFF;
      BEGIN;
      WITH RECURSIVE plants (id, user) AS (
        SELECT 1, 'alice' UNION ALL SELECT id + 1, iif(id % 2, 'bob', 'alice') FROM plants WHERE id < ${EVENTS}
      )
      INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
      SELECT
        'e' || id, format('plant-%s/%d', user, id), 0, 'PlantCreated',
        json_object('id', CAST(id AS TEXT), 'user', user, 'name', format('%01000d', id)),
        '{"schemaVersion":1,"occurredAt":"2026-01-01T00:00:00.000Z"}', '2026-01-01T00:00:00.000Z'
      FROM plants;
      COMMIT;
    `);
    return dir;
  }

  /** The command in a pipe; its process id is told first, and its reader has what is typed on descriptor 3. */
  const piped = (reader: string): string[] => [
    'bash',
    '-c',
    `exec 3<&0; set -o pipefail; { echo $BASHPID >&2; exec "$@"; } </dev/null | ${reader}`,
    'bash',
    NODE,
    `--max-old-space-size=${HEAP}`,
    MAIN,
    'replay',
  ];

  /** Processor time that a process has used; undefined once it is gone. */
  function timeUsed(pid: number): string | undefined {
    const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : undefined;
    return stat?.split(' ').slice(13, 15).join(' ');
  }

  test('who wants no more ends quietly', async () => {
    const env = { DATA_DIR: await dirWith(1_000) };
    const { code, stdout, stderr } = await run({ command: piped('head -1'), env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^\d+\n$/) });
    expect(parsed(stdout)).toMatchObject([{ subject: 'plant-u0/0' }]);
  });

  test.runIf(hasProc)('who pauses waits with it, in constant memory, and gives each event once', async () => {
    const count = `awk -F '"position":"' '{ split($2, at, "\\""); if (at[1] != ++n) wrong++ } END { print n, wrong + 0 }'`;
    const replaying = start({
      command: piped(`{ read -r go <&3; ${count}; }`),
      env: { DATA_DIR: largeLog() },
    });
    await vi.waitUntil(() => ONE_LINE.test(replaying.stderr()));
    const pid = Number(replaying.stderr());
    await vi.waitUntil(
      async () => {
        const before = timeUsed(pid);
        await pause(200);
        return timeUsed(pid) === before;
      },
      { timeout: 20_000 },
    );
    await pause(LONG);
    expect(timeUsed(pid)).toBeDefined();
    replaying.stdin.write('go on\n');
    expect({ ...(await replaying.ended), stdout: replaying.stdout() }).toEqual({
      code: 0,
      signal: null,
      stdout: `${EVENTS} 0\n`,
    });
  });

  test('whose disk is full says so in one line', async () => {
    const { code, stderr } = await run({
      command: ['sh', '-c', 'exec "$@" > /dev/full', 'sh', ...REPLAY],
      env: { DATA_DIR: await dirWith(3) },
    });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^ENOSPC[^\n]*\n$/) });
  });
});

describe('npm run replay -- --table', () => {
  test('prints a heading and a row for each event, and nothing that could steer a terminal', async () => {
    const dir = tempDir();
    const log = await openIn(dir);
    const write = async (stream: string, type: string, second: number, data: Record<string, string>) => {
      const metadata = { occurredAt: `2026-03-01T12:00:0${second}.000Z` };
      await log.append(stream, { id: `e${second}`, type, data, metadata }, NO_STREAM);
    };
    await write('plant-alice/1', 'PlantCreated', 1, { id: '1', user: 'alice', name: 'Fern' });
    await write('plant-\u202eecila/1', 'PlantCreated', 2, {
      id: '1',
      user: '\u202eecila',
      name: 'a\u2028b\u2029',
    });
    await write('plant-\x1b[2J\x07\r\n/1', 'Plant\u0085\u200bWatered', 3, { name: '\x1b]0;title\x9b' });
    await write('plant-bob/2', 'PlantCreated', 4, { id: '2', user: 'bob', name: 'emoji 🌱, Zoë' });
    const { code, stdout, stderr } = await run({ command: [...REPLAY, '--table'], env: { DATA_DIR: dir } });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n')).toEqual([
      '  position  time                      type          stream                data',
      '         1  2026-03-01T12:00:01.000Z  PlantCreated  plant-alice/1         {"id":"1","user":"alice","name":"Fern"}',
      '         2  2026-03-01T12:00:02.000Z  PlantCreated  plant-\\u{202e}ecila/1        {"id":"1","user":"\\u{202e}ecila","name":"a\\u{2028}b\\u{2029}"}',
      '         3  2026-03-01T12:00:03.000Z  Plant\\u{85}\\u{200b}Watered  plant-\\u{1b}[2J\\u{7}\\u{d}\\u{a}/1       {"name":"\\u001b]0;title\\u{9b}"}',
      '         4  2026-03-01T12:00:04.000Z  PlantCreated  plant-bob/2           {"id":"2","user":"bob","name":"emoji 🌱, Zoë"}',
      '',
    ]);
  });

  test('prints the heading alone where no event fits', async () => {
    const env = { DATA_DIR: await dirWith(3) };
    const asked = [
      ['--type', 'Nothing'],
      ['--after', '3'],
      ['--limit', '0'],
    ];
    const printed = await Promise.all(asked.map((args) => typed(['replay', '--table', ...args], env)));
    const alone = { code: 0, stderr: '', stdout: expect.stringMatching(/^ *position +time[^\n]+\n$/) };
    expect(printed).toMatchObject([alone, alone, alone]);
  });
});

describe('npm run replay refuses in one line, printing nothing,', () => {
  async function expectRefusals(env: Record<string, string>, asked: [args: string[], line: RegExp][]) {
    const refused = await Promise.all(asked.map(([args]) => typed(['replay', ...args], env)));
    for (const [i, [, line]] of asked.entries()) expectRefused(refused[i] as (typeof refused)[number], line);
  }

  test('a user whom nobody knows, however long the log is', { timeout: 15_000 }, async () => {
    for (const events of [0, 3, 500, 501]) {
      await expectRefusals({ DATA_DIR: await dirWith(events) }, [
        [['--user', 'zed'], /"zed"/],
        [['--user', 'zed', '--follow'], /"zed"/],
        [['--user', 'zed', '--table'], /"zed"/],
      ]);
    }
    expectRefused(
      await run({ command: [...REPLAY, '--user', 'zed'], env: { DATA_DIR: await dirWith(3) } }),
      /"zed"/,
    );
  });

  test('a position that is none, or beyond the end', async () => {
    await expectRefusals({ DATA_DIR: await dirWith(3) }, [
      [['--after', '4'], /--after .*3/],
      [['--after', '4', '--follow'], /--after .*3/],
      [['--after', 's.3'], /--after /],
      [['--after', '03'], /--after /],
      [['--after', '-1'], /--after /],
      [['--after', '9223372036854775808'], /--after /],
      [['--after', ''], /--after /],
    ]);
  });

  test('a position of EventStoreDB at which there is no event', { timeout: 10_000 }, async () => {
    const double = await startDouble();
    const [first, second] = ['plant-alice/1', 'plant-bob/1'].map((stream) => double.write(stream));
    const between = `${((first?.position ?? 0n) + (second?.position ?? 0n)) / 2n}`;
    const env = { DATA_DIR: tempDir(), EVENTSTOREDB_URL: double.url };
    await expectRefusals(env, [
      [['--after', between], /--after /],
      [['--after', '1', '--follow'], /--after /],
    ]);
  });

  test('a time that is none, and times in the wrong order', async () => {
    await expectRefusals({ DATA_DIR: await dirWith(3) }, [
      [['--since', 'yesterday'], /--since .*RFC 3339/],
      [['--since', '2026-03-01'], /--since .*RFC 3339/],
      [['--until', '2026-02-30T12:00:00Z'], /--until .*RFC 3339/],
      [['--until', '2026-03-01T12:00:00'], /--until .*RFC 3339/],
      [['--until', ''], /--until .*RFC 3339/],
      [['--since', '2026-03-01T12:00:01Z', '--until', '2026-03-01T12:00:00Z'], /--since .*--until/],
    ]);
  });

  test('anything else that is not as it has to be', async () => {
    await expectRefusals({ DATA_DIR: await dirWith(3) }, [
      [['--limit', '-1'], /--limit /],
      [['--limit', '1e3'], /--limit /],
      [['--limit', ''], /--limit /],
      [['--id', '07'], /--id /],
      [['--id', '9223372036854775808'], /--id /],
      [['--id', ''], /--id /],
      [['--user', ''], /--user /],
      [['--user', 'ali\nce'], /--user /],
      [['--type', ''], /--type /],
    ]);
  });

  test('a part of the filter that is given twice', async () => {
    await expectRefusals({ DATA_DIR: await dirWith(3) }, [
      [['--user', 'u1', '--user', 'u2'], /--user /],
      [['--limit', '1', '--limit', '2'], /--limit /],
    ]);
  });

  test('a log that is not there, or is none', async () => {
    const [missing, text, music] = [tempDir(), tempDir(), tempDir()];
    writeFileSync(join(text, 'log.db'), 'no SQLite');
    using other = new DatabaseSync(join(music, 'log.db'));
    other.exec('CREATE TABLE events (title TEXT)');
    for (const dir of [missing, text, music]) {
      await expectRefusals({ DATA_DIR: dir }, [
        [[], RegExp(join(dir, 'log.db'))],
        [['--follow'], RegExp(join(dir, 'log.db'))],
      ]);
    }
  });

  test('an EventStoreDB that cannot be reached', async () => {
    const env = { DATA_DIR: tempDir(), EVENTSTOREDB_URL: 'esdb://127.0.0.1:1?tls=false' };
    await expectRefusals(env, [
      [[], /EventStoreDB.*ECONNREFUSED/],
      [['--follow', '--table'], /EventStoreDB.*ECONNREFUSED/],
    ]);
  });
});

import { stopClock } from '@event-sourced/testing/clock';
import { appendTo, logWith, plantOf } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test, vi } from 'vitest';
import { expectRefused, runCli, startCli, succeeded } from '../support/cli.ts';
import { auditorToken, linesOf } from '../support/eventStream.ts';
import { createPlants, type PlantOfUser } from '../support/plants.ts';
import { startService } from '../support/service.ts';

const PLANTS: PlantOfUser[] = [
  ['alice', 1n, { name: 'Fern', tag: 'indoor' }],
  ['bob', -5n, { name: 'nul \0, quote ", backslash \\, lines \u2028 \u2029 \u0085 \x9b \x7f \r\n' }],
  ['\u202eecila', 1n, { name: '\x1b[2J\u202e', tag: '\ufeff' }],
  ['bob', 2n ** 63n - 1n, { name: '', tag: '' }],
];

const positionsIn = (stdout: string): string[] =>
  stdout.split(/(?<=\n)/).flatMap((line) => (line === '' ? [] : JSON.parse(line).position));

const printed = (lines: string[]): string => lines.map((line) => `${line}\n`).join('');

test.for(['the embedded log', 'EventStoreDB'])(
  'replay of %s prints all events or those of a filter with the same bytes as GET /events',
  async (store) => {
    const server = store === 'EventStoreDB' ? await startFakeServer() : undefined;
    // One with spaces in its JSON.
    const bob = { ...plantOf('bob', 2, 'Oak'), data: '{"id": "2", "user": "bob", "name": "Oak"}' };
    const env = { DATA_DIR: appendTo(tempDir(), bob), ...(server && { EVENTSTOREDB_URL: server.url }) };
    const service = await startService(env);
    for (const plant of PLANTS) {
      server?.write('other-1');
      await createPlants(service, [plant]);
    }
    const token = await auditorToken(service.dir);
    const all = await linesOf(service.url, { token });
    expect(all).toHaveLength(server ? PLANTS.length : PLANTS.length + 1);
    expect(all.join('')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u); // line ends for some readers, and a terminal
    expect(succeeded(await runCli(['replay'], env))).toBe(printed(all));
    const toEnd = await linesOf(service.url, { token, query: '?end=true' });
    expect(toEnd).toEqual([...all, `{"end":"${JSON.parse(all.at(-1) ?? '').position}"}`]);
    expect(succeeded(await runCli(['replay', '--end'], env))).toBe(printed(toEnd));

    const [alice = '', , third = ''] = all.slice(-PLANTS.length);
    const after = ['--after', JSON.parse(alice).position, '--limit', '2'];
    const byTime = ['--since', JSON.parse(third).time, '--type', 'PlantCreated'];
    const byName = ['--id', '1', '--user', '\u202eecila'];
    // The store affects no other filter, and each command on EventStoreDB starts a thread.
    for (const args of server ? [after] : [after, byTime, byName]) {
      const query = new URLSearchParams();
      for (let i = 0; i < args.length; i += 2) query.append(`${args[i]}`.slice(2), `${args[i + 1]}`);
      const lines = await linesOf(service.url, { token, query: `?${query}` });
      expect(lines.length).toBeGreaterThan(0);
      expect(succeeded(await runCli(['replay', ...args], env))).toBe(printed(lines));
    }
  },
);

test('replay --follow of EventStoreDB prints each new event until it is stopped', async () => {
  const server = await startFakeServer();
  server.write('plant-alice/1', { type: 'PlantCreated' });
  const following = startCli(['replay', '--follow'], { EVENTSTOREDB_URL: server.url });
  await following.printed(/plant-alice.*\n/);
  server.write('plant-bob/1', { type: 'PlantCreated' });
  await following.printed(/plant-bob.*\n/);
  following.stop();
  const { stdout, ...ended } = await following.ended;
  expect(ended).toEqual({ code: null, stderr: '' });
  expect(positionsIn(stdout)).toHaveLength(2);
});

test('replay prints each event once to a reader that pauses longer than the idle timeout', async () => {
  const EVENTS = 1_600; // more than one batch
  stopClock();
  const replaying = startCli(['replay'], { DATA_DIR: logWith({ events: EVENTS }) });
  let resume = () => {};
  replaying.pauseReader(new Promise<void>((resolve) => (resume = resolve)));
  await replaying.printed(/"plant-alice\/1"/);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(positionsIn(replaying.stdout()).length).toBeLessThan(EVENTS);
  resume();
  const positions = positionsIn(succeeded(await replaying.ended));
  expect(positions).toEqual(Array.from({ length: EVENTS }, (_, i) => `${i + 1}`));
});

describe('replay --table', () => {
  test('prints a heading and a row per event, without control characters', async () => {
    const written = (stream: string, type: string, second: number, data: Record<string, string>) => ({
      ...{ stream, type, data, id: `e${second}` },
      metadata: { occurredAt: `2026-03-01T12:00:0${second}.000Z` },
    });
    const dir = appendTo(
      tempDir(),
      written('plant-\u202eecila/1', 'PlantCreated', 1, { user: '\u202eecila', name: 'a\u2028b\u2029' }),
      written('plant-\x1b[2J\x07\r\n/1', 'Plant\u0085\u200bWatered', 2, { name: '\x1b]0;title\x9b' }),
      written('plant-bob/2', 'PlantCreated', 3, { id: '2', user: 'bob', name: 'emoji 🌱, Zoë' }),
    );
    const stdout = succeeded(await runCli(['replay', '--table'], { DATA_DIR: dir }));
    expect(stdout.split('\n')).toEqual([
      '  position  time                      type          stream                data',
      '         1  2026-03-01T12:00:01.000Z  PlantCreated  plant-\\u{202e}ecila/1        {"user":"\\u{202e}ecila","name":"a\\u{2028}b\\u{2029}"}',
      '         2  2026-03-01T12:00:02.000Z  Plant\\u{85}\\u{200b}Watered  plant-\\u{1b}[2J\\u{7}\\u{d}\\u{a}/1       {"name":"\\u001b]0;title\\u{9b}"}',
      '         3  2026-03-01T12:00:03.000Z  PlantCreated  plant-bob/2           {"id":"2","user":"bob","name":"emoji 🌱, Zoë"}',
      '',
    ]);
  });

  test('prints only the heading if no event matches', async () => {
    const args = ['replay', '--table', '--type', 'Nothing'];
    const stdout = succeeded(await runCli(args, { DATA_DIR: logWith({ events: 3 }) }));
    expect(stdout).toMatch(/^ *position +time[^\n]+\n$/);
  });
});

test.for<[options: string, line: RegExp]>([
  ['--user=zed', /"zed"/],
  ['--user=zed --follow', /"zed"/],
  ['--after=4', /--after .*3/],
  ['--after=s.3', /--after /],
  ['--since=yesterday', /--since .*RFC 3339/],
  ['--since=2026-03-01T12:00:01Z --until=2026-03-01T12:00:00Z', /--since .*--until/],
  ['--limit= --id=01', /--id .*; --limit /],
  ['--id=07', /--id /],
  ['--user=alice --user=bob', /--user /],
])('replay reports in one line, and prints nothing else, for %s', async ([options, line]) => {
  expectRefused(await runCli(['replay', ...options.split(' ')], { DATA_DIR: logWith({ events: 3 }) }), line);
});

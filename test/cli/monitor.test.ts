import { existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseState } from '../../packages/transparency-log/src/monitor/state.ts';
import { openCheckpoint } from '../../packages/transparency-log/src/notes/checkpoint.ts';
import { formatVerifierKey } from '../../packages/transparency-log/src/notes/signedNote.ts';
import {
  entries,
  entryOf,
  FakeLog,
  ORIGIN,
  serve,
  VERIFIER_KEY,
} from '../../packages/transparency-log/test/monitor/fakeLog.ts';
import { expectRefused, runCli, startCli, succeeded } from '../support/cli.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { tempDir } from '../support/tempDir.ts';

const VKEY = formatVerifierKey(VERIFIER_KEY);
const TOKEN = { TOKEN: 'secret' };

const optionsFor = (url: string, state: string, key = VKEY) => [
  'monitor',
  ...['--url', url, '--key', key, '--state', state],
];
const monitor = (url: string, state: string, ...more: string[]) =>
  runCli([...optionsFor(url, state), '--once', ...more], TOKEN);
const forkOf = (size: number) => new FakeLog(entries(size).with(7, entryOf(8, { name: 'Fren' })));
const newState = (): string => join(tempDir(), 'state');

describe('npm run monitor', () => {
  test('remembers the last checkpoint, and checks what was added since', async () => {
    const [state, log] = [newState(), new FakeLog(entries(300))];
    const http = await serve(log);
    const { root } = log.head();
    const line = (text: string) =>
      expect.stringMatching(
        RegExp(`^\\d{4}-\\S+Z  plants\\.example/log  ${text}, with problems: 0, of unknown types: 0\n$`),
      );
    expect(succeeded(await monitor(http.url, state))).toEqual(line(`300:${root}  new events: 300`));
    expect(readFileSync(`${state}.checkpoint`)).toEqual(await log.checkpoint());
    expect(statSync(state).mode & 0o777).toBe(0o600);
    http.requests.length = 0;
    expect(succeeded(await monitor(`${http.url}/`, state))).toEqual(line(`300:${root}  new events: 0`));
    expect(http.requests).toEqual(['/checkpoint']);
    http.serve(new FakeLog(entries(301)));
    expect(succeeded(await monitor(http.url, state))).toEqual(line('301:[\\da-f]{64}  new events: 1'));
    const note = readFileSync(`${state}.checkpoint`, 'utf8');
    expect((await openCheckpoint(note, VERIFIER_KEY)).size).toBe(301);
    expect(
      await parseState(readFileSync(state, 'utf8'), VERIFIER_KEY, 'plant-store monitor 1'),
    ).toMatchObject({
      checkpoint: { size: 301 },
      pending: [],
      latestTime: Date.parse('2026-01-01T05:01:00Z'),
    });
    expect(readdirSync(join(state, '..')).sort()).toEqual(['state', 'state.checkpoint']);
  });

  test('ends with 1 and the evidence on disk when it is moved to a server with another log', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const two = forkOf(21);
    const [first, second] = [await serve(one), await serve(two)];
    succeeded(await monitor(first.url, state));
    const refused = await monitor(second.url, state);
    const { root } = two.head(20);
    const alarm = `ALARM: fork: the log has signed 20:${one.head().root}, but the first 20 of its 21 events are 20:${root}`;
    expectRefused(refused, RegExp(`^${alarm}; the evidence is in .*state\\.alarm; see docs/alarms\\.md`));
    const file = (name: string): string => readFileSync(join(`${state}.alarm`, name), 'utf8');
    expect(readdirSync(`${state}.alarm`).sort()).toEqual([
      'alarm.txt',
      'consistency.proof',
      'earlier.checkpoint',
      'received.checkpoint',
    ]);
    expect(file('alarm.txt')).toMatch(
      RegExp(`^\\d{4}-\\S+Z  ${alarm}\n\nVerify with the scripts of docs/tools:\n`),
    );
    expect(file('earlier.checkpoint')).toBe(`${await one.checkpoint()}`);
    expect(file('received.checkpoint')).toBe(`${await two.checkpoint()}`);
    expect(readFileSync(`${state}.checkpoint`)).toEqual(await one.checkpoint());
    const prove = (expected: string) =>
      runCli(['check-proof', '--key', VKEY, '--expect', expected], {}, [file('consistency.proof')]);
    expect(succeeded(await prove(`20:${root}`))).toBe(
      `the log ${ORIGIN} 20:${root} is the beginning of 21:${two.head().root}\n`,
    );
    expectRefused(await prove(`20:${one.head().root}`), /the proof is invalid/);
    expectRefused(await prove(join(`${state}.alarm`, 'earlier.checkpoint')), /the proof is invalid/);
    // The alarm is not forgotten when the monitor is restarted, or the log shows its first face again.
    expectRefused(await monitor(first.url, state), /^there was an alarm before: .* keep it and .*state/);
  });

  test('raises the alarm also if the evidence cannot be written, and prints it', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const two = forkOf(20);
    const [first, second] = [await serve(one), await serve(two)];
    succeeded(await monitor(first.url, state));
    symlinkSync('missing', `${state}.alarm`); // a directory cannot be renamed to it
    const { code, stderr } = await monitor(second.url, state);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^ALARM: fork: the log has signed two roots .*; the evidence could not be written: /,
    );
    for (const log of [one, two]) expect(stderr).toContain((await log.checkpoint()).toString('base64'));
  });

  test('keeps a checkpoint whose tiles are missing, for which the log must account later', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const http = await serve(one);
    succeeded(await monitor(http.url, state));
    const fork = forkOf(22);
    fork.tile = () => Promise.reject(new Error('missing'));
    http.serve(fork);
    stopClock();
    const [{ code, stderr }] = await untilSettled(monitor(http.url, state));
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^not checked: GET \S+: 404 No such tile\.; it has yet to show what it signed in 1 checkpoint, the first received at \d/m,
    );
    http.serve(new FakeLog(entries(23)));
    expectRefused(await monitor(http.url, state), /^ALARM: fork: the log has signed 22:/);
  });

  test.each<[string, (text: string) => string | Buffer]>([
    ['cut off', (text: string) => text.slice(0, -9)],
    ['of another version', (text: string) => text.replace('monitor 1', 'monitor 2')],
    ['altered', (text: string) => text.replace('\\n3\\n', '\\n4\\n')],
    ['altered in a time', (text: string) => text.replace(/"latestTime": ".*"/, '"latestTime": "now"')],
    ['not UTF-8', () => Buffer.of(255)],
  ])('refuses a state file that is %s, and leaves it as it is', async (_, changed) => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    succeeded(await monitor(http.url, state));
    const content = Buffer.from(changed(readFileSync(state, 'utf8')) as string);
    writeFileSync(state, content);
    expectRefused(
      await monitor(http.url, state),
      /^the file of --state is not that of this log, and is left as it is: /,
    );
    expect(readFileSync(state)).toEqual(content);
  });

  test('continues after a log was unavailable, and says so: no alarm', async () => {
    const [state, log] = [newState(), new FakeLog(entries(3))];
    const http = await serve(log);
    http.serve(
      (response) => void response.writeHead(503).end('{"error":50302,"message":"The tree is behind."}'),
    );
    const running = startCli([...optionsFor(http.url, state), '--interval', '1'], TOKEN);
    await expect.poll(() => http.requests.length).toBeGreaterThan(0);
    http.serve(log);
    await running.printed(/new events: 3/);
    running.stop();
    const { code, stderr } = await running.ended;
    expect(code).toBeNull();
    expect(stderr).toMatch(/^(not checked: GET http:\S+\/checkpoint: 503 The tree is behind\.\n)+$/);
    expect(existsSync(`${state}.alarm`)).toBe(false);
  });

  test('with --once ends with 2 after three attempts if the service refuses the token, with control characters', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    http.serve((response) => response.writeHead(403).end('{"message":"No scope\\u001b[2J\\u202e."}'));
    stopClock();
    const [{ code, stdout, stderr }] = await untilSettled(monitor(http.url, state));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^not checked: .*403 No scope\\u\{1b\}\[2J\\u\{202e\}\.\n$/);
    expect(http.requests).toHaveLength(3);
    expect(readdirSync(join(state, '..'))).toEqual([]);
  });

  test('reports events with problems, and ends with 2 with --once; each is reported once', async () => {
    const [state, http] = [
      newState(),
      await serve(new FakeLog([...entries(2), entryOf(3, { name: '\u001b' })])),
    ];
    succeeded(await monitor(http.url, state));
    http.serve(new FakeLog([...entries(2), entryOf(3, { name: '\u001b' }), '{"x":"\u202e"}']));
    const { code, stdout, stderr } = await monitor(http.url, state);
    expect(code).toBe(2);
    expect(stdout).toMatch(/ {2}new events: 1, with problems: 1, of unknown types: 0\n$/);
    expect(stderr).toBe(
      'event 4, an entry of 11 bytes: it is not an event in canonical form, or too large for an entry\nevents with problems: 1\n',
    );
    succeeded(await monitor(http.url, state));
  });

  test.each<
    [string, { url?: string; key?: string; interval?: string; state?: string; token?: string }, RegExp]
  >([
    ['a URL without a scheme', { url: 'plants.example' }, /--url must be/],
    ['a URL with a password', { url: 'https://a:hunter2@plants.example' }, /^(?!.*hunter2)--url must be/],
    ['a URL with a query', { url: 'https://plants.example/?a=1' }, /--url must be/],
    ['a key that is not one', { key: 'hunter2' }, /^(?!.*hunter2)the key must be a verifier key/],
    ['an interval of 0', { interval: '0' }, /--interval must be a number of seconds/],
    ['no token', { token: '' }, /TOKEN, an environment variable, must be a token with the scope audit\./],
    ['a directory as state', { state: '.' }, /the file of --state .* it is not the state of a monitor/],
  ])(
    'refuses %s',
    async (_, { url = 'http://127.0.0.1:1', key = VKEY, interval = '60', state, token = 'x' }, line) => {
      const args = [...optionsFor(url, state ?? newState(), key), '--interval', interval, '--once'];
      expectRefused(await runCli(args, { TOKEN: token }), line);
    },
  );
});

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openCheckpoint } from '../../src/transparency/checkpoint.ts';
import { verifierKeyOf } from '../../src/transparency/signCheckpoint.ts';
import { formatVerifierKey } from '../../src/transparency/signedNote.ts';
import { entries, entryOf, FakeLog, ORIGIN, serve, VERIFIER_KEY } from '../monitor/fakeLog.ts';
import { expectRefused, runCli, startCli, succeeded } from '../support/cli.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { tempDir } from '../support/tempDir.ts';
import { keyNamed } from '../transparency/keys.ts';

const VKEY = formatVerifierKey(VERIFIER_KEY);
const TOKEN = { TOKEN: 'secret' };

const optionsFor = (url: string, state: string) => ['--url', url, '--key', VKEY, '--state', state];
const monitor = (url: string, state: string, ...more: string[]) =>
  runCli(['monitor', ...optionsFor(url, state), '--once', ...more], TOKEN);
const newState = (): string => join(tempDir(), 'checkpoint');

describe('npm run monitor', () => {
  test('remembers the last checkpoint, and checks what was added since', async () => {
    const [state, log] = [newState(), new FakeLog(entries(300))];
    const http = await serve(log);
    const { root } = log.head();
    const line = (text: string) =>
      expect.stringMatching(RegExp(`^\\d{4}-\\S+Z  plants\\.example/log  ${text}, with problems: 0\n$`));
    expect(succeeded(await monitor(http.url, state))).toEqual(line(`300:${root}  new events: 300`));
    expect(readFileSync(state)).toEqual(await log.checkpoint());
    expect(statSync(state).mode & 0o777).toBe(0o600);
    http.requests.length = 0;
    expect(succeeded(await monitor(`${http.url}/`, state))).toEqual(line(`300:${root}  new events: 0`));
    expect(http.requests).toEqual(['/checkpoint']);
    http.serve(new FakeLog(entries(301)));
    expect(succeeded(await monitor(http.url, state))).toEqual(line('301:[\\da-f]{64}  new events: 1'));
    expect(await openCheckpoint(readFileSync(state, 'utf8'), VERIFIER_KEY)).toMatchObject({ size: 301 });
    expect(readdirSync(join(state, '..'))).toEqual(['checkpoint']);
  });

  test('ends with 1 and both checkpoints on disk when it is moved to a server with another log', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const two = new FakeLog(entries(21).with(7, entryOf(8, { name: 'Fren' })));
    const [first, second] = [await serve(one), await serve(two)];
    succeeded(await monitor(first.url, state));
    const alarm =
      /^ALARM: fork: the first 20 events are not those that the log has signed before; the evidence is in /;
    expectRefused(await monitor(second.url, state), alarm);
    expect(readFileSync(state)).toEqual(await one.checkpoint());
    expect(readFileSync(`${state}.contradiction`)).toEqual(await two.checkpoint());
    // The alarm is not forgotten when the monitor is restarted, or the log shows its first face again.
    expectRefused(await monitor(first.url, state), /^there was an alarm before: .* keep both/);
  });

  test('raises the alarm also if the evidence cannot be written, and prints it', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const two = new FakeLog(entries(20).with(7, entryOf(8, { name: 'Fren' })));
    const [first, second] = [await serve(one), await serve(two)];
    succeeded(await monitor(first.url, state));
    mkdirSync(`${state}.contradiction.draft`);
    const { code, stderr } = await monitor(second.url, state);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ALARM: split view: .*; the evidence could not be written: EISDIR/);
    for (const line of `${await two.checkpoint()}`.trimEnd().split('\n')) expect(stderr).toContain(line);
  });

  test('continues after a log was unavailable, and says so: no alarm', async () => {
    const [state, log] = [newState(), new FakeLog(entries(3))];
    const http = await serve(log);
    http.serve(
      (response) => void response.writeHead(503).end('{"error":50302,"message":"The tree is behind."}'),
    );
    const running = startCli(['monitor', ...optionsFor(http.url, state), '--interval', '1'], TOKEN);
    await expect.poll(() => http.requests.length).toBeGreaterThan(0);
    http.serve(log);
    await running.printed(/new events: 3/);
    running.stop();
    const { code, stderr } = await running.ended;
    expect(code).toBeNull();
    expect(stderr).toMatch(/^(not checked: GET http:\S+\/checkpoint: 503 The tree is behind\.\n)+$/);
    expect(existsSync(`${state}.contradiction`)).toBe(false);
  });

  test.each<[string, (response: import('node:http').ServerResponse) => void, RegExp]>([
    [
      'refuses the token',
      (response) => response.writeHead(403).end('{"message":"No scope."}'),
      /403 No scope\.$/m,
    ],
    [
      'redirects',
      (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
      /fetch failed$/m,
    ],
    [
      'is a page of a proxy',
      (response) => response.setHeader('content-type', 'text/html').end('<p>'),
      /text\/html/,
    ],
    ['breaks off', (response) => response.writeHead(200, { 'content-length': 9 }).destroy(), /GET http/],
    [
      'never ends',
      (response) => response.setHeader('content-type', 'text/plain').end(Buffer.alloc(2_000_000)),
      /the response is larger than 1000000 bytes/,
    ],
  ])('with --once ends with 2 after three attempts if the service %s', async (_, answer, reason) => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    http.serve(answer);
    stopClock();
    const [{ code, stdout, stderr }] = await untilSettled(monitor(http.url, state));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(reason);
    expect(stderr.trimEnd().split('\n')).toHaveLength(3);
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
    expect(stdout).toMatch(/ {2}new events: 1, with problems: 1\n$/);
    expect(stderr).toBe(
      'event 4, an entry of 11 bytes: it is not an event in canonical form, or too large for an entry\nevents with problems: 1\n',
    );
    succeeded(await monitor(http.url, state));
  });

  test('refuses a state file of another log, which it does not overwrite', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    writeFileSync(state, 'Fern\n');
    expectRefused(await monitor(http.url, state), /the file of --state is not a checkpoint of this log/);
    expect(readFileSync(state, 'utf8')).toBe('Fern\n');
    const key = formatVerifierKey(verifierKeyOf(ORIGIN, keyNamed('other')));
    const other = newState();
    succeeded(await monitor(http.url, other));
    const refused = await runCli(
      ['monitor', '--url', http.url, '--key', key, '--state', other, '--once'],
      TOKEN,
    );
    expectRefused(refused, /not a checkpoint of this log: no signature is by plants\.example\/log\+/);
  });

  test.each<
    [string, { url?: string; key?: string; interval?: string; state?: string; token?: string }, RegExp]
  >([
    ['a URL without a scheme', { url: 'plants.example' }, /--url must be/],
    ['a URL of another scheme', { url: 'file:///etc' }, /--url must be/],
    ['a URL with a password', { url: 'https://a:hunter2@plants.example' }, /^(?!.*hunter2)--url must be/],
    ['a URL with a password only', { url: 'https://:hunter2@plants.example' }, /^(?!.*hunter2)--url must be/],
    ['a URL with a query', { url: 'https://plants.example/?a=1' }, /--url must be/],
    ['a key that is not one', { key: 'hunter2' }, /^(?!.*hunter2)the key must be a verifier key/],
    ['an interval of 0', { interval: '0' }, /--interval must be a number of seconds/],
    ['no token', { token: '' }, /TOKEN, an environment variable, must be a token with the scope audit\./],
    ['a directory as state', { state: '.' }, /cannot read the file of --state: it is not a checkpoint/],
  ])(
    'refuses %s',
    async (_, { url = 'http://127.0.0.1:1', key = VKEY, interval = '60', state, token = 'x' }, line) => {
      const args = [
        '--url',
        url,
        '--key',
        key,
        '--state',
        state ?? newState(),
        '--interval',
        interval,
        '--once',
      ];
      expectRefused(await runCli(['monitor', ...args], { TOKEN: token }), line);
    },
  );
});

import { hash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, test } from 'vitest';
import { openCheckpoint } from '../../../tlog/src/notes/checkpoint.ts';
import { encodeHash } from '../../../tlog/src/notes/encoding.ts';
import { formatVerifierKey } from '../../../tlog/src/notes/signedNote.ts';
import { signNote } from '../../../tlog/src/sign/signCheckpoint.ts';
import { witnessKey } from '../../../tlog/test/witness/cosign.ts';
import {
  expectRefused,
  runCommand,
  startCommand,
  succeeded,
} from '../../../transparency-log/test/support/program.ts';
import { keptCheckpoints } from '../../src/state.ts';
import { StateFiles } from '../../src/stateFiles.ts';
import { FakeEventLog, plants, record } from '../fakeEventLog.ts';
import { cosigned, entries, FakeLog, KEY, ORIGIN, serve, toEntry, VERIFIER_KEY } from '../fakeLog.ts';

const VKEY = formatVerifierKey(VERIFIER_KEY);
const DAY_S = 24 * 3_600;

const optionsFor = (url: string, state: string, key = VKEY) => [
  'monitor',
  ...['--url', url, '--key', key, '--state', state],
];
const monitor = (url: string, state: string, ...more: string[]) =>
  runCommand([...optionsFor(url, state), '--once', ...more]);
const forkOf = (size: number) => new FakeLog(entries(size).with(7, toEntry(8, { name: 'Fren' })));
const newState = (): string => join(tempDir(), 'state');

describe('the command monitor', () => {
  test('remembers the last checkpoint, and checks what was added since', async () => {
    const [state, log] = [newState(), new FakeLog(entries(300))];
    const http = await serve(log);
    const { root } = log.head();
    const line = (text: string) =>
      expect.stringMatching(RegExp(`^\\d{4}-\\S+Z  plants\\.example/log  ${text}\n$`));
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
    const kept = keptCheckpoints(await new StateFiles(state).read(VERIFIER_KEY));
    expect(kept).toMatchObject([{ size: 301 }]);
    expect(readdirSync(join(state, '..')).sort()).toEqual(['state', 'state.checkpoint', 'state.lock']);
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
      runCommand(['check-proof', '--key', VKEY, '--expect', expected], {
        input: [file('consistency.proof')],
      });
    expect(succeeded(await prove(`20:${root}`))).toBe(
      `the log ${ORIGIN} 20:${root} is the beginning of 21:${two.head().root}\n`,
    );
    expectRefused(await prove(`20:${one.head().root}`), /the proof is invalid/);
    expectRefused(await prove(join(`${state}.alarm`, 'earlier.checkpoint')), /the proof is invalid/);
    // The alarm is not forgotten when the monitor is restarted, or the log shows its first face again.
    expectRefused(
      await monitor(first.url, state),
      /^there was an alarm before: .* keep it, .*state and .*state\.checkpoint/,
    );
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

  test('compares the log with the checkpoint beside a state file that was lost', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const http = await serve(one);
    succeeded(await monitor(http.url, state));
    rmSync(state);
    http.serve(new FakeLog(entries(21)));
    expect(succeeded(await monitor(http.url, state))).toMatch(/ {2}21:[\da-f]{64} {2}new events: 21\n$/);
    const kept = readFileSync(`${state}.checkpoint`);
    rmSync(state);
    http.serve(forkOf(22));
    const alarm = `^ALARM: fork: the log has signed 21:\\S+ \\(in ${state}\\.checkpoint\\)`;
    expectRefused(await monitor(http.url, state), RegExp(alarm));
    expect(readFileSync(`${state}.checkpoint`)).toEqual(kept);
    rmSync(`${state}.alarm`, { recursive: true });
    rmSync(state);
    writeFileSync(`${state}.checkpoint`, 'nothing');
    expectRefused(
      await monitor(http.url, state),
      /^the file \S+state\.checkpoint belongs to another log, or is damaged; it was not changed: /,
    );
  });

  test('with --once ends with 2, and names the file, if its directory is missing', async () => {
    const [state, http] = [join(newState(), 'state'), await serve(new FakeLog(entries(3)))];
    stopClock();
    const [{ code, stderr }] = await untilSettled(monitor(http.url, state));
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(`^not checked: cannot lock ${state}\\.lock: ENOENT: .*\n$`),
    });
  });

  test('does not check while another monitor uses the same state, nor after its alarm', async () => {
    const [state, one] = [newState(), new FakeLog(entries(20))];
    const http = await serve(one);
    const running = startCommand([...optionsFor(http.url, state), '--interval', '1']);
    await running.printed(/new events: 20/);
    mkdirSync(`${state}.alarm`);
    writeFileSync(join(`${state}.alarm`, 'alarm.txt'), '');
    const { code, stderr } = await running.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^there was an alarm before: .*\n$/);
    using lock = new DatabaseSync(`${state}.lock`);
    lock.exec('BEGIN EXCLUSIVE');
    stopClock();
    const [refused] = await untilSettled(monitor(http.url, state));
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/^not checked: cannot lock \S+: another process has locked \S+\n$/);
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
    expect(stderr).toMatch(/^not checked: GET \S+: 404 No such tile\.$/m);
    http.serve(new FakeLog(entries(23)));
    expectRefused(await monitor(http.url, state), /^ALARM: fork: the log has signed 22:/);
  });

  test.each<[string, (text: string) => string | Buffer]>([
    ['cut off', (text: string) => text.slice(0, -9)],
    ['of an earlier version', (text: string) => text.replace('monitor 2', 'monitor 1')],
    ['of another version', (text: string) => text.replace('monitor 2', 'monitor 3')],
    ['altered', (text: string) => text.replace('\\n3\\n', '\\n4\\n')],
    ['not UTF-8', () => Buffer.of(255)],
  ])('refuses a state file that is %s, and leaves it as it is', async (_, changed) => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    succeeded(await monitor(http.url, state));
    const content = Buffer.from(changed(readFileSync(state, 'utf8')) as string);
    writeFileSync(state, content);
    expectRefused(
      await monitor(http.url, state),
      /^the file \S+state belongs to another log, or is damaged; it was not changed: /,
    );
    expect(readFileSync(state)).toEqual(content);
  });

  test('continues after a log was unavailable, and says so: no alarm', async () => {
    const [state, log] = [newState(), new FakeLog(entries(3))];
    const http = await serve(log);
    http.serve(
      (response) => void response.writeHead(503).end('{"error":50302,"message":"The tree is behind."}'),
    );
    const running = startCommand([...optionsFor(http.url, state), '--interval', '1']);
    await expect.poll(running.stderr).toMatch(/\n/);
    http.serve(log);
    await running.printed(/new events: 3/);
    running.stop();
    const { code, stderr } = await running.ended;
    expect(code).toBeNull();
    expect(stderr).toMatch(/^(not checked: GET http:\S+\/checkpoint: 503 The tree is behind\.\n)+$/);
    expect(existsSync(`${state}.alarm`)).toBe(false);
  });

  test('with --once ends with 2 after five attempts if the service refuses the token, with control characters', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    http.serve((response) => response.writeHead(403).end('{"message":"No scope\\u001b[2J\\u202e."}'));
    stopClock();
    const [{ code, stdout, stderr }] = await untilSettled(monitor(http.url, state));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^not checked: .*403 No scope\\u\{1b\}\[2J\\u\{202e\}\.\n$/);
    expect(http.requests).toHaveLength(5);
    expect(readdirSync(join(state, '..')).sort()).toEqual(['state', 'state.lock']);
  });

  test('requires cosignatures of witnesses, and prints how old they are', async () => {
    const [state, log] = [newState(), new FakeLog(entries(9))];
    const note = `${await log.checkpoint()}`;
    const witness = await serve((response) =>
      response.setHeader('content-type', 'text/plain').end(cosigned(note, ['w1.example'], 0, new Date())),
    );
    const http = await serve(log);
    const policy = ['--witness', `${witnessKey('w1.example')} ${witness.url}/log`];
    log.checkpoint = async () => Buffer.from(cosigned(note, ['w1.example'], 3 * DAY_S, new Date()));
    expect(succeeded(await monitor(http.url, state, ...policy, '--stale-after', '4d'))).toMatch(
      /new events: 9, cosigned: 3d ago\n$/,
    );
    expect((await openCheckpoint(readFileSync(`${state}.checkpoint`, 'utf8'), VERIFIER_KEY)).size).toBe(9);
    expect(witness.requests).toEqual([`/log/${hash('sha256', ORIGIN)}/checkpoint`]);
    expect(witness.headers[0]).not.toHaveProperty('authorization');
    stopClock();
    const [stale] = await untilSettled(monitor(http.url, state, ...policy, '--stale-after', '2d'));
    expectRefused(stale, /^ALARM: stale: the checkpoint of 9 events was last signed by a quorum/);
    log.checkpoint = async () => Buffer.from(note);
    const [refused] = await untilSettled(monitor(http.url, newState(), ...policy));
    expectRefused(
      refused,
      /^ALARM: not cosigned: the checkpoint of 9 events cannot be relied on: it has 0 of 1 required cosignatures/,
    );
  });

  test('compares the log with checkpoints of others, and names a file with a checkpoint of another log', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(20)))];
    const files = await Promise.all(
      [new FakeLog(entries(9)), forkOf(10)].map(async (log, i) => {
        writeFileSync(`${state}.${i}`, await log.checkpoint());
        return `${state}.${i}`;
      }),
    );
    succeeded(await monitor(http.url, state, '--known', files[0] as string));
    const alarm = `fork: the log has signed 10:\\S+ \\(in ${state}\\.1\\), but the first 10 of its 20 events are`;
    expectRefused(await monitor(http.url, state, '--known', ...files), RegExp(`^ALARM: ${alarm}`));
    expect(readFileSync(join(`${state}.alarm`, 'alarm.txt'), 'utf8')).toMatch(RegExp(alarm));
  });

  test('gives up a check after a time, however long the log asks it to wait', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    http.serve((response) => response.writeHead(429, { 'retry-after': '60' }).end());
    stopClock();
    const [{ code, stderr }, ms] = await untilSettled(monitor(http.url, state, '--timeout', '150s'));
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr:
        'not checked: the check took longer than --timeout allows: the log is slow, or has many events; set a longer one\n',
    });
    expect(ms).toBeGreaterThanOrEqual(150_000);
  });

  describe('with --stale-after', () => {
    const staleAfter = ['--stale-after', '1h'];
    const unavailable = (response: ServerResponse) =>
      void response.writeHead(403).end('{"message":"No scope."}');
    /** The state as if its last check had been two hours ago. */
    const age = (state: string) => {
      const content = JSON.parse(readFileSync(state, 'utf8'));
      const checkedAt = new Date(Date.now() - 7_200_000).toISOString();
      writeFileSync(state, JSON.stringify({ ...content, checkedAt }));
      return checkedAt;
    };

    const run = async (url: string, state: string, options = staleAfter) =>
      (await untilSettled(monitor(url, state, ...options)))[0];

    test('ends with 1 if the log was not checked for longer, until the next check that succeeds', async () => {
      const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
      stopClock();
      succeeded(await run(http.url, state));
      http.serve(unavailable);
      expect((await run(http.url, state)).code).toBe(2);
      const since = age(state);
      for (let runs = 1; runs <= 2; runs++)
        expectRefused(
          await run(http.url, state),
          RegExp(
            `^ALARM: unavailable: the log was not checked since ${since}, longer .*: GET .*403 No scope`,
          ),
        );
      expect((await run(http.url, state, [])).code).toBe(2);
      expect(existsSync(`${state}.alarm`)).toBe(false);
      http.serve(new FakeLog(entries(4)));
      expect(succeeded(await run(http.url, state))).toMatch(/new events: 1\n$/);
      http.serve(unavailable);
      expect((await run(http.url, state)).code).toBe(2);
    });

    test('ends with 1 if a log was never checked since the first attempt', async () => {
      const [state, http] = [newState(), await serve(unavailable)];
      stopClock();
      expect((await run(http.url, state)).code).toBe(2);
      age(state);
      expectRefused(await run(http.url, state), /^ALARM: unavailable: /);
    });
  });

  test('with --events also reads the events, and prints how many are erased', async () => {
    const [state, log] = [newState(), new FakeEventLog([...plants(300), record(7, 299)])];
    const http = await serve(log.signing(200));
    expect(succeeded(await monitor(http.url, state, '--events'))).toMatch(/new events: 200\n$/);
    http.serve(log.erase(7, 299).signing(301));
    const line = /new events: 101, erased: 2 \(1 record\), never read: 1\n$/;
    expect(succeeded(await monitor(http.url, state, '--events'))).toMatch(line);
    expect(http.requests).toContain('/events?after=200&end=true');
    expect(succeeded(await monitor(http.url, state))).toMatch(/new events: 0\n$/);
    expect(succeeded(await monitor(http.url, state, '--events', '--all'))).toMatch(
      /new events: 0, compared again: 301, erased: 2 \(1 record\), never read: 1\n$/,
    );
    http.serve(log.erase(8));
    stopClock();
    const [refused] = await untilSettled(monitor(http.url, state, '--events', '--all'));
    expectRefused(
      refused,
      /^ALARM: unrecorded erasure: at index 8 of 301 events: no later record names this erased event/,
    );
  });

  test('keeps the partial tiles, which prove a rollback to another log', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(300)))];
    succeeded(await monitor(http.url, state));
    http.serve(forkOf(299));
    stopClock();
    const [refused] = await untilSettled(monitor(http.url, state));
    expectRefused(refused, /^ALARM: fork: /);
  });

  test.each([
    [['--quorum', '1'], /--quorum requires --witness/],
    [['--witness', 'hunter2'], /^(?!.*hunter2).*verifier key/],
    [['--stale-after', '1 hour'], /--stale-after must be a number and a unit/],
    [['--timeout', '0s'], /--timeout must be a number and a unit/],
    [['--stale-after', ''], /--stale-after must be a number and a unit/],
    [['--expect-growth'], /--expect-growth requires --stale-after/],
    [['--known', tmpdir()], /^cannot use .* of --known: it is not a checkpoint or a proof/],
  ])('refuses %j', async (options, line) => {
    expectRefused(await monitor('http://127.0.0.1:1', newState(), ...options), line);
  });

  test('refuses a state whose checkpoint is of another log, with its name escaped', async () => {
    const [state, http] = [newState(), await serve(new FakeLog(entries(3)))];
    const note = signNote(`x\u009b2J\n1\n${Buffer.alloc(32).toString('base64')}\n`, {
      name: ORIGIN,
      key: KEY,
    });
    const compared = { receivedAt: '2026-01-01T00:00:00.000Z', note };
    const content = { format: 'transparency-log monitor 2', compared, tiles: {} };
    writeFileSync(state, JSON.stringify(content));
    expectRefused(await monitor(http.url, state), /belongs to the log x\\u\{9b\}2J, not to/);
  });

  test('follows a public log of others, whose origin is not the name of its key, and entries no events', async () => {
    const log = new FakeLog(['Fern', 'Moss', 'Oak']);
    const { size, root } = log.head();
    const origin = 'go.sum database tree';
    const note = signNote(`${origin}\n${size}\n${encodeHash(root)}\n`, { name: ORIGIN, key: KEY });
    log.checkpoint = async () => Buffer.from(note);
    const http = await serve(log, { isPublic: true });
    const args = [...optionsFor(http.url, newState()), '--once', '--origin', origin];
    for (const added of [3, 0])
      expect(succeeded(await runCommand(args, { token: '' }))).toMatch(
        RegExp(`  ${origin}  3:${root}  new events: ${added}\n$`),
      );
    expect(http.headers[0]).not.toHaveProperty('authorization');
  });

  test.each<
    [string, { url?: string; key?: string; interval?: string; state?: string; token?: string }, RegExp]
  >([
    ['a URL without a scheme', { url: 'plants.example' }, /--url must be/],
    ['a URL with a password', { url: 'https://a:hunter2@plants.example' }, /^(?!.*hunter2)--url must be/],
    ['a URL with a query', { url: 'https://plants.example/?a=1' }, /--url must be/],
    ['a key that is not one', { key: 'hunter2' }, /^(?!.*hunter2)the key must be a verifier key/],
    ['an interval of 0', { interval: '0' }, /--interval must be a number of seconds/],
    [
      'a token of two lines',
      { token: 'hunter2\nWARN' },
      /^(?!.*hunter2)the environment variable TOKEN is not a valid token/,
    ],
    ['a directory as state', { state: '.' }, /the file \. .* it is not the state of a monitor/],
  ])(
    'refuses %s',
    async (_, { url = 'http://127.0.0.1:1', key = VKEY, interval = '60', state, token = 'x' }, line) => {
      const args = [...optionsFor(url, state ?? newState(), key), '--interval', interval, '--once'];
      expectRefused(await runCommand(args, { token }), line);
    },
  );
});

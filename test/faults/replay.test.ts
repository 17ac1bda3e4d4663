import { logWith } from '@event-sourced/testing/logs';
import { describe, expect, test } from 'vitest';
import { auditorToken, linesOf } from '../support/eventStream.ts';
import { Load } from '../support/load.ts';
import { MAIN, NODE, run, signalGroup, start } from '../support/process.ts';
import { startService } from '../support/service.ts';

const REPLAY = [NODE, MAIN, 'replay'];

test('replay beside a service that handles POSTs prints existing events, and with --follow new ones, until a signal ends it between two lines', async () => {
  const service = await startService();
  const env = { DATA_DIR: service.dir };
  expect((await service.as('alice').create(-1, { name: 'Fern' })).status).toBe(200);
  const load = new Load();
  load.start(service);
  // A terminal signals npm and its child, and npm forwards the signal: it arrives more than once.
  const byNpm = start({ command: ['npm', '-s', 'start', '--', 'replay', '--follow'], env });
  const ofBob = start({ command: [...REPLAY, '--follow', '--user', 'bob', '--after', '1'], env });
  await byNpm.printed(/(.*"name":.*\n){4}/);
  await ofBob.printed(/"name":.*\n/);
  const { stdout, ...ended } = await run({ command: REPLAY, env });

  signalGroup(byNpm.pid, 'SIGINT');
  process.kill(ofBob.pid, 'SIGTERM');
  for (let times = 0; times < 20; times++) process.kill(ofBob.pid, 'SIGTERM');
  const endings = [await byNpm.ended, await ofBob.ended];
  await load.stop(); // they ended although there were always more events
  expect(ended).toEqual({ code: 0, signal: null, stderr: '' });
  expect(endings).toEqual([
    { code: null, signal: 'SIGINT' },
    { code: null, signal: 'SIGTERM' },
  ]);
  const token = await auditorToken(service.dir);
  const printed = (lines: string[]): string => lines.map((line) => `${line}\n`).join('');
  const all = printed(await linesOf(service.url, { token }));
  expect(all.split('\n')).toHaveLength(1 + load.acknowledged.length + 1);
  expect(stdout.split('\n').length).toBeGreaterThanOrEqual(4 + 1);
  const expected = [
    { of: stdout, complete: all },
    { of: byNpm.stdout(), complete: all },
    { of: ofBob.stdout(), complete: printed(await linesOf(service.url, { token, query: '?user=bob' })) },
  ];
  for (const { of, complete } of expected) {
    expect(of).toMatch(/\n$/);
    expect(complete.startsWith(of)).toBe(true);
  }
  expect([byNpm.stderr(), ofBob.stderr()]).toEqual(['', '']);
});

describe('replay with its stdout', () => {
  test('closed early exits without an error', async () => {
    const { code, stdout, stderr } = await run({
      command: ['bash', '-c', 'set -o pipefail; "$@" | head -1', 'bash', ...REPLAY],
      env: { DATA_DIR: logWith({ events: 1_000 }) },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^[^\n]*"subject":"plant-alice\/1"[^\n]*\n$/);
  });

  test('on a full disk fails with one line', async () => {
    const { code, stderr } = await run({
      command: ['sh', '-c', 'exec "$@" > /dev/full', 'sh', ...REPLAY],
      env: { DATA_DIR: logWith({ events: 3 }) },
    });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^ENOSPC[^\n]*\n$/) });
  });
});

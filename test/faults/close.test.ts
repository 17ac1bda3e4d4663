import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { SAME_SIGNAL_WINDOW_MS } from '../../src/commands/signals.ts';
import {
  CTRL_C,
  CUT,
  expectGoodOrder,
  expectRefused,
  hasTerminal,
  keptAlive,
  ON_A_TERMINAL,
  SERVER,
  slowUpload,
  startProcess,
} from '../support/closing.ts';
import { start } from '../support/process.ts';
import { tempDir } from '../support/tempDir.ts';

test('SIGINT to npm start lets a request in flight finish, waits for no idle connection, and ends with 0', () =>
  expectGoodOrder('SIGINT'));

describe('the server', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)(
    'ends in good order on %s from the moment that it says where it listens',
    async (signal) => {
      const server = start({ env: { DATA_DIR: tempDir() } });
      await server.listening();
      process.kill(server.pid, signal);
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stdout()).toContain('"closed"');
    },
  );

  test('does not wait for a connection that is merely kept alive', async () => {
    const { server, url } = await startProcess(SERVER);
    await keptAlive(url);
    process.kill(server.pid, 'SIGTERM');
    expect(await server.ended).toEqual({ code: 0, signal: null });
    expect(server.stdout()).not.toMatch(CUT);
  });

  test('is ended at once by a second signal, whatever is in flight', async () => {
    const started = await startProcess(SERVER);
    const { server, url } = started;
    const upload = await slowUpload(started, 'Fern');
    process.kill(server.pid, 'SIGTERM');
    await server.printed(/"closing"/);
    process.kill(server.pid, 'SIGINT');
    expect(await server.ended).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await upload.closed).not.toContain('HTTP/1.1 200');
    await expectRefused(url);
  });
});

test.skipIf(!hasTerminal)(
  'Ctrl-C in a terminal ends the server at once when it is pressed again',
  async () => {
    const started = await startProcess(ON_A_TERMINAL);
    const { server, url } = started;
    const upload = await slowUpload(started, 'Fern');
    server.stdin.write(CTRL_C);
    await server.printed(/closing/);
    await pause(SAME_SIGNAL_WINDOW_MS + 100);
    server.stdin.write(CTRL_C);
    await server.ended;
    expect(server.stdout()).not.toMatch(/: closed/);
    expect(await upload.closed).not.toContain('HTTP/1.1 200');
    await expectRefused(url);
  },
);

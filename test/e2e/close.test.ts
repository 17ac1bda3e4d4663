import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import {
  CTRL_C,
  CUT,
  connected,
  expectCreated,
  expectGoodOrder,
  expectRefused,
  hasTerminal,
  ON_A_TERMINAL,
  SERVER,
  slowUpload,
  startProcess,
} from '../support/closing.ts';
import { answerOf, auditorToken } from '../support/eventStream.ts';
import { logWith } from '../support/logs.ts';

// The other signal, and what a second one does, are in test/faults.

test('SIGTERM to npm start lets a request in flight finish, waits for no idle connection, and ends with 0', () =>
  expectGoodOrder('SIGTERM'));

test('the server ends event streams properly, cuts clients that never finish or do not read, and ends with 0', async () => {
  // The log is too long to be on the way to a reader all at once.
  const [PLANTS, NAME] = [2_000, "printf('%.15000c', 'x')"];
  const dir = logWith({ events: PLANTS, name: NAME });
  const started = await startProcess(SERVER, dir);
  const { server, url } = started;
  const upload = await slowUpload(started, 'Fern');
  const silent = await connected(url);
  const halfHead = await connected(url);
  halfHead.write('GET /plants HTTP/1.1\r\nHost: loc');
  const token = await auditorToken(dir);
  const stream = await answerOf(url, { token, query: `?after=${PLANTS}` });
  stream.read();
  await stream.received(/\n\n/);
  const replay = await answerOf(url, { token, headers: { accept: 'application/x-ndjson' } });
  process.kill(server.pid, 'SIGTERM');
  expect(await stream.ended).toBe(true);
  expect(await server.ended).toEqual({ code: 0, signal: null });
  expect(server.stdout()).toMatch(CUT);
  expect(await upload.closed).not.toContain('HTTP/1.1 200');
  for (const socket of [silent, halfHead]) if (!socket.closed) await once(socket, 'close');
  replay.read();
  expect(await replay.ended).toBe(false);
  expect(replay.text().split('\n').length).toBeLessThan(PLANTS);
  await expectRefused(url);
});

describe.skipIf(!hasTerminal)('Ctrl-C in a terminal', () => {
  test('ends the server in good order, and the log is written for people', async () => {
    const started = await startProcess(ON_A_TERMINAL);
    const { server, url } = started;
    const upload = await slowUpload(started, 'Fern');
    server.stdin.write(CTRL_C); // npm passes the signal on: it arrives twice
    await server.printed(/closing/);
    upload.finish();
    await expectCreated(upload.closed, 'Fern');
    expect((await server.ended).code).toBe(0);
    expect(server.stdout()).toMatch(/INFO.*: closed/);
    expect(server.stdout()).not.toMatch(/^\{/m);
    await expectRefused(url);
  });
});

import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import {
  CTRL_C,
  CUT,
  connected,
  expectCreated,
  expectGracefulStop,
  expectRefused,
  hasTerminal,
  ON_A_TERMINAL,
  SERVER,
  slowUpload,
  startProcess,
} from '../support/closing.ts';
import { auditorToken, openEvents } from '../support/eventStream.ts';
import { logWith } from '../support/logs.ts';

// The other signal, and a second signal, are in test/faults.

test('SIGTERM to npm start completes requests in flight, closes idle connections, and exits with 0', () =>
  expectGracefulStop('SIGTERM'));

test('SIGTERM completes event streams, disconnects clients that never finish or do not read, and exits with 0', async () => {
  // The log is too long for the buffers of a connection.
  const [PLANTS, NAME] = [2_000, "printf('%.15000c', 'x')"];
  const dir = logWith({ events: PLANTS, name: NAME });
  const started = await startProcess(SERVER, dir);
  const { server, url } = started;
  const upload = await slowUpload(started, 'Fern');
  const silent = await connected(url);
  const halfHead = await connected(url);
  halfHead.write('GET /plants HTTP/1.1\r\nHost: loc');
  const token = await auditorToken(dir);
  const stream = await openEvents(url, { token, query: `?after=${PLANTS}` });
  stream.read();
  await stream.received(/\n\n/);
  const replay = await openEvents(url, { token, headers: { accept: 'application/x-ndjson' } });
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
  test('stops the server gracefully, and the logs are human-readable', async () => {
    const started = await startProcess(ON_A_TERMINAL);
    const { server, url } = started;
    const upload = await slowUpload(started, 'Fern');
    server.stdin.write(CTRL_C); // npm forwards the signal: it arrives twice
    await server.printed(/closing/);
    upload.finish();
    await expectCreated(upload.closed, 'Fern');
    expect((await server.ended).code).toBe(0);
    expect(server.stdout()).toMatch(/INFO.*: closed/);
    expect(server.stdout()).not.toMatch(/^\{/m);
    await expectRefused(url);
  });
});

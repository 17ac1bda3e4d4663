import { once } from 'node:events';
import { connect } from 'node:net';
import { logWith } from '@event-sourced/testing/logs';
import { describe, expect, test } from 'vitest';
import { CUT, DEFAULTS, expectRefused, slowUpload } from '../support/closing.ts';
import { auditorToken, openEvents } from '../support/eventStream.ts';
import { startServer } from '../support/server.ts';

test('SIGTERM completes event streams, disconnects clients that never finish or do not read, and exits with 0', async () => {
  // The log is too long for the buffers of a connection.
  const [PLANTS, NAME] = [2_000, "printf('%.15000c', 'x')"];
  const dir = logWith({ events: PLANTS, name: NAME });
  const server = await startServer({ env: { DATA_DIR: dir, ...DEFAULTS } });
  const { url } = server;
  const upload = await slowUpload(server, 'Fern');
  const port = Number(new URL(url).port);
  const [silent, halfHead] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')];
  for (const socket of [silent, halfHead]) socket.on('error', () => {}); // a reset closes it, too
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
  expect((await upload.response)?.statusCode).not.toBe(200);
  for (const socket of [silent, halfHead]) if (!socket.closed) await once(socket, 'close');
  replay.read();
  expect(await replay.ended).toBe(false);
  expect(replay.text().split('\n').length).toBeLessThan(PLANTS);
  await expectRefused(url);
});

describe('the server', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)(
    'stops gracefully on %s as soon as it logs its address',
    async (signal) => {
      const server = await startServer();
      process.kill(server.pid, signal);
      expect(await server.ended).toEqual({ code: 0, signal: null });
      expect(server.stdout()).toContain('"closed"');
    },
  );

  test('exits at once on a second signal, with requests in flight', async () => {
    const server = await startServer({ env: DEFAULTS });
    const upload = await slowUpload(server, 'Fern');
    process.kill(server.pid, 'SIGTERM');
    await server.printed(/"closing"/);
    process.kill(server.pid, 'SIGINT');
    expect(await server.ended).toEqual({ code: null, signal: 'SIGKILL' });
    expect((await upload.response)?.statusCode).not.toBe(200);
    await expectRefused(server.url);
  });
});

import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { LogClient, LogUnavailable } from '../../src/monitor/logClient.ts';

async function clientOf(log: RequestListener, { signal } = new AbortController()): Promise<LogClient> {
  const server = createServer(log);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new LogClient({ url, token: 't', signal });
}

/** A client of a log that limits its first requests, and the number of requests that the log has got. */
async function limitedClient({ limited, retryAfter }: { limited: number; retryAfter?: string }) {
  let requests = 0;
  const client = await clientOf((_request, response) => {
    requests++;
    if (requests > limited) response.setHeader('content-type', 'text/plain').end('checkpoint');
    else response.writeHead(429, retryAfter ? { 'retry-after': retryAfter } : {}).end('{"message":"Wait."}');
  });
  return { client, requests: () => requests };
}

test('a request over the rate limit is repeated when the response says', async () => {
  const { client, requests } = await limitedClient({ limited: 10, retryAfter: '0' });
  expect(String(await client.checkpoint())).toBe('checkpoint');
  expect(requests()).toBe(11);
});

test('a log that limits every request is unavailable', async () => {
  const { client, requests } = await limitedClient({ limited: Number.POSITIVE_INFINITY, retryAfter: '0' });
  await expect(client.checkpoint()).rejects.toThrow(/checkpoint: 429 Wait\.$/);
  expect(requests()).toBe(11);
});

test.each([['3600'], ['soon'], [undefined]])('one that says to wait %s is, too', async (retryAfter) => {
  const { client, requests } = await limitedClient({ limited: 1, ...(retryAfter && { retryAfter }) });
  await expect(client.checkpoint()).rejects.toThrow(LogUnavailable);
  expect(requests()).toBe(1);
});

/** A client of a log that zips its responses for clients that accept it. */
const zippingClient = (body: Buffer): Promise<LogClient> =>
  clientOf(({ headers }, response) => {
    expect(headers['accept-encoding']).toBe('gzip');
    response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }).end(body);
  });

test('a zipped response is unzipped', async () => {
  const client = await zippingClient(gzipSync('checkpoint'));
  expect(String(await client.checkpoint())).toBe('checkpoint');
});

test.each([
  ['that is larger once unzipped', gzipSync(Buffer.alloc(20_000)), /larger than 16384 bytes/],
  ['that is not zipped', Buffer.from('checkpoint'), /incorrect header check/],
  ['that breaks off', gzipSync('checkpoint').subarray(0, -9), /unexpected end of file/],
])('a log with a zipped response %s is unavailable', async (_, body, message) => {
  const checkpoint = (await zippingClient(body)).checkpoint();
  await expect(checkpoint).rejects.toThrow(LogUnavailable);
  await expect(checkpoint).rejects.toThrow(message);
});

test('a log whose connection breaks off within a response is unavailable', async () => {
  const client = await clientOf(({ socket }, response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).write('checkpoint', () => {
      socket.resetAndDestroy();
    });
  });
  await expect(client.checkpoint()).rejects.toThrow(LogUnavailable);
});

test.each([
  ['before', () => {}],
  ['within', (response: ServerResponse) => void response.writeHead(200).write('check')],
])('its signal ends a request %s the response', async (_, respond) => {
  const ending = new AbortController();
  const client = await clientOf((_request, response) => {
    respond(response);
    setTimeout(() => ending.abort(new Error('the end')), 10);
  }, ending);
  await expect(client.checkpoint()).rejects.toThrow(/^the end$/);
});

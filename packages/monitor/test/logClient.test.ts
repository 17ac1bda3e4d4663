import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { failureReason } from '../../node/src/http/response.ts';
import { LogClient } from '../src/logClient.ts';
import { NotChecked } from '../src/notChecked.ts';
import { entries, FakeLog, serve } from './fakeLog.ts';

async function urlOf(log: RequestListener): Promise<string> {
  const server = createServer(log);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const clientOf = async (log: RequestListener, { signal } = new AbortController()): Promise<LogClient> =>
  new LogClient({ url: await urlOf(log), token: 't', signal });

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
  await expect(client.checkpoint()).rejects.toThrow(NotChecked);
  expect(requests()).toBe(1);
});

test('events are lines in pieces of any size, read after a position or by type', async () => {
  const urls: unknown[] = [];
  const client = await clientOf(async ({ url }, response) => {
    urls.push(url);
    response.setHeader('content-type', 'application/x-ndjson');
    for (const byte of Buffer.from('{"a":"é\u2028"}\n\n{}\n{"end":"9"}\n'))
      await new Promise((sent) => response.write(Buffer.of(byte), sent));
    response.end();
  });
  expect(await Array.fromAsync(client.events({ after: '7' }))).toEqual(['{"a":"é\u2028"}', '', '{}']);
  await Array.fromAsync(client.events({ type: 'EventErased' }));
  expect(urls).toEqual(['/events?after=7&end=true', '/events?type=EventErased&end=true']);
});

test.each([
  ['end within a line', 'application/x-ndjson', '{}', /the response ends within a line$/],
  [
    'do not say where they end',
    'application/x-ndjson',
    '{}\n',
    /has broken off: its last line, .* is missing$/,
  ],
  ['have another media type', 'text/plain', '{}', /its content type is text\/plain$/],
])('events that %s are unavailable', async (_, type, body, message) => {
  const client = await clientOf((_request, response) => response.setHeader('content-type', type).end(body));
  const events = Array.fromAsync(client.events({}));
  await expect(events).rejects.toThrow(NotChecked);
  await expect(events).rejects.toThrow(message);
});

test.each(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'])(
  'the reason %s says how to use a private certificate authority',
  (code) => {
    const error = new TypeError('fetch failed', { cause: Object.assign(new Error(), { code }) });
    expect(failureReason(error)).toBe(
      `${code}; for a private certificate authority, set NODE_EXTRA_CA_CERTS to a file with its certificate`,
    );
  },
);

test('a second read of a URL bypasses caches', async () => {
  const controls: unknown[] = [];
  const client = await clientOf(({ headers }, response) => {
    controls.push(headers['cache-control']);
    response.setHeader('content-type', 'application/octet-stream').end();
  });
  for (const index of [0, 1, 0]) await client.entries(index, 256);
  expect(controls).toEqual([undefined, undefined, 'no-cache']);
});

test('a deleted partial tile is cut from the full tile', async () => {
  const full = new FakeLog(entries(256));
  const http = await serve(full);
  const client = new LogClient({ url: http.url, token: 'secret', signal: new AbortController().signal });
  const { tile, entries: bundle } = full;
  full.tile = async (one) => (one.width < 256 ? Promise.reject(new Error()) : tile.call(full, one));
  full.entries = async (i, width) =>
    width < 256 ? Promise.reject(new Error()) : bundle.call(full, i, width);
  const partial = { level: 0, index: 0, width: 7 };
  expect(await client.tile(partial)).toEqual(await tile.call(full, partial));
  expect(await client.entries(0, 7)).toEqual(await bundle.call(full, 0, 7));
  const missing = client.tile({ ...partial, index: 1 });
  await expect(missing).rejects.toMatchObject({
    isMissing: true,
    message: expect.stringContaining('001.p/7'),
  });
});

test('a checkpoint may have 16 signatures of 5 kB, and 16 others', async () => {
  const note = 'x'.repeat(2 * 16 * 5_000 * (4 / 3));
  const client = await clientOf((_, response) => response.setHeader('content-type', 'text/plain').end(note));
  expect(String(await client.checkpoint())).toBe(note);
});

test('a response may have no media type, and arrive in pieces of any size', async () => {
  const url = await urlOf(async ({ headers }, response) => {
    expect(headers.authorization).toBeUndefined();
    for (const byte of 'checkpoint') await new Promise((sent) => response.write(byte, sent));
    response.end();
  });
  const client = new LogClient({ url, signal: new AbortController().signal });
  expect(String(await client.checkpoint())).toBe('checkpoint');
});

/** A client of a log that responds with this body, said to be compressed. */
const compressing = (body: Buffer): Promise<LogClient> =>
  clientOf(({ headers }, response) => {
    expect(headers['accept-encoding']).toContain('gzip');
    response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': 'gzip' }).end(body);
  });

test('a compressed response is decompressed', async () => {
  const client = await compressing(gzipSync('checkpoint'));
  expect(String(await client.checkpoint())).toBe('checkpoint');
});

test.each([
  ['that is larger once it is decompressed', gzipSync(Buffer.alloc(1_100_000)), /larger than 1000000 bytes/],
  ['that is not compressed', Buffer.from('checkpoint'), /Z_DATA_ERROR/],
])('a log with a compressed response %s is unavailable', async (_, body, message) => {
  const checkpoint = (await compressing(body)).checkpoint();
  await expect(checkpoint).rejects.toThrow(NotChecked);
  await expect(checkpoint).rejects.toThrow(message);
});

test.each<[string, RequestListener, RegExp?]>([
  [
    'resets the connection within a response',
    ({ socket }, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('checkpoint', () => void socket.resetAndDestroy());
    },
  ],
  [
    'switches protocols',
    ({ socket }) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    },
  ],
  [
    'redirects',
    (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    /: unexpected redirect$/,
  ],
  [
    'is a page of a proxy',
    (_, response) => response.setHeader('content-type', 'text/html').end('<p>'),
    /text\/html/,
  ],
  [
    'responds with too many bytes',
    (_, response) => response.setHeader('content-type', 'text/plain').end(Buffer.alloc(2_000_000)),
    /larger than 1000000 bytes/,
  ],
])('a log that %s is unavailable', async (_, log, message = /./) => {
  const checkpoint = (await clientOf(log)).checkpoint();
  await expect(checkpoint).rejects.toThrow(NotChecked);
  await expect(checkpoint).rejects.toThrow(message);
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

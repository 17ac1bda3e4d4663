import { Readable } from 'node:stream';
import { createGunzip, gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { openServer } from './openServer.ts';

const TEXT = JSON.stringify(Array.from({ length: 500 }, (_, i) => ({ name: `Fern ${i}` })));
const GZIP = { 'accept-encoding': 'gzip' };

async function server() {
  const app = await openServer();
  app.get('/text', async (_, reply) => reply.type('application/json').send(TEXT));
  app.get('/short', async () => ({ name: 'Fern' }));
  app.get('/bytes', async (_, reply) => reply.type('application/octet-stream').send(Buffer.alloc(10_000)));
  app.get('/stream', async (_, reply) =>
    reply.type('application/x-ndjson').send(Readable.from([TEXT, TEXT])),
  );
  app.get('/messages', async (_, reply) => reply.type('text/event-stream').send(Readable.from([TEXT])));
  app.get('/endless', async (_, reply) => {
    const stream = new Readable({ read() {} });
    stream.push('a line\n');
    return reply.type('application/x-ndjson').send(stream);
  });
  return app;
}

test.each([
  ['/text', TEXT],
  ['/stream', TEXT + TEXT],
])('%s is compressed for clients that ask', async (url, text) => {
  const app = await server();
  const { headers, rawPayload } = await app.inject({ url, headers: GZIP });
  expect(headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  expect(gunzipSync(rawPayload).toString()).toBe(text);
});

test.each([undefined, '', 'identity', 'gzip;q=0', '*;q=0', 'deflate', 'GZIPPED', ',;q=', 'gzip;q=abc'])(
  'text is not compressed with Accept-Encoding: %s',
  async (encoding) => {
    const app = await server();
    const headers = encoding === undefined ? {} : { 'accept-encoding': encoding };
    for (const [url, text] of [
      ['/text', TEXT],
      ['/stream', TEXT + TEXT],
    ]) {
      const response = await app.inject({ url: url as string, headers });
      expect(response.headers).not.toHaveProperty('content-encoding');
      expect(response.payload).toBe(text);
    }
  },
);

test.each(['/short', '/bytes', '/messages'])('%s is never compressed', async (url) => {
  const { headers } = await (await server()).inject({ url, headers: GZIP });
  expect(headers).not.toHaveProperty('content-encoding');
});

test('HEAD has the headers of GET', async () => {
  const app = await server();
  const [get, head] = await Promise.all(
    (['GET', 'HEAD'] as const).map((method) => app.inject({ method, url: '/text', headers: GZIP })),
  );
  const { 'content-length': length, 'content-encoding': encoding } = head?.headers ?? {};
  expect([length, encoding]).toEqual([get?.headers['content-length'], 'gzip']);
});

test('a compressed stream that fails does not look complete', async () => {
  const app = await server();
  const received = Promise.withResolvers<void>();
  async function* pieces() {
    yield TEXT;
    await received.promise;
    throw new Error('a failure');
  }
  app.get('/failing', async (_, reply) => reply.type('application/x-ndjson').send(Readable.from(pieces())));
  const response = await fetch(`${await app.listen({ port: 0 })}/failing`, { headers: GZIP });
  expect(response.headers.get('content-encoding')).toBe('gzip');
  received.resolve();
  await expect(response.text()).rejects.toThrow();
});

test('each piece of a stream is sent at once', async () => {
  const app = await server();
  const url = await app.listen({ port: 0 });
  const { get } = await import('node:http');
  const line = await new Promise((resolve, reject) => {
    const request = get(`${url}/endless`, { headers: GZIP }, (response) => {
      response.pipe(createGunzip()).once('data', (piece) => {
        request.destroy();
        resolve(String(piece));
      });
    });
    request.on('error', reject);
  });
  expect(line).toBe('a line\n');
});

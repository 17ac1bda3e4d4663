import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { connection, responseTo } from '@event-sourced/testing/rawHttp';
import pino from 'pino';
import { expect, test } from 'vitest';
import { HTTP_ERRORS } from '../src/errors.ts';
import { httpServer } from '../src/server.ts';
import { openServer } from './openServer.ts';

const APP = 'https://app.example';

/** A server with routes that have parameters. */
async function serve(): Promise<string> {
  const app = await openServer(APP);
  app.get('/beds/:bed', async ({ params }) => params);
  app.put('/beds/:bed/plants/:plant', async ({ params }) => params);
  app.delete('/beds/:bed/plants/:plant', async ({ params }) => params);
  return app.listen({ port: 0, host: '127.0.0.1' });
}

test.each([
  ['/beds/1', 'GET, HEAD'],
  ['/beds/a%2Fb', 'GET, HEAD'],
  ['/beds/1/plants/2', 'DELETE, PUT'],
  ['/bed%73/%31/plants/2', 'DELETE, PUT'],
])('another method for %s is 405, and Allow is %s', async (path, allow) => {
  const url = await serve();
  const { status, headers } = await fetch(`${url}${path}`, { method: 'POST' });
  expect([status, headers.get('allow')]).toEqual([405, allow]);
});

test.each(['/', '/beds', '/beds/1/2', '/beds/1/plants', '/x/beds/1'])('%s is 404', async (path) => {
  const url = await serve();
  const { status, headers } = await fetch(`${url}${path}`, { method: 'POST' });
  expect([status, headers.get('allow')]).toEqual([404, null]);
});

test('an unknown error keeps the status of a client error, and its message is not sent', async () => {
  const app = await openServer();
  app.get('/', () => Promise.reject(Object.assign(new Error('secret'), { statusCode: 418 })));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const response = await fetch(url);
  const body = { error: 41801, message: 'The request cannot be processed.' };
  expect([response.status, await response.json()]).toEqual([418, body]);
});

test.each([
  ['JSON', 200, 'GET /beds/1 HTTP/1.1\r\nHost: x\r\n'],
  ['an error', 404, 'GET /beds HTTP/1.1\r\nHost: x\r\n'],
  [
    'a preflight response',
    204,
    `OPTIONS /beds/1 HTTP/1.1\r\nHost: x\r\nOrigin: ${APP}\r\nAccess-Control-Request-Method: GET\r\n`,
  ],
  ['an error of the router', 400, 'GET /beds/%zz HTTP/1.1\r\nHost: x\r\n'],
  ['an error that is written to the socket', 400, 'GET /beds/1 HTTP/1.1\r\nHost : x\r\n'],
])('%s cannot be sniffed, framed or embedded by a browser', async (_what, status, head) => {
  const response = await responseTo(await serve(), `${head}Connection: close\r\n\r\n`);
  expect(response.status).toBe(status);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none';frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'x-frame-options': 'DENY',
  });
});

test('a CORS preflight request permits the methods of the path', async () => {
  const url = await serve();
  const headers = { origin: APP, 'access-control-request-method': 'PUT' };
  const answer = await fetch(`${url}/beds/1/plants/2`, { method: 'OPTIONS', headers });
  expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([204, APP]);
  expect(answer.headers.get('access-control-allow-methods')).toBe('DELETE, PUT');
});

test('a parameter may be long, and is decoded', async () => {
  const url = await serve();
  const bed = `a/b ${'ü'.repeat(1_000)}`;
  const answer = await fetch(`${url}/beds/${encodeURIComponent(bed)}`);
  expect([answer.status, await answer.json()]).toEqual([200, { bed }]);
});

const GET_SLOW = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n';
const POST = 'POST /beds HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n';

test.each([
  ['a body', `${POST}{"bed`, '":12}'],
  ['a head', POST.slice(0, 20), `${POST.slice(20)}{"bed":12}`],
])('the time in which a request waits, with half of %s, is no fault of its client', async (_, half, rest) => {
  const app = await openServer();
  const called = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<string>();
  app.get('/slow', () => {
    called.resolve();
    return answered.promise;
  });
  app.post('/beds', async ({ body }) => body);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  app.server.requestTimeout = app.server.headersTimeout = 1;
  const socket = connection(url);
  socket.write(GET_SLOW + half);
  const received = text(socket);
  await called.promise;
  const [error] = await once(app.server, 'clientError');
  expect(error.code).toBe('ERR_HTTP_REQUEST_TIMEOUT');
  app.server.requestTimeout = app.server.headersTimeout = 0; // not of what follows
  socket.write(`${rest}${POST.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}{"bed":34}`);
  answered.resolve('slow');
  const responses = (await received).split('HTTP/1.1 ').slice(1);
  expect(responses.map((one) => [one.slice(0, 3), one.split('\r\n\r\n')[1]])).toEqual([
    ['200', 'slow'],
    ['200', '{"bed":12}'],
    ['200', '{"bed":34}'],
  ]);
});

test('a response of unknown length to HTTP/1.0 is 50501, and its source is closed', async () => {
  const app = await openServer();
  const source = Readable.from(['any', 'number']);
  app.get('/unknown', async (_request, reply) => {
    reply.header('link', '<next>; rel="next"').header('content-encoding', 'gzip');
    return reply.send(source);
  });
  app.get('/known', async (_request, reply) =>
    reply.header('content-length', 4).send(Readable.from(['fo', 'ur'])),
  );
  app.get('/text', async () => 'text');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const get = (path: string) => responseTo(url, `GET ${path} HTTP/1.0\r\n\r\n`);
  const refused = await get('/unknown');
  expect([refused.status, await refused.json()]).toMatchObject([505, { error: 50501 }]);
  expect(refused.headers.get('link') ?? refused.headers.get('content-encoding')).toBeNull();
  expect(source.destroyed).toBe(true);
  for (const path of ['/known', '/text']) expect((await get(path)).status).toBe(200);
});

test('while the server closes, a request on an open connection gets a response, which closes the connection', async () => {
  const logger = pino({ level: 'silent' });
  const closeIdleAfterMs = 3_600_000; // longer than the test
  const app = await httpServer({ logger, corsOrigins: [], errors: HTTP_ERRORS, closeIdleAfterMs });
  app.get('/', async () => 'text');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const socket = connection(url);
  const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
  socket.write(get);
  expect(String(await once(socket, 'data'))).toContain('Connection: keep-alive');
  const rest = text(socket);
  const closed = app.close();
  await expect.poll(() => app.server.listening).toBe(false);
  socket.write(get);
  expect(await rest).toMatch(/^HTTP\/1\.1 200 .*\r\nconnection: close\r\n.*\r\n\r\ntext$/is);
  await closed;
});

test('the connection of a response that fails is reset, so that it does not look complete', async () => {
  const app = await openServer();
  const failed = Promise.withResolvers<never>();
  app.get('/', async (_request, reply) => {
    async function* pieces() {
      yield 'first';
      await failed.promise;
    }
    return reply.send(Readable.from(pieces()));
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const socket = connection(url);
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(socket, 'data');
  const reset = new Promise((resolve) => socket.once('error', resolve));
  failed.reject(new Error('the disk is gone'));
  expect(await reset).toMatchObject({ code: 'ECONNRESET' });
});

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { connection } from '@event-sourced/testing/rawHttp';
import { expect, onTestFinished, test } from 'vitest';
import type { RequestWithBody } from '../src/body.ts';
import { boundedServer, tooMuchUnread } from '../src/boundedServer.ts';

const get = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${fields}\r\n`;
const post = (body: string, path = '/') =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const chunked = (body: string): string =>
  `${get('/', 'Transfer-Encoding: chunked\r\n')}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
const LAST = get('/last', 'Connection: close\r\n');
const FIELDS = Array.from({ length: 900 }, (_, i) => `${i}:\r\n`).join('');
const LARGEST_BODY = 'x'.repeat(60 * 1024);
/** More requests than a single read can have. */
const MANY = get('/').repeat(20_000);

/** Resolves when the server has ended or reset a connection. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => void socket.resume().once('end', resolve).once('close', resolve));

type Server = ReturnType<typeof boundedServer>;

/** A server that holds all requests except for `/other`, and counts parsed requests. */
async function serve({ prepare = (_server: Server): void => {}, maxConnections = 1_000 } = {}) {
  const held: { request: IncomingMessage; response: ServerResponse }[] = [];
  const counts = { parsed: 0, waiting: 0, refused: 0 };
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    if (request.url === '/other') response.end('o');
    else held.push({ request, response });
  };
  const server = boundedServer({ maxConnections }, handle, ({ waiting, refused }) => {
    counts.waiting += waiting;
    counts.refused += refused;
  });
  server.prependListener('request', () => counts.parsed++);
  prepare(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const open = () => connection(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return {
    held,
    counts,
    open,
    /** The next request that is handled. */
    async next() {
      await expect.poll(() => held.length).toBeGreaterThan(0);
      return held.shift() as (typeof held)[number];
    },
    async isAnswered(): Promise<void> {
      const other = open();
      other.write(get('/other', 'Connection: close\r\n'));
      expect(await text(other)).toMatch(/\r\n\r\no$/);
    },
  };
}

test('pipelined requests are handled one at a time, and answered in order', async () => {
  const { open, next, held, isAnswered } = await serve();
  const socket = open();
  socket.write(get('/a') + post('body') + LAST);
  const received = text(socket);
  const bodies = ['a'.repeat(10_000_000), 'b', 'c'];
  for (const body of bodies) {
    const { response } = await next();
    await isAnswered();
    expect(held).toEqual([]);
    response.end(body);
  }
  const responses = (await received).split('HTTP/1.1 200 OK\r\n').slice(1);
  expect(responses.map((one) => one.split('\r\n\r\n')[1])).toEqual(bodies);
});

test('bodies of pipelined requests are whole', async () => {
  const { open, next } = await serve();
  const socket = open();
  const bodies = ['a', 'b', 'c'].map((letter) => letter.repeat(10_000));
  const bytes = bodies.map((body) => post(body)).join('');
  for (let at = 0; at < bytes.length; at += 7_777) socket.write(bytes.slice(at, at + 7_777));
  for (const body of bodies) {
    const { request, response } = await next();
    const { promise, resolve } = Promise.withResolvers<Buffer | undefined>();
    (request as RequestWithBody).gather().read((_error, bytes) => resolve(bytes));
    response.end(await promise);
    expect(response.writableLength).toBe(0);
    expect(body).toHaveLength(10_000);
  }
});

test('small requests may be pipelined, also with bodies of unknown length', async () => {
  const { open, next } = await serve();
  const socket = open();
  socket.write(chunked('x').repeat(11) + LAST);
  const received = text(socket);
  for (let i = 0; i < 12; i++) (await next()).response.end(`${i}`);
  const bodies = [...(await received).matchAll(/\r\n\r\n(\d+)/g)].map(([, body]) => Number(body));
  expect(bodies).toEqual(Array.from({ length: 12 }, (_, i) => i));
});

test('a single request may have the maximum size', async () => {
  const { open, next } = await serve();
  const socket = open();
  for (const bytes of [get('/', FIELDS), post(LARGEST_BODY), get('/', FIELDS)]) {
    socket.write(bytes);
    (await next()).response.end();
    await once(socket, 'data');
  }
});

test.each([
  ['20 000 requests', MANY],
  ['heads of many fields', get('/', FIELDS).repeat(2)],
  ['bodies', post(LARGEST_BODY).repeat(2)],
  ['bodies of unknown length', chunked(LARGEST_BODY).repeat(2)],
  ['long URLs', get(`/${'x'.repeat(15_000)}`).repeat(5)],
  ['long fields', get('/', `X: ${'x'.repeat(15_000)}\r\n`).repeat(5)],
  ['a CONNECT', `${get('/').repeat(15)}CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n`],
  ['an upgrade', get('/').repeat(15) + get('/', 'Connection: upgrade\r\nUpgrade: x\r\n')],
])('a connection that pipelines more than 64 KiB is reset: %s', async (_, bytes) => {
  const { open, counts, held, isAnswered } = await serve();
  const socket = open();
  socket.write(bytes);
  await closed(socket);
  await isAnswered();
  expect(held.map(({ response }) => response.destroyed)).toEqual([true]);
  expect(counts.parsed).toBeLessThanOrEqual(17);
  await expect.poll(() => counts.waiting).toBe(1);
});

test('small requests with bodies are answered one per turn of the event loop', async () => {
  const { open, counts, isAnswered } = await serve();
  const socket = open();
  socket.write(post('x', '/other').repeat(20_000));
  await closed(socket);
  await isAnswered();
  expect(counts.parsed).toBeLessThan(1_000);
});

test('without the hook into its parser, Node parses what was read, and the server still bounds what it handles', async () => {
  const prepare = (server: Server): void => {
    const [ofNode, ours] = server.listeners('connection') as [
      (socket: Socket) => void,
      (socket: Socket) => void,
    ];
    server.removeAllListeners('connection').on('connection', (socket: Socket & { parser?: unknown }) => {
      ofNode.call(server, socket);
      const { parser } = socket;
      socket.parser = {}; // as of a version of Node that has none
      ours.call(server, socket);
      socket.parser = parser;
    });
  };
  const { open, next, counts, held, isAnswered } = await serve({ prepare });
  const socket = open();
  socket.write(get('/a') + LAST);
  const received = text(socket);
  for (const body of ['a', 'b']) (await next()).response.end(body);
  expect(await received).toMatch(/\r\n\r\na[\s\S]*\r\n\r\nb$/);

  const attacker = open();
  attacker.write(MANY);
  await closed(attacker);
  await isAnswered();
  expect(held).toHaveLength(1);
  expect(counts.parsed).toBeGreaterThan(1_000);
});

test('connections beyond the limit are refused, and counted', async () => {
  const { open, counts } = await serve({ maxConnections: 2 });
  const [first, second] = [open(), open()];
  await Promise.all([once(first, 'connect'), once(second, 'connect')]);
  await closed(open());
  await expect.poll(() => counts.refused).toBe(1);
  first.destroy();
  second.write(get('/other'));
  await once(second, 'data');
});

test('closing all connections resets those whose response is unfinished', async () => {
  const servers: Server[] = [];
  const { open, next } = await serve({ prepare: (server) => void servers.push(server) });
  const [busy, idle] = [open(), open()];
  busy.write(get('/a'));
  idle.write(get('/other'));
  await once(idle, 'data');
  const { response } = await next();
  response.write('a part');
  await once(busy, 'data');
  const ends = Promise.all([
    new Promise((resolve) => busy.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code))),
    new Promise((resolve) => idle.once('end', () => resolve('end'))),
  ]);
  for (const server of servers) server.closeAllConnections();
  expect(await ends).toEqual(['ECONNRESET', 'end']);
});

test.each([
  ['within the bound, none', [400, 300, 300], []],
  ['those with most are closed, and no more than needed', [300, 400, 500, 200], [2]],
  ['of equals the newest', [400, 400, 400, 0], [2]],
  ['one alone may be over it', [1_001], [0]],
])('of connections with unread bytes: %s', (_, unread, closed) => {
  const sockets = unread.map((writableLength) => ({ writableLength, destroyed: false }) as Socket);
  const gone = { writableLength: 5_000, destroyed: true } as Socket;
  const all = new Set([gone, ...sockets]);
  expect([...tooMuchUnread(all, 1_000)].map((socket) => sockets.indexOf(socket))).toEqual(closed);
  expect([...all]).toEqual(sockets);
});

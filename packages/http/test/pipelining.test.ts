import { once } from 'node:events';
import { createServer, IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { connection } from '@event-sourced/testing/rawHttp';
import { expect, onTestFinished, test } from 'vitest';
import { type Handle, handleInOrder } from '../src/pipelining.ts';

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
const post = (body: string) => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const MANY = Array.from({ length: 20_000 }, (_, i) => get(`/${i}`)).join('');
/** What one read may take. */
const READ_BYTES = 64 * 1024;

/** A server that handles requests in turn, with how many of them it has read. */
async function serve(handle: Handle) {
  let read = 0;
  let parsed = 0;
  let closed = 0;
  class CountedMessage extends IncomingMessage {
    constructor(socket: Socket) {
      super(socket);
      parsed++;
    }
  }
  const server = createServer({ IncomingMessage: CountedMessage }, () => read++);
  handleInOrder(server, handle, () => closed++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return {
    read: () => read,
    parsed: () => parsed,
    closed: () => closed,
    connections: promisify(server.getConnections.bind(server)),
    open: () => connection(`http://127.0.0.1:${port}`),
  };
}

/** The bodies of the responses on a connection, which have a character each, until there are as many. */
async function bodies(socket: Socket, count: number): Promise<string> {
  let received = '';
  for await (const piece of socket) {
    received += piece;
    const found = [...received.matchAll(/\r\n\r\n(.)/g)].map(([, body]) => body);
    if (found.length === count) return found.join('');
  }
  throw new Error(`closed after ${received}`);
}

/** A server that holds all requests but those of `/other`. */
async function serveHolding(onRequest = (_request: IncomingMessage): void => {}) {
  const held: { request: IncomingMessage; response: ServerResponse }[] = [];
  const server = await serve((request, response) => {
    onRequest(request);
    if (request.url === '/other') response.end('o');
    else held.push({ request, response });
  });
  return { ...server, held, next: () => expect.poll(() => held.length).toBeGreaterThan(0) };
}

test('of 20 000 pipelined requests one is handled, few wait, and the others are not parsed', async () => {
  const { held, next, open, read, parsed, closed } = await serveHolding();
  const socket = open();
  socket.write(MANY);
  await next();
  for (let i = 0; i < 20; i++) {
    const other = open();
    other.write(get('/other'));
    expect(await bodies(other, 1)).toBe('o');
  }
  expect(held).toHaveLength(1);
  expect(closed()).toBe(1);
  const accepted = read() - 20;
  expect(accepted).toBeGreaterThan(8);
  expect(accepted).toBeLessThanOrEqual(16);
  expect(parsed()).toBe(read() + 1);
});

test('if too many wait, the connection is closed after the last of them was answered', async () => {
  const { held, next, open, read } = await serveHolding();
  const socket = open();
  const answered = text(socket);
  socket.write(MANY);
  await next();
  const count = read();
  for (let i = 0; i < count; i++) {
    await next();
    // More than the kernel takes at once: closed too early, it would be lost.
    held.pop()?.response.end(`${i} `.padEnd(300_000, '.'));
  }
  const responses = (await answered).split('HTTP/1.1 200 OK\r\n').slice(1);
  expect(responses.map((one) => parseInt(one.split('\r\n\r\n')[1] ?? '', 10))).toEqual(
    Array.from({ length: count }, (_, i) => i),
  );
  expect(responses.map((one) => one.endsWith('.'))).not.toContain(false);
  const closes = responses.map((one) => one.includes('Connection: close\r\n'));
  expect(closes).toEqual(responses.map((_, i) => i === count - 1));
});

test('one that is too large to wait closes the connection after the response in flight, whose head was sent', async () => {
  const { held, next, open, read, closed } = await serveHolding();
  const socket = open();
  const answered = text(socket);
  socket.write(get('/a'));
  await next();
  held[0]?.response.write('a');
  const fields = Array.from({ length: 900 }, (_, i) => `${i}:\r\n`).join('');
  socket.write(`GET / HTTP/1.1\r\nHost: x\r\n${fields}\r\n`);
  await expect.poll(closed).toBe(1);
  expect(read()).toBe(1);
  held[0]?.response.end('b');
  expect(await answered).toMatch(/\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/);
});

test.each([
  'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
  post('x'),
  'nonsense\r\n\r\n',
])('whatever comes when too many wait, those that wait are answered: %j', async (last) => {
  const { held, next, open, read, closed } = await serveHolding();
  const socket = open();
  const answered = text(socket);
  const tooMany = 20;
  // Each in a read of its own, so that the last one is the first that is refused.
  for (let sent = 0; closed() === 0; sent++) {
    expect(sent).toBeLessThan(tooMany);
    const before = read();
    socket.write(get('/a'));
    await expect.poll(() => read() + closed()).toBe(before + 1);
  }
  socket.write(last);
  const count = read();
  for (let i = 0; i < count; i++) {
    await next();
    held.pop()?.response.end('a');
  }
  expect((await answered).match(/\r\n\r\na/g)).toHaveLength(count);
});

test('a client that disconnects is noticed while requests without a body wait', async () => {
  const { held, next, open, read, connections } = await serveHolding();
  for (const disconnect of ['destroy', 'resetAndDestroy'] as const) {
    const before = read();
    const socket = open();
    socket.write(get('/a').repeat(3));
    await next();
    await expect.poll(read).toBe(before + 3);
    socket[disconnect]();
    await expect.poll(() => connections()).toBe(0);
    const [first] = held.splice(0);
    expect(first?.response.destroyed).toBe(true);
  }
});

test('while a request with a body waits, no more of it is read', async () => {
  const received: number[] = [];
  const { held, next, open, connections } = await serveHolding((request) =>
    request.on('data', (piece: Buffer) => received.push(piece.length)),
  );
  expect(await connections()).toBe(0);
  const socket = open();
  const body = 'x'.repeat(10_000_000);
  socket.write(get('/a') + post(body));
  await next();
  const [first] = held.splice(0);
  const socketOfServer = first?.request.socket;
  const bytesRead = socketOfServer?.bytesRead;
  for (let i = 0; i < 100; i++) await nextTurn();
  expect(socketOfServer?.bytesRead).toBe(bytesRead);
  first?.response.end('a');
  await next();
  await expect.poll(() => received.reduce((sum, length) => sum + length, 0)).toBe(body.length);
});

test('bodies of pipelined requests arrive whole, in order', async () => {
  const received: string[] = [];
  const { open } = await serve(async (request, response) => {
    received.push(await text(request));
    response.end('x');
  });
  const sent = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(5_000, '.'));
  const socket = open();
  const answered = bodies(socket, sent.length);
  const bytes = sent.map(post).join('');
  for (let at = 0; at < bytes.length; at += 7_777) socket.write(bytes.slice(at, at + 7_777));
  await answered;
  expect(received).toEqual(sent);
});

test('of a client that has disconnected, those that wait are not handled', async () => {
  const { held, next, open, connections } = await serveHolding();
  const socket = open();
  socket.write(MANY);
  await next();
  socket.destroy();
  let handled = 0;
  while ((await connections()) > 0) {
    for (const { response } of held.splice(0)) {
      handled++;
      response.end('x'.repeat(READ_BYTES));
    }
    await nextTurn();
  }
  expect(handled).toBeLessThan(1_000);
});

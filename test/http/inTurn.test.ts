import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { type Handle, inTurn } from '../../src/http/inTurn.ts';

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
const post = (body: string) => `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const MANY = Array.from({ length: 20_000 }, (_, i) => get(`/${i}`)).join('');
/** What one read may take. */
const READ_BYTES = 64 * 1024;

/** A server that handles requests in turn, with how many of them it has read. */
async function serve(handle: Handle, maxBytes?: number) {
  let read = 0;
  let closed = 0;
  const listener = inTurn(handle, () => closed++, maxBytes);
  const server = createServer((request, response) => {
    read++;
    listener(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return {
    read: () => read,
    closed: () => closed,
    connections: promisify(server.getConnections.bind(server)),
    open: (): Socket => {
      const socket = connect({ host: '127.0.0.1', port }).on('error', () => {});
      sockets.push(socket);
      return socket;
    },
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

/** A handler that holds all requests but those of `/other`. */
function holding() {
  const held: { request: IncomingMessage; response: ServerResponse }[] = [];
  const handle: Handle = (request, response) => {
    if (request.url === '/other') response.end('o');
    else held.push({ request, response });
  };
  return { held, handle, next: () => expect.poll(() => held.length).toBeGreaterThan(0) };
}

test('of 20 000 pipelined requests one is handled, and a read of 64 KiB waits', async () => {
  const { held, handle, next } = holding();
  const { open, read } = await serve(handle);
  const socket = open();
  socket.write(MANY);
  await next();
  for (let i = 0; i < 20; i++) {
    const other = open();
    other.write(get('/other'));
    expect(await bodies(other, 1)).toBe('o');
  }
  expect(held).toHaveLength(1);
  expect(read()).toBeLessThanOrEqual((2 * READ_BYTES) / get('/0').length);
});

test('pipelined requests are answered in order, the next one when the one before it was sent', async () => {
  const { held, handle, next } = holding();
  const { open } = await serve(handle);
  const socket = open();
  socket.write(Array.from('abcdefgh', (name) => get(`/${name}`)).join(''));
  const answered = bodies(socket, 8);
  for (let i = 0; i < 8; i++) {
    await next();
    expect(held).toHaveLength(1);
    const { request, response } = held.pop() as (typeof held)[number];
    response.end(request.url?.slice(1));
  }
  expect(await answered).toBe('abcdefgh');
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
  const { held, handle, next } = holding();
  const { open, connections } = await serve(handle);
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

test('if too many wait, the connection with most of them is closed', async () => {
  const { held, handle, next } = holding();
  const { open, closed } = await serve(handle, 2 ** 20);
  const few = open();
  few.write(get('/a').repeat(20));
  await next();
  const [first] = held.splice(0);
  for (let i = 1; i <= 5; i++) {
    const socket = open();
    socket.write(MANY);
    await new Promise((resolve) => socket.once('close', resolve));
    expect(closed()).toBe(i);
  }
  held.splice(0); // those of the closed connections
  const answered = bodies(few, 20);
  first?.response.end('a');
  for (let i = 1; i < 20; i++) {
    await next();
    held.pop()?.response.end('a');
  }
  expect(await answered).toBe('a'.repeat(20));
});

import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { logWith } from '@event-sourced/testing/logs';
import { connection } from '@event-sourced/testing/rawHttp';
import { expect, test } from 'vitest';
import { ready, untilAvailable } from '../support/instances.ts';
import { startServer } from '../support/server.ts';
import { tokenOf } from '../support/service.ts';

const CONNECTIONS = 1_000;
const MAX_RSS_MIB = 600;
/** Her list, and a replay, has 16 MB, and a bundle 2 MB: more than the kernel queues for a connection. */
const PLANTS = 2_000;
const NAME = 'a fern with a name of eight thousand characters'.padEnd(8_000, '-');
/** How often another user is answered during an attack. */
const ROUNDS = 30;
/** Further files that the process may open, such as those of a checkpoint. */
const OTHER_DESCRIPTORS = 20;

/** How a connection misbehaves: what it sends, and never reads the responses to. */
type Attack = {
  name: string;
  /** All connections are open before any of them sends. */
  atOnce?: boolean;
  /** The bytes; `token` is an Authorization field of one user, who has many plants and may read all events. */
  bytes: (token: string) => string;
};

const HOST = 'Host: plants\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';
const EVENT_STREAM = 'Accept: text/event-stream\r\n';
const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n';
/** The largest body. */
const BODY_BYTES = 60 * 1024;
const LARGEST = `{"id":1,"name":""}`.padEnd(BODY_BYTES);
/** A head may have 16 KiB. */
const LONG_PATH = `/${'x'.repeat(15_500)}`;
/** Each byte of a body in a chunk of its own; the body never ends. */
const ONE_BYTE_CHUNKS = '1\r\n \r\n'.repeat(10_000);
const FIELDS = Array.from({ length: 900 }, (_, i) => `x${i.toString(36)}:${i.toString(36)}\r\n`).join('');

const get = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\n${HOST}${fields}\r\n`;
const post = (body: string, fields: string) =>
  `POST /plants HTTP/1.1\r\n${HOST}${JSON_TYPE}${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
const halfPost = `POST /plants HTTP/1.1\r\n${HOST}${JSON_TYPE}Content-Length: ${BODY_BYTES}\r\n\r\n${' '.repeat(BODY_BYTES - 1)}`;
const slowPost = (fields: string) =>
  `POST /plants HTTP/1.1\r\n${HOST}${JSON_TYPE}${fields}${CHUNKED}${ONE_BYTE_CHUNKS}`;

/** The most requests that a read of 64 KiB can have. */
const SMALLEST = 'GET / HTTP/1.1\r\nHost:x\r\n\r\n'.repeat(8_000);

const ATTACKS: readonly Attack[] = [
  // Without a token.
  { name: 'nothing', bytes: () => '' },
  { name: 'half a head', bytes: () => `GET /plants HTTP/1.1\r\n${HOST}${FIELDS}`.slice(0, -1) },
  { name: 'half a body', bytes: () => halfPost },
  { name: 'half a body in chunks of a byte', bytes: () => slowPost('') },
  { name: 'pipelined GET of a file', bytes: () => get('/docs/style.css').repeat(8_000) },
  { name: 'pipelined GET without a token', bytes: () => get('/plants').repeat(8_000) },
  { name: 'pipelined POST without a token', bytes: () => post('{"id":1,"name":"Fern"}', '').repeat(2_000) },
  {
    name: 'pipelined heads of many fields, at once',
    atOnce: true,
    bytes: () => get('/openapi.json', FIELDS).repeat(50),
  },
  {
    name: 'an unread document, then heads within the bound, at once',
    atOnce: true,
    bytes: () => get('/openapi.json') + get(LONG_PATH).repeat(3),
  },
  { name: 'the smallest requests, at once', atOnce: true, bytes: () => SMALLEST },
  {
    name: 'a document, smallest requests, at once',
    atOnce: true,
    bytes: () => get('/openapi.json') + SMALLEST,
  },
  // All of one user.
  {
    name: 'a body of a user in chunks of a byte, behind an unread list',
    bytes: (token) => get('/plants', token) + slowPost(token),
  },
  {
    name: 'an unread list of a user, then heads beyond the bound, at once',
    atOnce: true,
    bytes: (token) => get('/plants', token) + get(LONG_PATH, token).repeat(14),
  },
  {
    name: 'the largest POSTs of a user, at once',
    atOnce: true,
    bytes: (token) => post(LARGEST, token).repeat(30),
  },
  { name: 'pipelined lists of a user', bytes: (token) => get('/plants', token).repeat(1_000) },
  { name: 'pipelined pages of a user', bytes: (token) => get('/plants?limit=500', token).repeat(1_000) },
  {
    name: 'pipelined POST and GET of a user, at once',
    atOnce: true,
    bytes: (token) => (post('{"id":1,"name":"Fern"}', token) + get('/plants?limit=1', token)).repeat(500),
  },
  { name: 'unread replays', bytes: (token) => get('/events', token).repeat(5) },
  {
    name: 'unread newest events',
    bytes: (token) => get('/events?order=descending&limit=1000', token).repeat(5),
  },
  { name: 'unread entries', bytes: (token) => get('/tile/entries/000', token).repeat(5) },
  { name: 'unread event streams', bytes: (token) => get('/events', token + EVENT_STREAM).repeat(5) },
  {
    name: 'event streams without an event',
    bytes: (token) => get('/events?type=None', token + EVENT_STREAM).repeat(5),
  },
];

test.runIf(existsSync('/proc/self/status')).each(ATTACKS)(
  `${CONNECTIONS} connections with $name: memory is bounded, and others are answered`,
  async ({ bytes, atOnce }) => {
    const DATA_DIR = logWith({ events: PLANTS, user: "'mallory'", name: `'${NAME}'` });
    const server = await startServer({ env: { DATA_DIR, DOCS: 'on', MERKLE_TREE: 'on' } });
    await ready(server);
    const { url, pid, as } = server;
    const bob = as('bob');
    let created = 0;
    const isAnswered = async (): Promise<void> => {
      expect((await bob.create(++created, { name: 'Oak' })).status).toBe(200);
      expect(await bob.list()).toHaveLength(created);
    };
    await isAnswered();
    const mallory = as('mallory', 'audit');
    const bundle = () => mallory.request('/tile/entries/000.p/1');
    for (const path of ['/plants?limit=1', '/events?limit=1'])
      expect((await mallory.request(path)).status).toBe(200);
    expect((await untilAvailable(bundle)).status).toBe(200);
    const descriptors = descriptorsOf(pid);

    const token = await tokenOf(DATA_DIR, 'mallory', 'audit');
    const sent = Buffer.from(bytes(`Authorization: Bearer ${token}\r\n`)); // all connections share it
    const sockets: Socket[] = [];
    while (sockets.length < CONNECTIONS) {
      const socket = connection(url).pause();
      await once(socket, 'connect');
      sockets.push(socket);
      if (!atOnce) socket.write(sent);
      if (sockets.length % 100 === 0) await isAnswered();
    }
    if (atOnce) for (const socket of sockets) socket.write(sent);
    for (let i = 0; i < ROUNDS; i++) await isAnswered();

    for (const socket of sockets) socket.destroy();
    await expect.poll(() => descriptorsOf(pid)).toBeLessThan(descriptors + OTHER_DESCRIPTORS);
    await isAnswered();
    await expect.poll(async () => (await bundle()).status).toBe(200); // none is in flight any more
    expect(peakMiB(pid)).toBeLessThan(MAX_RSS_MIB);
  },
);

const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** The largest resident set of a process so far. */
function peakMiB(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1_024);
}

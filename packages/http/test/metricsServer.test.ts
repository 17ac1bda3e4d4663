import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { text as received } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connection } from '@event-sourced/testing/rawHttp';
import { expect, onTestFinished, test } from 'vitest';
import { serveMetrics } from '../src/metricsServer.ts';

const GET = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n';
const UP = { text: 'up 1\n', contentType: 'text/plain' };

/** Serves metrics until the end of the test. */
async function serve(options: Partial<Parameters<typeof serveMetrics>[0]> = {}): Promise<string> {
  const defaults = { host: '127.0.0.1', port: 0, read: async () => UP, onError: () => {} };
  const { url, close } = await serveMetrics({ ...defaults, ...options });
  onTestFinished(close);
  return url;
}

async function connected(url: string): Promise<Socket> {
  const socket = connection(url);
  await once(socket, 'connect');
  return socket;
}

test('metrics that cannot be read are reported, and the client learns nothing', async () => {
  const errors: unknown[] = [];
  const failure = new Error('the secret is hunter2');
  const onError = (error: unknown): void => void errors.push(error);
  const url = await serve({ read: () => Promise.reject(failure), onError });
  const response = await fetch(url);
  expect([response.status, await response.text()]).toEqual([500, 'Internal server error.']);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  expect(errors).toEqual([failure]);
});

test('metrics are served on IPv6, too', async () => {
  const url = await serve({ host: '::1' });
  expect(url).toMatch(/^http:\/\/\[::1\]:\d+\/metrics$/);
  expect(await (await fetch(url)).text()).toBe('up 1\n');
});

test('connections without a request do not keep Prometheus out', async () => {
  const url = await serve();
  for (let i = 0; i < 60; i++) {
    const socket = await connected(url);
    if (i % 2 === 0) socket.write('GET /metrics HTTP/1.1\r\n'); // and never the rest
  }
  for (let i = 0; i < 3; i++) expect(await (await fetch(url)).text()).toBe('up 1\n');
});

test('connections that pipeline requests, and read nothing, do not keep Prometheus out', async () => {
  let reads = 0;
  const text = `# ${'x'.repeat(100_000)}\nup 1\n`;
  const read = async () => {
    reads++;
    await nextTurn();
    return { text, contentType: 'text/plain' };
  };
  const url = await serve({ read });
  for (let i = 0; i < 45; i++) {
    (await connected(url)).pause().write(GET.repeat(400));
    const headers = { connection: 'close' }; // each time, Prometheus has a new connection
    expect(await (await fetch(url, { headers })).text()).toBe(text);
  }
  expect(reads).toBeLessThan(45 * 400);
});

test('a connection above the limit closes the oldest one', async () => {
  const url = await serve();
  const closed: number[] = [];
  for (let i = 0; i <= 40; i++) (await connected(url)).resume().once('end', () => closed.push(i));
  await expect.poll(() => closed).toEqual([0]);
});

test('requests that come while the metrics are read share them', async () => {
  let reads = 0;
  const all = Promise.withResolvers<void>();
  const read = async () => {
    reads++;
    await all.promise;
    return UP;
  };
  const url = await serve({ read });
  let requests = 0;
  const count = (): void => {
    if (++requests === 10) setImmediate(all.resolve);
  };
  subscribe('http.server.request.start', count);
  onTestFinished(() => void unsubscribe('http.server.request.start', count));
  const scrapes = Array.from({ length: 10 }, async () => (await fetch(url)).text());
  expect(await Promise.all(scrapes)).toEqual(Array(10).fill('up 1\n'));
  expect(reads).toBe(1);
});

test('the connection of a malformed request is closed without a response', async () => {
  const url = await serve();
  const malformed = connection(url);
  malformed.write('nonsense\r\n\r\n');
  expect(await received(malformed)).toBe('');
});

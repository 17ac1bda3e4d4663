import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { serveMetrics } from '../../src/metrics/server.ts';

test('metrics that cannot be read are reported, and the client learns nothing', async () => {
  const errors: unknown[] = [];
  const failure = new Error('the secret is hunter2');
  const { url, close } = await serveMetrics({
    host: '127.0.0.1',
    port: 0,
    read: () => Promise.reject(failure),
    onError: (error) => errors.push(error),
  });
  onTestFinished(close);
  const response = await fetch(url);
  expect([response.status, await response.text()]).toEqual([500, 'Internal server error.']);
  expect(errors).toEqual([failure]);
});

test('metrics are served on IPv6, too', async () => {
  const read = async () => ({ text: 'up 1\n', contentType: 'text/plain' });
  const { url, close } = await serveMetrics({ host: '::1', port: 0, read, onError: () => {} });
  onTestFinished(close);
  expect(url).toMatch(/^http:\/\/\[::1\]:\d+\/metrics$/);
  expect(await (await fetch(url)).text()).toBe('up 1\n');
});

test('connections without a request do not keep Prometheus out', async () => {
  const read = async () => ({ text: 'up 1\n', contentType: 'text/plain' });
  const { url, close } = await serveMetrics({ host: '127.0.0.1', port: 0, read, onError: () => {} });
  onTestFinished(close);
  for (let i = 0; i < 60; i++) {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port) }).on('error', () => {});
    await once(socket, 'connect');
    if (i % 2 === 0) socket.write('GET /metrics HTTP/1.1\r\n'); // and never the rest
  }
  for (let i = 0; i < 3; i++) expect(await (await fetch(url)).text()).toBe('up 1\n');
});

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

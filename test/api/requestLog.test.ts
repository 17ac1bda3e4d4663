import { expect, test } from 'vitest';
import { parsePath } from '../../packages/http/src/requestLog.ts';
import { startService } from '../support/service.ts';

test.each([
  ['/plants', '/plants'],
  ['/plants?access_token=secret', '/plants'],
  ['/plants#access_token=secret', '/plants'],
  ['/plants?a=?b#c', '/plants'],
  ['http://user:secret@host/plants', '/plants'],
  ['HTTPS://user:secret@host:1/plants?q', '/plants'],
  ['//host/plants', '//host/plants'],
  ['*', '*'],
])('of the URL %s, only the path %s is logged', (url, path) => {
  expect(parsePath(url)).toBe(path);
});

test('a request is logged in one line, with its ID, user, status and time', async () => {
  const { as, log } = await startService();
  const response = await as('alice').create(1, { name: 'Fern' });
  const requestId = response.headers.get('request-id');
  await expect.poll(() => log().filter((line) => line.requestId === requestId)).toHaveLength(1);
  const line = log().find((one) => one.requestId === requestId);
  const request = { method: 'POST', path: '/plants', status: 200, msg: 'request' };
  expect(line).toMatchObject({ level: 30, user: 'alice', ...request });
  expect(line.ms).toBeGreaterThan(0);
});

test('a long path is cut', async () => {
  const { url, log } = await startService();
  await fetch(`${url}/${'x'.repeat(15_000)}`);
  const paths = () => log().flatMap(({ path }) => path ?? []);
  await expect.poll(paths).toEqual([`/${'x'.repeat(255)}…`]);
});

test('a request is logged with its trace, if its traceparent is valid', async () => {
  const { url, log } = await startService();
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  for (const given of [traceparent, `${traceparent}\u00e9`, 'secret'])
    await fetch(`${url}/openapi.json`, { headers: { traceparent: given } });
  const requests = () => log().filter(({ msg }) => msg === 'request');
  await expect.poll(requests).toHaveLength(3);
  expect(requests().map((line) => line.traceparent)).toEqual([traceparent, undefined, undefined]);
});

test('health checks, which come every few seconds, are not logged', async () => {
  const { url, log } = await startService();
  for (const path of ['/health/live', '/health/ready', '/health']) await fetch(`${url}${path}`);
  const paths = () => log().flatMap(({ path }) => path ?? []);
  await expect.poll(paths).toContain('/health'); // of the last request
  expect(paths()).toEqual(['/health']);
});

import { expect, test } from 'vitest';
import { appOver } from '../support/appOver.ts';
import { exchange } from '../support/rawHttp.ts';
import { refusedWith } from '../support/refusal.ts';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

/** The service; with pages unless they are off. */
const serve = async (pages = true) => (await appOver({}, { pages })).url;

test('a browser is redirected from / to the API reference, which needs no token', async () => {
  const url = await serve();
  const response = await fetch(url, { headers: { accept: BROWSER } });
  expect([response.status, response.url]).toEqual([200, `${url}/docs`]);
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(await response.text()).toContain('<title>Plant store: API reference</title>');
});

test.each(['TEXT/HTML', 'text/*', 'application/json;q=0.5, text/html'])(
  '%s is redirected, too',
  async (accept) => {
    const response = await fetch(await serve(), { headers: { accept }, redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([302, '/docs']);
  },
);

test.each([['*/*'], ['application/json'], [''], ['text/html;q=0'], ['text/htmlx'], ['text/html;q=0.1, */*']])(
  '/ is 404 to a client that accepts %j',
  async (accept) => {
    const response = await fetch(await serve(), { headers: { accept }, redirect: 'manual' });
    expect(response.headers.has('content-security-policy')).toBe(false);
    await refusedWith(40401, response);
  },
);

test('what the API reference shows is /openapi.json', async () => {
  const url = await serve();
  const [shown, published] = await Promise.all([fetch(`${url}/docs/json`), fetch(`${url}/openapi.json`)]);
  expect(await shown.json()).toEqual(await published.json());
});

test.each(['/docs', '/docs/', '/docs/static/swagger-ui-bundle.js', '/docs/static/nothing.js'])(
  '%s has a Content-Security-Policy without unsafe-eval and unsafe-inline',
  async (path) => {
    const { headers } = await fetch(`${await serve()}${path}`, { method: 'HEAD' });
    expect(headers.get('content-security-policy')).toMatch(/(^|;)script-src 'self';style-src 'self';/);
    expect(headers.get('content-security-policy')).not.toMatch(/unsafe|http|\*/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  },
);

test.each([
  '/docs/static/nothing.js',
  '/docs/static/%2e%2e/package.json',
  '/docs/static/..%2f..%2fpackage.json',
])('%s is 404', async (path) => {
  await refusedWith(40401, await fetch(`${await serve()}${path}`));
});

test.each([
  [41201, 'If-Match', '"another"'],
  [41601, 'Range', 'bytes=99999999-'],
])('a file of the page is %i with %s: %s', async (error, name, value) => {
  const file = `${await serve()}/docs/static/swagger-ui.css`;
  await refusedWith(error, await fetch(file, { headers: { [name]: value } }));
});

test('a path that leaves the directory of a page is 404', async () => {
  const path = '/docs/static/../../package.json'; // fetch would resolve the dots
  const response = await exchange(
    await serve(),
    `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  expect(String(response)).toMatch(/^HTTP\/1\.1 404 .*\{"error":40401,"message":"Not found\."\}$/s);
});

test('responses of the API have no headers of pages', async () => {
  const { headers } = await fetch(`${await serve()}/plants`);
  expect(headers.has('content-security-policy')).toBe(false);
});

test.each(['/', '/docs', '/docs/json'])('without pages, %s is 404 also to a browser', async (path) => {
  await refusedWith(40401, await fetch(`${await serve(false)}${path}`, { headers: { accept: BROWSER } }));
});

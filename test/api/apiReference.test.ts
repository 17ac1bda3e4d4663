import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { appOver } from '../support/appOver.ts';
import { ROOT } from '../support/process.ts';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

/** The service; with pages unless they are off. */
const serve = async (pages = true) => (await appOver({}, { pages })).url;

test('a browser is redirected from / to the API reference, which needs no token', async () => {
  const url = await serve();
  const response = await fetch(url, { headers: { accept: BROWSER } });
  expect([response.status, response.url]).toEqual([200, `${url}/docs`]);
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(await response.text()).toContain('<title>Plant store API</title>');
});

test.each(['TEXT/HTML', 'text/*', 'application/json;q=0.5, text/html'])(
  '%s is redirected, too',
  async (accept) => {
    const response = await fetch(await serve(), { headers: { accept }, redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([302, 'docs']);
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

test('every file that the page names is served, with its type', async () => {
  const url = await serve();
  const html = await (await fetch(`${url}/docs`)).text();
  const named = [...html.matchAll(/(?:src|href)="(.*?)"/g)].map(([, path]) => path as string);
  const types = await Promise.all(
    named.map(async (path) => [path, (await fetch(`${url}/${path}`)).headers.get('content-type')]),
  );
  expect(types).toEqual([
    ['docs/static/favicon-32x32.png', 'image/png'],
    ['docs/static/swagger-ui.css', 'text/css; charset=utf-8'],
    ['docs/static/style.css', 'text/css; charset=utf-8'],
    ['docs/static/swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
    ['docs/static/start.js', 'text/javascript; charset=utf-8'],
  ]);
  const start = await fetch(`${url}/docs/static/start.js`);
  expect(await start.text()).toContain("url: 'openapi.json'");
});

test('a file is whole', async () => {
  const response = await fetch(`${await serve()}/docs/static/swagger-ui.css`);
  const file = readFileSync(join(ROOT, 'node_modules/swagger-ui-dist/swagger-ui.css'));
  expect(response.headers.get('content-length')).toBe(`${file.length}`);
  expect(Buffer.from(await response.arrayBuffer()).equals(file)).toBe(true);
});

test.each(['/', '/docs', '/docs/static/start.js', '/audit', '/audit/style.css'])(
  'without pages, %s is 404 also to a browser',
  async (path) => {
    await refusedWith(40401, await fetch(`${await serve(false)}${path}`, { headers: { accept: BROWSER } }));
  },
);

import { refusedWith } from '@event-sourced/testing/refusal';
import { expect, test } from 'vitest';
import { API_ERRORS } from '../../src/errors.ts';
import { appOver } from '../support/appOver.ts';

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
  '/ links to the OpenAPI document for a program that accepts %j, also without pages',
  async (accept) => {
    for (const pages of [true, false]) {
      const url = await serve(pages);
      const response = await fetch(url, { headers: { accept }, redirect: 'manual' });
      expect([response.status, response.headers.get('vary')]).toEqual([200, 'Accept']);
      expect(await response.json()).toEqual({ title: 'Plant store API', openapi: 'openapi.json' });
      const links = (response.headers.get('link') ?? '').split(', ');
      expect(links).toEqual([
        '<openapi.json>; rel="service-desc"; type="application/json"',
        ...(pages ? ['<docs>; rel="service-doc"; type="text/html"'] : []),
      ]);
      for (const link of links) {
        const [, target = '', type = ''] = /^<(.*)>;.* type="(.*)"$/.exec(link) ?? [];
        const linked = await fetch(new URL(target, response.url));
        expect([linked.status, linked.headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`]);
      }
    }
  },
);

test('every file that the page names is served with its type, and kept for ever by its hash', async () => {
  const url = await serve();
  const html = await (await fetch(`${url}/docs`)).text();
  const named = [...html.matchAll(/(?:src|href)="(docs\/.*?)"/g)].map(([, path]) => path as string);
  const files = await Promise.all(
    named.map(async (path) => {
      const { headers } = await fetch(`${url}/${path}`);
      return [path.split('?')[0], headers.get('content-type'), headers.get('cache-control')];
    }),
  );
  const forEver = 'public, max-age=31536000, immutable';
  expect(files).toEqual([
    ['docs/icon.svg', 'image/svg+xml; charset=utf-8', forEver],
    ['docs/style.css', 'text/css; charset=utf-8', forEver],
    ['docs/tryIt.js', 'text/javascript; charset=utf-8', forEver],
  ]);
});

test('without a script, the page has the guide, then each operation of /openapi.json', async () => {
  const url = await serve();
  const html = await (await fetch(`${url}/docs`)).text();
  type Document = { paths: Record<string, Record<string, { operationId: string; tags: string[] }>> };
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const ids = Object.values(paths).flatMap((path) =>
    Object.values(path).map(({ operationId, tags }) => `id="/${tags[0]}/${operationId}"`),
  );
  expect(ids.filter((id) => !html.includes(id))).toEqual([]);
  expect(html.indexOf('id="create-a-plant"')).toBeGreaterThan(0);
  expect(html.indexOf('id="create-a-plant"')).toBeLessThan(html.indexOf('id="/plants/createPlant"'));
});

test('the page has a table of all error codes, with the operations that return them', async () => {
  const html = await (await fetch(`${await serve()}/docs`)).text();
  const rows = [...html.matchAll(/<tr><td>(\d+)<\/td><td>(.*?)<\/td><td>(.*?)<\/td>/g)];
  const codes = [...new Set(Object.values(API_ERRORS).map(({ code }) => code))].sort();
  expect(rows.map(([, code]) => Number(code))).toEqual(codes);
  const operationsOf = (code: string) => rows.find((row) => row[1] === code)?.[3]?.replaceAll(/<.*?>/g, '');
  expect(operationsOf('40003')).toBe('createPlant');
  expect(operationsOf('42901')).toBe('listPlants, countEvents, replayEvents');
  for (const code of ['40101', '40401', '40501']) expect(operationsOf(code)).toBe('all');
  expect(html).toContain('<b class="get">GET</b>');
});

test.each(['/docs', '/docs/style.css', '/openapi.json'])('%s is the same in each encoding', async (path) => {
  const url = await serve();
  const get = async (encoding: string) => {
    const response = await fetch(`${url}${path}`, { headers: { 'accept-encoding': encoding } });
    return [response.headers.get('content-encoding'), response.headers.get('vary'), await response.text()];
  };
  const text = await (await fetch(`${url}${path}`, { headers: { 'accept-encoding': 'identity' } })).text();
  expect(await get('gzip, deflate, br, zstd')).toEqual(['br', 'Accept-Encoding', text]);
  expect(await get('gzip')).toEqual(['gzip', 'Accept-Encoding', text]);
  expect(await get('identity')).toEqual([null, 'Accept-Encoding', text]);
});

test.each(['/docs', '/docs/style.css', '/audit', '/audit/page/style.css'])(
  'without pages, %s is 404 also to a browser',
  async (path) => {
    await refusedWith(40401, await fetch(`${await serve(false)}${path}`, { headers: { accept: BROWSER } }));
  },
);

import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';

const { url, as, bearer } = await serviceOfFile({ DOCS: 'on' });
for (const [id, name] of ['Fern', 'Moss'].entries()) await as('alice').create(id, { name });
const authorization = await bearer('alice', 'audit');

/** A proxy that strips /store, and changes nothing else. */
const proxy = createServer((incoming, response) => {
  const path = /^\/store(\/.*)$/.exec(incoming.url ?? '')?.[1];
  if (path === undefined) return response.writeHead(404).end();
  const { method, headers } = incoming;
  const toService = request(url + path, { method, headers }, (outgoing) => {
    response.writeHead(outgoing.statusCode ?? 502, outgoing.headers);
    outgoing.pipe(response);
  });
  return incoming.pipe(toService);
}).listen(0, '127.0.0.1');
await once(proxy, 'listening');
afterAll(() => proxy.close());
const store = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/store`;

test.each([
  ['/plants?limit=1', 'Moss'],
  ['/events?order=descending&limit=1', 'Fern'],
])('behind a path, Link leads to the next page of %s', async (path, name) => {
  const page = await fetch(store + path, { headers: { authorization } });
  const [, next = ''] = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '') ?? [];
  const second = await fetch(new URL(next, page.url), { headers: { authorization } });
  expect(await second.text()).toContain(`"name":"${name}"`);
});

test.each([
  ['/', '/docs'],
  ['/docs/', '/docs'],
  ['/audit/', '/audit'],
])('behind a path, a browser gets from %s to %s and its files', async (path, page) => {
  const response = await fetch(store + path, { headers: { accept: 'text/html' } });
  expect([response.status, response.url]).toEqual([200, store + page]);
  const files = [...(await response.text()).matchAll(/ (?:src|href)="([^#"]+)"/g)].map(
    ([, file]) => new URL(file ?? '', response.url),
  );
  expect(files.length).toBeGreaterThan(2);
  for (const file of files) expect([file.href, (await fetch(file)).status]).toEqual([file.href, 200]);
});

test('behind a path, the server of the OpenAPI document is there', async () => {
  const response = await fetch(`${store}/openapi.json`);
  const { servers } = (await response.json()) as { servers: { url: string }[] };
  expect(servers.map((server) => new URL(server.url, response.url).href)).toEqual([`${store}/`]);
});

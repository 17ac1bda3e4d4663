import { logWith } from '@event-sourced/testing/logs';
import { responseTo } from '@event-sourced/testing/rawHttp';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, expect, test } from 'vitest';
import { startService } from '../support/service.ts';

// To nginx, HTTP/1.0 is the default for its upstreams. It cannot mark the end of a response of unknown length.

// Alice has 600 plants, more than a page; bob has as many, and carol one.
const { url, as, bearer } = await startService(
  { DATA_DIR: logWith({ events: 1_200, dir: tempDir(afterAll) }), MERKLE_TREE: 'on' },
  afterAll,
);
await as('carol').create(1, { name: 'Fern' });

async function get(path: string, user: string, fields = ''): Promise<Response> {
  await as(user, 'audit').request(path); // waits until the view and the tree have all events
  const authorization = `Authorization: ${await bearer(user, 'audit')}\r\n`;
  return responseTo(url, `GET ${path} HTTP/1.0\r\n${authorization}${fields}\r\n`);
}

test.each([
  ['a list without limit that is longer than a page', '/plants', ''],
  ['a list with a limit above a page', '/plants?limit=550', ''],
  ['a replay', '/events', ''],
  ['a replay with a limit', '/events?limit=1', ''],
  ['an event stream', '/events?limit=1', 'Accept: text/event-stream\r\n'],
])('to a request of HTTP/1.0, %s is 50501', async (_, path, fields) => {
  const response = await get(path, 'alice', fields);
  expect(response.headers.get('link')).toBeNull();
  expect(await refusedWith(50501, response)).toContain('proxy_http_version 1.1');
});

test.each([
  ['a list of one page', '/plants', 'carol'],
  ['a list with a limit', '/plants?limit=500', 'alice'],
  ['a page of the newest events', '/events?order=descending', 'alice'],
  ['a checkpoint', '/checkpoint', 'alice'],
  ['a tile', '/tile/0/000', 'alice'],
  ['a bundle of entries', '/tile/entries/000', 'alice'],
  ['a receipt', '/proofs/plants?id=1', 'alice'],
  ['the API document', '/openapi.json', 'alice'],
  ['a page for browsers', '/docs', 'alice'],
  ['the script of a page', '/audit/page/page.js', 'alice'],
])('to a request of HTTP/1.0, %s is sent with its length', async (_, path, user) => {
  const response = await get(path, user);
  const { byteLength } = await response.arrayBuffer();
  expect([response.status, byteLength]).toEqual([200, Number(response.headers.get('content-length'))]);
  expect(byteLength).toBeGreaterThan(0);
});

import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { DOCUMENTED, documentedService, post } from '../support/documentedRequests.ts';
import { NODE, start } from '../support/process.ts';

// Prism refuses requests and responses that the OpenAPI document does not describe. To it, events are text; and it
// forwards a response when it is complete, an event stream never. test/api/documentedResponses.test.ts checks the rest.

const { url, request } = await documentedService();
const options = ['--errors', '--host', '127.0.0.1', '--port', '0', `${url}/openapi.json`, url];
const prism = start(
  { command: [NODE, join(import.meta.dirname, 'node_modules/.bin/prism'), 'proxy', ...options] },
  afterAll,
);
const [, proxy] = await prism.printed(/Prism is listening on (http:\S+)/);

/** A request to the proxy or the service, by a user with this scope. */
async function request(to: unknown, scope: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { authorization: await bearer('alice', scope), ...init.headers };
  return untilAvailable(() => fetch(`${to}${path}`, { ...init, headers }));
}

type Responses = Record<string, { headers: object }>;
type Document = {
  paths: Record<string, Record<string, { responses: Responses }>>;
  components: { schemas: { CloudEvent: object } };
};
const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;

/** Expects that the document lists the headers of a response, which the proxy does not compare. */
function expectListed(response: Response, path: string, { method = 'GET' }: RequestInit): void {
  const template = path
    .replace(/\?.*/, '')
    .replace(/^\/tile\/\d/, '/tile/{level}')
    .replace(/\d{3}/, '{index}')
    .replace(/\.p\/\d+/, '.p/{width}');
  const { responses } = document.paths[template]?.[method.toLowerCase()] ?? {};
  const listed = Object.keys(responses?.[response.status]?.headers ?? {}).map((name) => name.toLowerCase());
  const transport = /^(connection|content-length|content-type|date|keep-alive|transfer-encoding)$/;
  const sent = [...response.headers.keys()].filter((name) => !transport.test(name));
  expect(listed).toEqual(expect.arrayContaining(sent));
}

const post = (body: string): RequestInit => {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body };
};

describe('through a validating proxy', () => {
  test.each<[number, string, string, RequestInit, string?]>([
    [200, 'create a plant', '/plants', post('{"id":3,"name":"Oak","tag":"garden"}')],
    [200, 'create it again', '/plants', post('{"id":1,"name":"Fern"}')],
    [400, 'create another with its ID', '/plants', post('{"id":1,"name":"Oak"}')],
    [413, 'create a large one', '/plants', post(`{"id":4,"name":"${'x'.repeat(70_000)}"}`)],
    [200, 'list plants', '/plants', {}],
    [200, 'list a page', '/plants?limit=1', {}],
    [400, 'list from a wrong position', '/plants?after=x', {}],
    [401, 'list with an invalid token', '/plants', { headers: { authorization: 'Bearer x' } }],
    [200, 'replay', '/events', {}],
    [200, 'replay no event', '/events?limit=0', {}],
    [200, 'stream one event', '/events?limit=1', { headers: { accept: 'text/event-stream' } }],
    [400, 'replay an unknown user', '/events?user=nobody', {}],
    [406, 'replay as JSON', '/events', { headers: { accept: 'application/json' } }],
    [200, 'get the key of the log', '/log-key', {}],
    [200, 'get a checkpoint', '/checkpoint', {}],
    [200, 'get a tile', '/tile/0/000.p/1', {}],
    [404, 'get no tile', '/tile/0/999', {}],
    [200, 'get entries', '/tile/entries/000.p/1', {}],
    [404, 'get no entries', '/tile/entries/999', {}],
    [200, 'get a receipt', '/proofs/plants?id=1', {}],
    [400, 'get a receipt of a wrong ID', '/proofs/plants?id=x', {}],
    [404, 'get no receipt', '/proofs/plants?id=9', {}],
    [403, 'replay without the scope audit', '/events', {}, 'read'],
    [403, 'get a checkpoint without it', '/checkpoint', {}, 'read'],
    [403, 'get a tile without it', '/tile/0/000', {}, 'read'],
    [403, 'get entries without it', '/tile/entries/000', {}, 'read'],
    [403, 'get a receipt of another user without it', '/proofs/plants?id=1&user=bob', {}, 'read'],
  ])('%i: %s', async (status, _what, path, init, scope = 'audit') => {
    const proxied = await request(proxy, scope, path, init);
    await proxied.text();
    expect([proxied.status, proxied.headers.get('sl-violations')]).toEqual([status, null]);
  });

  test('requests that the document does not allow are 422', async () => {
    const text = { method: 'POST', body: '{"id":5,"name":"Elm"}' };
    for (const init of [post('{"id":5}'), text])
      expect((await request(proxy, 'audit', '/plants', init)).status).toBe(422);
  });
});

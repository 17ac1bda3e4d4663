import { join } from 'node:path';
import { Compile } from 'typebox/compile';
import { afterAll, describe, expect, test } from 'vitest';
import { untilAvailable } from '../support/instances.ts';
import { NODE, ROOT, start } from '../support/process.ts';
import { serviceOfFile } from '../support/service.ts';

// Prism refuses requests and responses that the OpenAPI document does not describe.

const { url, as, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });
await as('alice').create(1, { name: 'Fern' });
await as('alice').create(2, { name: 'Moss', tag: 'indoor' });
const options = ['--errors', '--host', '127.0.0.1', '--port', '0', `${url}/openapi.json`, url];
const prism = start(
  { command: [NODE, join(ROOT, 'node_modules/.bin/prism'), 'proxy', ...options] },
  afterAll,
);
const [, proxy] = await prism.printed(/Prism is listening on (http:\S+)/);

/** A request through the proxy, by a user with this scope. */
async function request(scope: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { authorization: await bearer('alice', scope), ...init.headers };
  return untilAvailable(() => fetch(`${proxy}${path}`, { ...init, headers }));
}

const post = (body: string): RequestInit => {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body };
};

describe('through a validating proxy', () => {
  test.each<[number, string, string, RequestInit]>([
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
    [400, 'replay an unknown user', '/events?user=nobody', {}],
    [406, 'replay as JSON', '/events', { headers: { accept: 'application/json' } }],
    [200, 'get the key of the log', '/log-key', {}],
    [200, 'get a checkpoint', '/checkpoint', {}],
    [200, 'get a tile', '/tile/0%2F000.p%2F1', {}],
    [404, 'get no tile', '/tile/0%2F999', {}],
    [200, 'get entries', '/tile/entries/000.p%2F1', {}],
    [404, 'get no entries', '/tile/entries/999', {}],
    [200, 'get a receipt', '/proofs/plants?id=1', {}],
    [400, 'get a receipt of a wrong ID', '/proofs/plants?id=x', {}],
    [404, 'get no receipt', '/proofs/plants?id=9', {}],
  ])('%i: %s', async (status, _what, path, init) => {
    const response = await request('audit', path, init);
    expect([response.status, response.headers.get('sl-violations'), await response.text()]).toEqual([
      status,
      null,
      expect.any(String),
    ]);
  });

  test.each(['/events', '/checkpoint', '/tile/0%2F000', '/tile/entries/000', '/proofs/plants?id=1&user=bob'])(
    '403: %s without the scope audit',
    async (path) => {
      const response = await request('read', path);
      expect([response.status, response.headers.get('sl-violations')]).toEqual([403, null]);
    },
  );

  test('a request that the document does not allow is 422', async () => {
    expect((await request('audit', '/plants', post('{"id":5}'))).status).toBe(422);
  });
});

// To the proxy, the events are text; and it forwards a response when it is complete, an event stream never.
test.each(['application/x-ndjson', 'text/event-stream'])('events as %s match CloudEvent', async (accept) => {
  const document = await (await fetch(`${url}/openapi.json`)).json();
  const cloudEvent = Compile(
    (document as { components: { schemas: { CloudEvent: object } } }).components.schemas.CloudEvent,
  );
  const response = await as('carol', 'audit').request('/events?limit=2', { headers: { accept } });
  const events = (await response.text()).split('\n').flatMap((line) => line.match(/\{.*/) ?? []);
  expect(events.map((event) => cloudEvent.Check(JSON.parse(event)))).toEqual([true, true]);
  expect(cloudEvent.Check({ ...JSON.parse(String(events[0])), position: 1 })).toBe(false);
});

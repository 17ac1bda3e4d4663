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

describe('through a validating proxy', () => {
  test.each(DOCUMENTED)('%i: %s', async (status, _what, path, init, scope = 'audit') => {
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

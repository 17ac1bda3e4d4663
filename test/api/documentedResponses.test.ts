import { basename } from 'node:path';
import { refusalIn, refusedWith } from '@event-sourced/testing/refusal';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { DOCUMENTED, documentedService } from '../support/documentedRequests.ts';

// test/clients/validatingProxy.test.ts compares bodies with the document, too.

const { url, as, request } = await documentedService();

type Responses = Record<string, { headers: object }>;
type Media = { schema: { $ref?: string }; example?: object };
type Operation = { responses: Responses; requestBody?: { content: { 'application/json': Media } } };
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: { CloudEvent: object } & Record<string, { examples?: object[] }> };
};
const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;

/** Expects that the document lists the headers of a response. */
function expectListed(response: Response, path: string, { method = 'GET' }: RequestInit): void {
  const template = path
    .replace(/\?.*/, '')
    .replace(/^\/tile\/\d/, '/tile/{level}')
    .replace(/\d{3}/, '{index}')
    .replace(/\.p\/\d+/, '.p/{width}');
  const { responses } = document.paths[template]?.[method.toLowerCase()] ?? {};
  const listed = Object.keys(responses?.[response.status]?.headers ?? {}).map((name) => name.toLowerCase());
  const transport =
    /^(connection|content-encoding|content-length|content-type|date|keep-alive|transfer-encoding|vary)$/;
  const forBrowsers =
    /^(content-security-policy|x-content-type-options|referrer-policy|cross-origin-.*|x-frame-options)$/;
  const sent = [...response.headers.keys()].filter(
    (name) => !transport.test(name) && !forBrowsers.test(name),
  );
  expect(listed).toEqual(expect.arrayContaining(sent));
}

test.each(DOCUMENTED)(
  '%i: %s, with headers that the document lists',
  async (status, _what, path, init, scope = 'audit') => {
    const response = await request(url, scope, path, init);
    expect(response.status).toBe(status);
    expectListed(response, path, init);
    // Without it, some clients read text as Latin-1.
    expect(response.headers.get('content-type')).toMatch(/; charset=utf-8$|^application\/octet-stream$/);
    if (status !== 200) await refusalIn(response);
  },
);

test('415 has headers that the document lists', async () => {
  const text = { method: 'POST', body: '{"id":5,"name":"Elm"}' };
  const response = await request(url, 'audit', '/plants', text);
  expect(response.status).toBe(415);
  expectListed(response, '/plants', text);
});

test.each(['application/x-ndjson', 'text/event-stream'])(
  'events as %s match the schema CloudEvent',
  async (accept) => {
    const cloudEvent = Compile(document.components.schemas.CloudEvent);
    const response = await as('carol', 'audit').request('/events?limit=2', { headers: { accept } });
    const events = (await response.text()).split('\n').flatMap((line) => line.match(/\{.*/) ?? []);
    expect(events.map((event) => cloudEvent.Check(JSON.parse(event)))).toEqual([true, true]);
    expect(cloudEvent.Check({ ...JSON.parse(String(events[0])), position: 1 })).toBe(false);
  },
);

/** The first example of a request's body. */
function exampleBody({ requestBody }: Operation): string | undefined {
  const { schema, example } = requestBody?.content['application/json'] ?? {};
  return JSON.stringify(example ?? document.components.schemas[basename(schema?.$ref ?? '')]?.examples?.[0]);
}

const OPERATIONS = Object.entries(document.paths).flatMap(([path, operations]) =>
  Object.entries(operations).map(
    ([method, operation]): [method: string, path: string, body: string | undefined] => [
      method.toUpperCase(),
      path.replace('{index}', '000').replaceAll(/\{\w+\}/g, '1'),
      exampleBody(operation),
    ],
  ),
);

test.each([...OPERATIONS, ['GET', '/tile/0/x000/000', ''], ['HEAD', '/plants', '']])(
  'a parameter that the document does not have is 40004: %s %s',
  async (method, path, body) => {
    const init = { method, ...(body && { headers: { 'content-type': 'application/json' }, body }) };
    const response = await request(url, 'audit erase', `${path}?id=1&foo=2&foo=3`, init);
    expect(response.status).toBe(400);
    if (method !== 'HEAD') expect(await refusedWith(40004, response)).toContain('foo is not a parameter');
  },
);

const IN_EVENTS = 'the parameters are after, user, id, type, since, until, limit, order, before, end.';
const IN_PLANTS = 'the parameters are limit, after, fields.';

test.each([
  ['/events?User=alice&limit=2', `User is not a parameter; ${IN_EVENTS}`],
  ['/plants?access_token=x', `access_token is not a parameter; ${IN_PLANTS}`],
  ['/plants?__proto__=1', `__proto__ is not a parameter; ${IN_PLANTS}`],
  ['/plants?a%2Fb~=1', `a/b~ is not a parameter; ${IN_PLANTS}`],
  ['/plants?=1', `An empty name is not a parameter; ${IN_PLANTS}`],
  [`/plants?${'x'.repeat(1_000)}=1`, `${'x'.repeat(64)} is not a parameter; ${IN_PLANTS}`],
  [
    `/plants?${[1, 2, 3, 4, 5, 6, 7, 8, 9].map((digit) => `p${digit}`).join('&')}`,
    `${[1, 2, 3, 4, 5, 6, 7, 8].map((digit) => `p${digit} is not a parameter`).join('; ')}; ${IN_PLANTS}`,
  ],
  ['/log-key?latest', 'latest is not a parameter; there are no parameters.'],
  [
    '/events?user=&id=01&usr=x&type=a&type=b',
    `usr is not a parameter; user must be 1 to 255 characters without control characters; id must be a 64-bit integer in decimal digits; type must be given once; ${IN_EVENTS}`,
  ],
  ['/proofs/plants?user=', 'id is required; user must be 1 to 255 characters without control characters.'],
])('GET %s is 40004: %s', async (path, message) => {
  expect(await refusedWith(40004, await request(url, 'audit', path))).toBe(message);
});

test.each([
  ['/plants?limit=x&foo=1', ['foo', 'limit']],
  ['/plants?=1', ['']],
  [
    `/plants?${'\u{1F331}'.repeat(40)}a=1&x${'\u{1F331}'.repeat(40)}=1`,
    ['\u{1F331}'.repeat(32), `x${'\u{1F331}'.repeat(31)}\ufffd`],
  ],
  [
    `/events?${[1, 2, 3, 4, 5, 6, 7, 8].map((digit) => `p${digit}`).join('&')}&limit=x`,
    [1, 2, 3, 4, 5, 6, 7, 8].map((digit) => `p${digit}`),
  ],
  ['/events?since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z', ['since']],
  ['/events?user=nobody', ['user']],
  ['/events?before=1', ['before']],
  ['/proofs/plants?user=', ['id', 'user']],
])('the details of 40004 name the parameters: GET %s', async (path, fields) => {
  const { error, details = [] } = await refusalIn(await request(url, 'audit', path));
  expect([error, details.map(({ field }) => field)]).toEqual([40004, fields]);
});

test.each(['/health/live', '/health/ready', '/openapi.json', '/docs', '/audit'])(
  'pages and probes take any query: %s',
  async (path) => {
    expect((await fetch(`${url}${path}?now=1`)).status).toBe(200);
  },
);

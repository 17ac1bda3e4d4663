import { refusalIn } from '@event-sourced/testing/refusal';
import { Compile } from 'typebox/compile';
import { expect, test } from 'vitest';
import { DOCUMENTED, documentedService } from '../support/documentedRequests.ts';

// test/clients/validatingProxy.test.ts compares bodies with the document, too.

const { url, as, request } = await documentedService();

type Responses = Record<string, { headers: object }>;
type Document = {
  paths: Record<string, Record<string, { responses: Responses }>>;
  components: { schemas: { CloudEvent: object } };
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
  const transport = /^(connection|content-length|content-type|date|keep-alive|transfer-encoding)$/;
  const sent = [...response.headers.keys()].filter((name) => !transport.test(name));
  expect(listed).toEqual(expect.arrayContaining(sent));
}

test.each(DOCUMENTED)(
  '%i: %s, with headers that the document lists',
  async (status, _what, path, init, scope = 'audit') => {
    const response = await request(url, scope, path, init);
    expect(response.status).toBe(status);
    expectListed(response, path, init);
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

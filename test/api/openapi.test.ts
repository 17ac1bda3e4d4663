import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { entryLeafHash } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { formatVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { signCheckpoint, toVerifierKey } from '../../packages/tlog/src/sign/signCheckpoint.ts';
import { keyNamed } from '../../packages/tlog/test/notes/keys.ts';
import {
  cloudEventEntry,
  cloudEventText,
} from '../../packages/transparency-log/src/digest/cloudEventEntry.ts';
import { openReceipt } from '../../packages/transparency-log/src/digest/openReceipt.ts';
import { API_ERRORS } from '../../src/errors.ts';
import { VERSION } from '../../src/version.ts';
import { ROOT } from '../support/process.ts';
import { serviceOfFile } from '../support/service.ts';

const { url, as } = await serviceOfFile({ MERKLE_TREE: 'on' });
const source = await (await fetch(`${url}/openapi.json`)).text();

type Media = {
  schema: unknown;
  example?: unknown;
  examples?: Record<string, { value: { error: number } }>;
};
type Described = {
  description: string;
  headers?: Record<string, { schema: { type: string; examples?: unknown[] } }>;
  content?: Record<string, Media>;
};
type Operation = {
  operationId: string;
  summary: string;
  description: string;
  'x-destructive'?: boolean;
  responses: Record<string, Described>;
  parameters?: { required: boolean; example?: unknown }[];
};
const document = JSON.parse(source);
const { get, post } = document.paths['/plants'];
const { get: replay } = document.paths['/events'];
const operations = Object.values<Record<string, Operation>>(document.paths).flatMap((path) =>
  Object.values(path),
);

describe('the document', () => {
  test('is docs/openapi.json, so that a review sees what changes; -u writes it', async () => {
    await expect(`${JSON.stringify(document, null, 1)}\n`).toMatchFileSnapshot('../../docs/openapi.json');
  });

  test('is OpenAPI 3.1 and has the title of the API', () => {
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(document.info).toMatchObject({
      title: 'Plant store API',
      version: VERSION,
      license: { name: 'MIT' },
      contact: { name: expect.any(String) },
    });
    expect(document.servers).toEqual([{ url: '.' }]);
  });

  test('has all operations that require a token, and no others', async () => {
    const operation = (operationId: string) => ({ operationId });
    expect(document.paths).toMatchObject({
      '/plants': { get: operation('listPlants'), post: operation('createPlant') },
      '/erasures': { post: operation('eraseUser') },
      '/events': { get: operation('replayEvents') },
      '/events/histogram': { get: operation('countEvents') },
      '/log-key': { get: operation('getLogKey') },
      '/checkpoint': { get: operation('getCheckpoint') },
      '/tile/{level}/{index}': { get: operation('getTile') },
      '/tile/{level}/{index}.p/{width}': { get: operation('getPartialTile') },
      '/tile/entries/{index}': { get: operation('getEntries') },
      '/tile/entries/{index}.p/{width}': { get: operation('getPartialEntries') },
      '/proofs/plants': { get: operation('provePlant') },
    });
    for (const [path, methods] of Object.entries<object>(document.paths))
      for (const method of Object.keys(methods)) {
        const { status } = await fetch(url + path.replaceAll(/\{\w+\}/g, '1'), {
          method: method.toUpperCase(),
        });
        expect([path, status]).toEqual([path, 401]);
      }
    for (const { summary, description } of operations) {
      expect(summary).toMatch(/\w+ \w+/);
      expect(description).toMatch(/^\p{L}.*\.$/u);
    }
  });

  test('requires a bearer token for every operation, and the scope audit for operations of auditors', () => {
    const [[name, scheme] = []] = Object.entries(document.components.securitySchemes);
    expect(scheme).toMatchObject({ type: 'http', scheme: 'bearer' });
    for (const { security } of [get, post]) expect(security).toEqual([{ [String(name)]: [] }]);
    for (const path of ['/log-key', '/proofs/plants'])
      expect(document.paths[path].get.security).toEqual([{ [String(name)]: [] }]);
    expect(document.paths['/events'].get.security).toEqual([{ [String(name)]: ['audit'] }]);
    for (const path of ['/checkpoint', '/tile/{level}/{index}', '/tile/entries/{index}.p/{width}'])
      expect(document.paths[path].get.security).toEqual([
        { [String(name)]: ['monitor'] },
        { [String(name)]: ['audit'] },
      ]);
  });

  test('has 50302 at the operations that docs/errors.md names', () => {
    const with50302 = operations
      .filter(({ responses }) => JSON.stringify(responses[503]).includes('(50302)'))
      .map(({ operationId }) => operationId);
    for (const named of ['listPlants', 'getCheckpoint', 'getTile', 'provePlant', 'proveErasure', 'eraseUser'])
      expect(with50302).toContain(named);
    for (const other of ['createPlant', 'replayEvents', 'getLogKey']) expect(with50302).not.toContain(other);
    const errors = readFileSync(join(ROOT, 'docs/errors.md'), 'utf8');
    expect(errors).toMatch(
      /^\| 50302 \| lists, `GET \/checkpoint`, `\/tile\/…`, receipts, `POST \/erasures` \|/m,
    );
  });

  test('has examples at each operation', () => {
    for (const { operationId, responses, parameters = [] } of operations) {
      const bodies = Object.values(responses[200]?.content ?? {}).map(({ example }) => example);
      const required = parameters.filter((parameter) => parameter.required);
      expect(required.filter(({ example }) => example === undefined)).toEqual([]);
      if (!/^get(Partial)?(Tile|Entries)$/.test(operationId)) expect(bodies).not.toContain(undefined); // they are binary
    }
    const headers = operations.flatMap(({ responses }) => Object.values(responses).map((one) => one.headers));
    for (const { schema } of headers.flatMap((one = {}) => Object.values(one)))
      expect(schema.examples).toEqual([expect.any(schema.type === 'integer' ? Number : String)]);
    expect(document.components.schemas.NewPlant.examples).toEqual([{ id: 1, name: 'Fern', tag: 'indoor' }]);
  });

  test('has every error code as a value with a name, and an example of each code of a response', () => {
    const { enum: codes, 'x-enum-varnames': names } = document.components.schemas.Error.properties.error;
    expect(codes).toEqual([...new Set(Object.values(API_ERRORS).map(({ code }) => code))].sort());
    for (const [i, name] of names.entries())
      expect(API_ERRORS[name as keyof typeof API_ERRORS].code).toBe(codes[i]);
    const nameOf = (code: number) => names[codes.indexOf(code)];
    for (const { responses } of operations)
      for (const [status, { description, content }] of Object.entries(responses)) {
        if (status === '200') continue;
        const examples = Object.entries(content?.['application/json']?.examples ?? {});
        const described = [...description.matchAll(/\((\d{5})\)/g)].map(([, code]) => Number(code));
        expect(examples.map(([, { value }]) => value.error)).toEqual([...new Set(described)]);
        for (const [name, { value }] of examples) expect(name).toBe(nameOf(value.error));
      }
  });

  test('has the values of parameters and headers that are no free text', () => {
    const order = replay.parameters.find(({ name }: { name: string }) => name === 'order');
    expect(order.schema.enum).toEqual(['ascending', 'descending']);
    const types = new Map(
      operations
        .flatMap(({ responses }) =>
          Object.values(responses).flatMap(({ headers = {} }) => Object.entries(headers)),
        )
        .map(([name, { schema }]) => [name, schema.type]),
    );
    for (const name of ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'Retry-After'])
      expect([name, types.get(name)]).toEqual([name, 'integer']);
  });

  test('has NDJSON as bytes: NSwag takes other text of a media type with json for JSON', () => {
    expect(replay.responses[200].content['application/x-ndjson'].schema.format).toBe('binary');
  });

  test('has examples of operations that destroy which destroy nothing', async () => {
    await as('alice').create(1, { name: 'Fern' });
    const destructive = Object.entries<Record<string, Operation>>(document.paths).filter(
      ([, { post }]) => post?.['x-destructive'],
    );
    expect(destructive.map(([path]) => path)).toEqual(['/erasures']);
    const body = JSON.stringify(document.components.schemas.Erasure.examples[0]);
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    const response = await as('dana', 'erase').request('/erasures', init);
    expect([response.status, await response.json()]).toEqual([
      200,
      { events: 0, records: [], scrubbed: true },
    ]);
  });

  test('has an example with a bigint that JavaScript clients send without rounding', async () => {
    const { description } = document.components.schemas.NewPlant.properties.id;
    const [, code] = /`(JSON\.stringify\(.*\))`/.exec(description) ?? [];
    const body = new Function(`return ${code}`)();
    expect(body).toBe('{"id":9223372036854775807,"name":"Fern"}');
    expect((await as('frank').post(body)).status).toBe(200);
  });

  test('has the checkpoint and the receipt of its example event, signed with the key of this test', async () => {
    const exampleOf = (path: string) =>
      document.paths[path].get.responses[200].content['text/plain'].example as string;
    const [event = ''] = Object.values<{ example: string }>(replay.responses[200].content).map(
      ({ example }) => example,
    );
    const { entry } = cloudEventEntry(JSON.parse(event));
    const log = { origin: 'plants.example/log', key: keyNamed('the key of examples') };
    const key = toVerifierKey(log.origin, log.key);
    expect(exampleOf('/log-key')).toBe(`${formatVerifierKey(key)}\n`);
    expect(exampleOf('/checkpoint')).toBe(signCheckpoint({ size: 1, root: entryLeafHash(entry) }, log));
    const { text, index } = await openReceipt(exampleOf('/proofs/plants'), key);
    expect([index, text]).toEqual([0, cloudEventText(JSON.parse(event))]);
    expect(exampleOf('/proofs/plants')).toContain(exampleOf('/checkpoint'));
  });
});

// test/clients has other programs that read the document: Redocly, Prism, and a generator of clients.

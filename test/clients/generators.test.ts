import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient as generateHeyApi } from '@hey-api/openapi-ts';
import createFetchClient from 'openapi-fetch';
import openapiTypes, { astToString } from 'openapi-typescript';
import { generate as generateOrval } from 'orval';
import { afterAll, expect, test } from 'vitest';
import * as zod from 'zod';
import { serviceOfFile } from '../support/service.ts';

// What docs/guide.md says of generated clients.

const { url, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });
const authorization = await bearer('alice');

// Inside this directory, where generated clients can import zod.
const dir = mkdtempSync(join(import.meta.dirname, 'generated-'));
afterAll(() => rmSync(dir, { recursive: true }));
const document = join(dir, 'openapi.json');
writeFileSync(document, await (await fetch(`${url}/openapi.json`)).text());

type Plant = { id?: bigint; name: string };
type Query = { limit?: number; after?: string | undefined; fields?: 'id,name,tag' };
type Problem = { error: number; details?: { field: string; message: string }[] };
type Result<Data> = { data?: Data; error?: Problem; response: Response };
type Client = {
  create: (plant: { id: unknown; name: unknown }) => Promise<Result<unknown>>;
  list: (query: Query) => Promise<Result<Plant[]>>;
};

/** https://tc39.es/proposal-json-parse-with-source, which TypeScript does not have yet. */
type ExactJson = {
  rawJSON: (text: string) => unknown;
  parse: (
    text: string,
    revive: (key: string, value: unknown, context: { source: string }) => unknown,
  ) => never;
};
const exactJson = JSON as unknown as ExactJson;
/** The JSON number of a bigint: the type that clients give an int64 is `number` or `bigint`. */
const int64 = (id: bigint) => exactJson.rawJSON(String(id));
const parse = (text: string) =>
  exactJson.parse(text, (key, value, { source }) => (key === 'id' ? BigInt(source) : value));
const parsed = ({ data, ...result }: Result<string>): Result<Plant[]> => ({
  ...result,
  ...(data !== undefined && { data: parse(data) }),
});

async function openapiFetch(): Promise<Client> {
  const types = astToString(await openapiTypes(new URL(`file://${document}`)));
  expect(types).toContain('fields?: "id,name,tag"');
  const client = createFetchClient<Record<string, never>>({ baseUrl: url, headers: { authorization } });
  const { GET, POST } = client as unknown as Record<string, (path: string, init: object) => Promise<never>>;
  return {
    create: async (body) => POST?.('/plants', { body }) as never,
    list: async (query) => parsed((await GET?.('/plants', { params: { query }, parseAs: 'text' })) as never),
  };
}

async function heyApi(): Promise<Client> {
  const path = join(dir, 'heyApi');
  const plugins = ['@hey-api/client-fetch', '@hey-api/sdk', '@hey-api/typescript'] as never;
  await generateHeyApi({ input: document, output: { path }, plugins, logs: { level: 'silent' } });
  const { client } = await import(join(path, 'client.gen.ts'));
  const { createPlant, listPlants } = await import(join(path, 'sdk.gen.ts'));
  client.setConfig({ baseUrl: url, headers: { authorization } });
  return {
    create: (body) => createPlant({ body }),
    list: async (query) => parsed(await listPlants({ query, parseAs: 'text' })),
  };
}

async function orvalWithZod(): Promise<Client> {
  const [client, schemas, mutator] = ['client.ts', 'zod.ts', 'send.ts'].map((file) => join(dir, file)) as [
    string,
    string,
    string,
  ];
  writeFileSync(
    mutator,
    'export const send = (path: string, init: RequestInit) => globalThis.send(path, init);',
  );
  const send = async (path: string, init: RequestInit) => {
    const response = await fetch(url + path, { ...init, headers: { ...init.headers, authorization } });
    return { response, [response.ok ? 'data' : 'error']: parse(await response.text()) };
  };
  Object.assign(globalThis, { send });
  const input = { target: document };
  const override = { mutator: { path: mutator, name: 'send' } };
  await generateOrval({ input, output: { target: client, client: 'fetch', override } }, dir);
  await generateOrval({ input, output: { target: schemas, client: 'zod' } }, dir);
  const { createPlant, listPlants } = await import(client);
  const { ListPlantsResponseItem } = await import(schemas);
  // Its schema of an int64 accepts no bigint, and no number above 2^53.
  const Plants = zod.array(ListPlantsResponseItem.extend({ id: zod.bigint() }));
  return {
    create: createPlant,
    list: async (query) => {
      const { data, ...result } = await listPlants(query);
      return { ...result, data: Plants.parse(data) as Plant[] };
    },
  };
}

test.each([
  ['openapi-fetch', 1n, openapiFetch],
  ['@hey-api/openapi-ts', 2n, heyApi],
  ['orval with zod', 3n, orvalWithZod],
] as const)(
  'a client of %s creates, lists by fields, pages, keeps in step, and shows an error by field',
  async (name, number, generated) => {
    const { create, list } = await generated();
    const fields = 'id,name,tag';
    const start = (await list({ limit: 0, fields })).response.headers.get('log-position') ?? '';
    const ids = [2n ** 63n - number, -(2n ** 63n) + number];
    for (const id of ids) {
      const created = await create({ id: int64(id), name });
      expect([created.response.status, created.data]).toEqual([200, { name }]);
    }
    const complete = await list({ after: start, fields });
    expect(complete.data).toEqual(ids.map((id) => ({ id, name })));

    const page = await list({ limit: 1, after: start, fields });
    expect(page.data).toEqual([{ id: ids[0], name }]);
    const [, link = ''] = /^<(.*)>; rel="next"$/.exec(page.response.headers.get('link') ?? '') ?? [];
    const next = Object.fromEntries(new URL(link, page.response.url).searchParams);
    expect(next).toMatchObject({ limit: '1', fields });
    expect((await list({ ...next, limit: 1 })).data).toEqual([{ id: ids[1], name }]);

    const after = complete.response.headers.get('log-position') ?? '';
    expect((await list({ after, fields })).data).toEqual([]);
    await create({ id: int64(number), name });
    expect((await list({ after, fields })).data).toEqual([{ id: number, name }]);

    const { error } = await create({ id: '1', name: 5 });
    expect([error?.error, error?.details]).toEqual([
      40002,
      [
        { field: 'id', message: expect.stringMatching(/^must be an integer from .* without quotes$/) },
        { field: 'name', message: 'must be a string' },
      ],
    ]);
  },
);

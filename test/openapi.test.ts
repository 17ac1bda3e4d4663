import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { RequestOpts } from '@oazapfts/runtime';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { generateSource } from 'oazapfts';
import { describe, expect, onTestFinished, test } from 'vitest';
import { refusalIn } from './support/refusal.ts';
import { serviceOfFile } from './support/serviceOfFile.ts';

const { url, as, bearer } = await serviceOfFile();
const published = await fetch(`${url}/openapi.json`);
const source = await published.text();

type Described = { headers?: Record<string, unknown>; content?: Record<string, { schema: unknown }> };
type Operation = {
  operationId: string;
  summary: string;
  security: unknown;
  responses: Record<string, Described>;
};
const document = JSON.parse(source);
const operations = Object.values<Record<string, Operation>>(document.paths).flatMap((path) =>
  Object.values(path),
);

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const EVERYWHERE = ['Cache-Control', 'Request-Id'];

describe('the document', () => {
  test('needs no token and is JSON', () => {
    expect(published.status).toBe(200);
    expect(published.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(published.headers.get('cache-control')).toBe('no-store');
  });

  test('is of OpenAPI 3.1 and says what the API is called', () => {
    expect(document.openapi).toMatch(/^3\.1\./);
    expect(document.info).toMatchObject({
      title: 'OpenAPI Plant Store',
      version: '1.0.0',
      license: { name: 'MIT' },
    });
    expect(document.servers).toEqual([{ url: '/' }]);
  });

  test('has the two operations, and nothing of health or of itself', () => {
    expect(
      Object.entries(document.paths).map(([path, of]) => [path, Object.keys(of as object).toSorted()]),
    ).toEqual([['/plants', ['get', 'post']]]);
    expect(operations.map(({ operationId }) => operationId).toSorted()).toEqual([
      'createPlant',
      'listPlants',
    ]);
    for (const { summary } of operations) expect(summary).toMatch(/\w+ \w+/);
  });

  test('asks for a bearer token on every operation', () => {
    const [[name, scheme] = []] = Object.entries(document.components.securitySchemes);
    expect(scheme).toMatchObject({ type: 'http', scheme: 'bearer' });
    expect(operations.map(({ security }) => security)).toEqual(
      operations.map(() => [{ [String(name)]: [] }]),
    );
  });

  test('names the schemas Plant, NewPlant and Error', () => {
    const text = expect.objectContaining({ type: 'string' });
    const integer = (format: string) => expect.objectContaining({ type: 'integer', format });
    expect(document.components.schemas).toEqual({
      Plant: expect.objectContaining({
        type: 'object',
        required: ['name'],
        properties: { name: text, tag: text },
      }),
      NewPlant: expect.objectContaining({
        type: 'object',
        required: ['id', 'name'],
        properties: { id: integer('int64'), name: text, tag: text },
      }),
      Error: expect.objectContaining({
        type: 'object',
        required: ['error', 'message'],
        properties: { error: integer('int32'), message: text },
      }),
    });
  });

  test('says what goes in', () => {
    const { get, post } = document.paths['/plants'];
    expect(post.requestBody).toEqual({
      required: true,
      content: { 'application/json': { schema: ref('NewPlant') } },
    });
    expect(post.parameters ?? []).toEqual([]);
    const parameter = (where: string, name: string, schema: object) =>
      expect.objectContaining({ in: where, name, required: false, schema: expect.objectContaining(schema) });
    expect(get.parameters).toEqual([
      parameter('query', 'limit', { type: 'integer', format: 'int32', minimum: 0 }),
      parameter('query', 'after', { type: 'string' }),
      parameter('header', 'Log-Position', { type: 'string' }),
    ]);
  });

  test('says what comes out, and with which header fields', () => {
    const { get, post } = document.paths['/plants'];
    for (const { responses } of operations) {
      const { 200: success, ...refusals } = responses;
      expect(Object.keys(success?.headers ?? {})).toEqual(
        expect.arrayContaining(['Log-Position', ...EVERYWHERE]),
      );
      expect(Object.keys(refusals)).toEqual(expect.arrayContaining(['400', '401', '500', '503']));
      for (const { headers, content } of Object.values(refusals)) {
        expect(content).toEqual({ 'application/json': { schema: ref('Error') } });
        expect(Object.keys(headers ?? {})).toEqual(expect.arrayContaining(EVERYWHERE));
      }
      expect(Object.keys(refusals[401]?.headers ?? {})).toContain('WWW-Authenticate');
      expect(Object.keys(refusals[503]?.headers ?? {})).toContain('Retry-After');
    }
    expect(Object.keys(post.responses)).toEqual(expect.arrayContaining(['413', '415']));
    expect(post.responses[200].content).toEqual({ 'application/json': { schema: ref('Plant') } });
    const list = { type: 'array', items: ref('Plant') };
    expect(get.responses[200].content).toEqual({ 'application/json': { schema: list } });
    expect(Object.keys(get.responses[200].headers)).toContain('Link');
  });

  test('passes the recommended rules of Redocly', async () => {
    const config = await createConfig({ extends: ['recommended'] });
    expect(await lintFromString({ source, config })).toEqual([]);
    // The rules are really asked: they would see a licence that is missing.
    const worse = JSON.stringify({ ...document, info: { ...document.info, license: undefined } });
    expect((await lintFromString({ source: worse, config })).map(({ ruleId }) => ruleId)).toEqual([
      'info-license',
    ]);
  });
});

describe('an answer has no header field that the document does not list:', () => {
  const TRANSPORT = /^(connection|content-length|content-type|date|keep-alive|transfer-encoding)$/;
  const json = { 'content-type': 'application/json' };
  test.each<[number, string, string, RequestInit]>([
    [200, 'post', '', { headers: json, body: '{"id":1,"name":"Fern"}' }],
    [400, 'post', '', { headers: json, body: '{"id":1,"name":"Oak"}' }],
    [400, 'post', '', { headers: json, body: '{' }],
    [413, 'post', '', { headers: json, body: ' '.repeat(70_000) }],
    [415, 'post', '', { body: '{}' }],
    [200, 'get', '?limit=1', {}],
    [400, 'get', '?limit=x', {}],
    [401, 'get', '', { headers: { authorization: 'Bearer nonsense' } }],
  ])('%i to %s /plants%s', async (status, method, query, init) => {
    await as('alice').create(1, { name: 'Fern' });
    await as('alice').create(2, { name: 'Moss' });
    const headers = { authorization: await bearer('alice'), ...init.headers };
    const answer = await fetch(`${url}/plants${query}`, { ...init, method: method.toUpperCase(), headers });
    expect(answer.status).toBe(status);
    if (status !== 200) await refusalIn(answer);
    const listed = Object.keys(document.paths['/plants'][method].responses[status].headers);
    const sent = [...answer.headers.keys()].filter((name) => !TRANSPORT.test(name));
    expect(listed.map((name) => name.toLowerCase())).toEqual(expect.arrayContaining(sent));
  });
});

test('a client made from the document by oazapfts creates plants and lists them', async () => {
  type Answer = Promise<{ status: number; data: unknown }>;
  type Client = {
    createPlant: (plant: { id: number; name: string; tag?: string }, options: RequestOpts) => Answer;
    listPlants: (query: { limit?: number }, options: RequestOpts) => Answer;
  };
  // Inside the project, where the client finds its runtime.
  const cache = join(import.meta.dirname, '../node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const dir = mkdtempSync(join(cache, 'client-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'client.mjs');
  writeFileSync(file, stripTypeScriptTypes(await generateSource(`${url}/openapi.json`)));
  const { createPlant, listPlants }: Client = await import(pathToFileURL(file).href);

  const options = async (user: string) => ({ baseUrl: url, headers: { authorization: await bearer(user) } });
  const [carol, dave] = [await options('carol'), await options('dave')];
  const fern = { name: 'Fern', tag: 'indoor' };
  expect(await createPlant({ id: 1, ...fern }, carol)).toMatchObject({ status: 200, data: fern });
  expect(await createPlant({ id: 1, name: 'Oak' }, dave)).toMatchObject({
    status: 200,
    data: { name: 'Oak' },
  });
  expect(await createPlant({ id: 2, name: 'Moss' }, carol)).toMatchObject({ status: 200 });
  expect(await createPlant({ id: 2, name: 'Ivy' }, carol)).toMatchObject({
    status: 400,
    data: { error: 40003 },
  });
  expect(await listPlants({}, carol)).toMatchObject({ status: 200, data: [fern, { name: 'Moss' }] });
  expect(await listPlants({ limit: 1 }, carol)).toMatchObject({ status: 200, data: [fern] });
  expect(await listPlants({}, dave)).toMatchObject({ status: 200, data: [{ name: 'Oak' }] });
});

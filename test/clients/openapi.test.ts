import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { generateSource } from 'oazapfts';
import { expect, onTestFinished, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';

const { url, bearer } = await serviceOfFile({ MERKLE_TREE: 'on' });
const source = await (await fetch(`${url}/openapi.json`)).text();

test('the OpenAPI document passes the recommended rules of Redocly', async () => {
  const config = await createConfig({ extends: ['recommended'] });
  expect(await lintFromString({ source, config })).toEqual([]);
  const document = JSON.parse(source);
  // The rules do run: they report a missing licence.
  const worse = JSON.stringify({ ...document, info: { ...document.info, license: undefined } });
  expect((await lintFromString({ source: worse, config })).map(({ ruleId }) => ruleId)).toEqual([
    'info-license',
  ]);
});

type Call = (...given: unknown[]) => Promise<{ status: number; data: unknown }>;
type OperationId =
  | 'createPlant'
  | 'listPlants'
  | 'replayEvents'
  | 'getTile'
  | 'getPartialTile'
  | 'provePlant';

/** The client that oazapfts generates from the document. */
async function generatedClient(): Promise<Record<OperationId, Call>> {
  // Inside the directory, where the client can import its runtime.
  const cache = join(import.meta.dirname, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const dir = mkdtempSync(join(cache, 'client-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'client.mjs');
  writeFileSync(file, stripTypeScriptTypes(await generateSource(`${url}/openapi.json`)));
  return import(pathToFileURL(file).href);
}

test('a client generated from the document creates, lists and proves plants, and replays the log', async () => {
  const client = await generatedClient();
  const { createPlant, listPlants, replayEvents, getTile, getPartialTile, provePlant } = client;
  const options = async (user: string, scope?: string) => ({
    baseUrl: url,
    headers: { authorization: await bearer(user, scope) },
  });
  const [carol, dave, auditor] = [
    await options('carol'),
    await options('dave'),
    await options('erin', 'audit'),
  ];
  const fern = { name: 'Fern', tag: 'indoor' };
  expect(await createPlant({ id: 1, ...fern }, {}, carol)).toMatchObject({ status: 200, data: fern });
  expect(await createPlant({ id: 1, name: 'Oak' }, {}, carol)).toMatchObject({ data: { error: 40003 } });
  expect(await listPlants({ limit: 1 }, carol)).toMatchObject({ status: 200, data: [fern] });
  expect(await listPlants({}, dave)).toMatchObject({ status: 200, data: [] });

  // The client parses the body as one JSON value, and would send Accept: application/json.
  const ndjson = { ...auditor, headers: { ...auditor.headers, accept: 'application/x-ndjson' } };
  const event = { data: { id: '1', user: 'carol', ...fern } };
  expect(await replayEvents({ user: 'carol', limit: 1 }, ndjson)).toMatchObject({ status: 200, data: event });
  const receipt = { status: 200, data: expect.stringMatching(/^c2sp\.org\/tlog-proof@v1\n/) };
  expect(await provePlant('1', {}, carol)).toMatchObject(receipt);
  expect((await getPartialTile('0', '000', '1', auditor)).status).toBe(200);
  for (const index of ['000', 'x001/000']) expect((await getTile('0', index, auditor)).status).toBe(404);
});

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { runCommand } from '../../packages/transparency-log/test/support/program.ts';
import { auditorOf } from '../support/auditor.ts';
import { runCli, succeeded } from '../support/cli.ts';
import { startServiceWithTree } from '../support/service.ts';

test('an auditor follows the log over HTTP, and checks receipts and proofs without it', async () => {
  const service = await startServiceWithTree();
  const { state, key, monitored } = await auditorOf(service);
  const alice = service.as('alice');
  for (const id of [1, 2, 3]) expect((await alice.create(id, { name: `Fern ${id} 🌱` })).status).toBe(200);
  expect(await monitored(3)).toMatch(/ {2}new events: \d\n$/);

  const receipt = await (await alice.request('/proofs/plants?id=2')).text();
  const check = (text: string, ...options: string[]) =>
    runCommand(['check-proof', '--key', key, ...options], { input: [text] });
  expect(succeeded(await check(receipt))).toMatch(
    /^event "[\da-f-]{36}" of "plant-alice\/2" with the data \{.*"name":"Fern 2 🌱".*\} is number 2 of the log urn:plant-store 3:[\da-f]{64}\n$/,
  );

  for (const id of [4, 5]) expect((await service.as('bob').create(id, { name: 'Oak' })).status).toBe(200);
  const settings = { DATA_DIR: service.dir };
  const proof = succeeded(await runCli(['prove', '--from', '3'], settings));
  expect(succeeded(await check(proof, '--expect', `${state}.checkpoint`))).toMatch(
    / 3:\S+ is the beginning of 5:/,
  );
  await monitored(5);
  expect(succeeded(await runCli(['verify', '--expect', `${state}.checkpoint`], settings))).toMatch(
    /^problems +none$/m,
  );
  const signed = succeeded(await runCli(['prove', '--from', '5'], settings));
  expect(signed.slice(signed.indexOf('\n\n') + 2)).toBe(readFileSync(`${state}.checkpoint`, 'utf8')); // the same checkpoint
});

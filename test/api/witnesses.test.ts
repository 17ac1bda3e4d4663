import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { readUnverifiedCheckpoint } from '../../packages/tlog/src/notes/checkpoint.ts';
import { parseVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { verifyCosignatures } from '../../packages/tlog/src/witness/cosignature.ts';
import { openReceipt } from '../../packages/transparency-log/src/digest/openReceipt.ts';
import { FakeWitness } from '../../packages/transparency-log/test/signer/fakeWitness.ts';
import { startServiceWithTree } from '../support/service.ts';

const fail: FakeWitness['respond'] = (_, response) => void response.destroy();

/** A service with two witnesses, both of which must sign. */
async function witnessed(respond?: FakeWitness['respond'], env = {}) {
  const witnesses = await Promise.all(['w1', 'w2'].map((name) => new FakeWitness(name).start()));
  for (const witness of respond ? witnesses : []) witness.respond = respond as FakeWitness['respond'];
  const WITNESSES = witnesses.map(({ setting }) => setting).join(',');
  const service = await startServiceWithTree({ WITNESSES, QUORUM: '2', METRICS_PORT: '0', ...env });
  const [alice, carol] = [service.as('alice'), service.as('carol', 'audit')];
  const text = async (path: string) => (await carol.request(path)).text();
  const namesIn = (checkpoint: string) =>
    verifyCosignatures(
      checkpoint,
      witnesses.map(({ witness }) => witness.key),
    ).map(({ key }) => key.name);
  /** The size of a checkpoint, and who has cosigned it. */
  const checkpoint = async (query = '') => {
    const note = await text(`/checkpoint${query}`);
    return { size: readUnverifiedCheckpoint(note).size, names: namesIn(note) };
  };
  return { ...service, witnesses, alice, carol, text, checkpoint, namesIn };
}

test('a checkpoint is cosigned in the background, and served with its cosignatures', async () => {
  const { alice, checkpoint, metricsUrl, witnesses } = await witnessed();
  await alice.create(1, { name: 'Fern' });
  await expect.poll(() => checkpoint().catch(() => undefined)).toEqual({ size: 1, names: ['w1', 'w2'] });
  const metrics = await (await fetch(metricsUrl as string)).text();
  const time = String(witnesses[0]?.time);
  for (const [metric, value] of [
    ['cosigned_size', '1'],
    ['cosigned_timestamp_seconds', time],
    ['witness_size{witness="w2"}', '1'],
    ['witness_timestamp_seconds{witness="w2"}', time],
  ])
    expect(metrics).toContain(`plant_store_${metric} ${value}\n`);
});

test('without a quorum the last cosigned checkpoint is served; ?latest returns the newest one', async () => {
  const { alice, carol, checkpoint, witnesses } = await witnessed();
  await expect.poll(() => checkpoint().catch(() => undefined)).toEqual({ size: 0, names: ['w1', 'w2'] });
  const [, second] = witnesses as [FakeWitness, FakeWitness];
  const { respond } = second;
  second.respond = fail;
  expect((await alice.create(1, { name: 'Fern' })).status).toBe(200);
  await expect.poll(() => checkpoint('?latest')).toEqual({ size: 1, names: [] });
  expect(await checkpoint()).toEqual({ size: 0, names: ['w1', 'w2'] });
  second.respond = respond;
  await expect.poll(() => checkpoint()).toEqual({ size: 1, names: ['w1', 'w2'] });
  expect(await checkpoint('?latest=true')).toEqual({ size: 1, names: ['w1', 'w2'] });
  const message = await refusedWith(40004, await carol.request('/checkpoint?latest=no'));
  expect(message).toBe('latest must be "" or "true".');
});

test('before the first quorum /checkpoint is 50305, and plants and receipts are served', async () => {
  const { alice, carol, namesIn, text } = await witnessed(fail);
  await alice.create(1, { name: 'Fern' });
  const response = await carol.request('/checkpoint');
  expect(response.headers.get('retry-after')).toBe('1');
  await refusedWith(50305, response);
  const receipt = await (await alice.request('/proofs/plants?id=1')).text();
  expect(namesIn(receipt.slice(receipt.indexOf('\n\n') + 2))).toEqual([]);
  const key = parseVerifierKey((await text('/log-key')).trim());
  expect((await openReceipt(receipt, key)).checkpoint.size).toBe(1);
});

test('a log that contradicts what it has signed gives no receipt, nor what was cosigned before', async () => {
  const dir = tempDir();
  const first = await witnessed(undefined, { DATA_DIR: dir });
  for (const id of [1, 2, 3]) await first.alice.create(id, { name: 'Fern' });
  await expect.poll(() => first.checkpoint().catch(() => undefined)).toMatchObject({ size: 3 });
  await first.close();
  using db = new DatabaseSync(join(dir, 'log.db'));
  db.exec(`DROP TRIGGER events_are_never_updated; UPDATE events SET id = id || 'x' WHERE position = 2`);
  const { alice, carol } = await witnessed(fail, { DATA_DIR: dir });
  for (const request of [() => alice.request('/proofs/plants?id=1'), () => carol.request('/checkpoint')])
    await expect.poll(async () => (await request()).text()).toContain('50304');
});

test('a receipt has the cosignatures of a checkpoint that includes its plant', async () => {
  const { alice, checkpoint, namesIn, text, witnesses } = await witnessed();
  await alice.create(1, { name: 'Fern' });
  await alice.create(2, { name: 'Moss' });
  await expect.poll(() => checkpoint().catch(() => undefined)).toMatchObject({ size: 2 });
  for (const witness of witnesses) witness.respond = fail;
  await alice.create(3, { name: 'Oak' });
  const key = parseVerifierKey((await text('/log-key')).trim());
  for (const [id, size, names] of [
    [1, 2, ['w1', 'w2']],
    [3, 3, []],
  ] as const) {
    const receipt = await (await alice.request(`/proofs/plants?id=${id}`)).text();
    expect((await openReceipt(receipt, key)).checkpoint.size).toBe(size);
    expect(namesIn(receipt.slice(receipt.indexOf('\n\n') + 2))).toEqual(names);
  }
});

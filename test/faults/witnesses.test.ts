import { setTimeout } from 'node:timers/promises';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { leafHash, MerkleTree } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { tilePath, tileWidth } from '../../packages/tlog/src/merkle/tiles.ts';
import { openCheckpoint } from '../../packages/tlog/src/notes/checkpoint.ts';
import { parseVerifierKey } from '../../packages/tlog/src/notes/signedNote.ts';
import { verifyCosignatures } from '../../packages/tlog/src/witness/cosignature.ts';
import { parsePolicy } from '../../packages/tlog/src/witness/policy.ts';
import { FakeWitness } from '../../packages/transparency-log/test/signer/fakeWitness.ts';
import { untilAvailable } from '../support/instances.ts';
import { Load } from '../support/load.ts';
import { startServer } from '../support/server.ts';
import { entriesIn } from '../support/tlogVerifier.ts';

const ROUNDS = Number(process.env.WITNESS_ROUNDS ?? 4);
const PLANTS_PER_ROUND = Number(process.env.WITNESS_PLANTS ?? 200);

test('over kills of the log and outages of a witness, each checkpoint that is served has its quorum', async () => {
  const DATA_DIR = tempDir();
  const first = await startServer({ env: { DATA_DIR, MERKLE_TREE: 'on' } });
  const key = await (await first.as('carol').request('/log-key')).text();
  await first.kill();

  const [stopped, steady] = [await new FakeWitness('w1').start(), await new FakeWitness('w2').start()];
  const down = new FakeWitness('down');
  down.url = 'http://127.0.0.1:9'; // nothing listens there
  const settings = [stopped, steady, down].map(({ setting }) => setting);
  const policy = parsePolicy(settings, '2');
  const keys = policy.witnesses.map((witness) => witness.key);
  const env = { DATA_DIR, MERKLE_TREE: 'on', WITNESSES: settings.join(','), QUORUM: '2' };

  const load = new Load();
  const served: { size: number; root: string }[] = [];
  let last = 0;
  for (let round = 1; round <= ROUNDS; round++) {
    const server = await startServer({ env });
    const reading = new AbortController();
    const reader = (async () => {
      while (!reading.signal.aborted) {
        const response = await server
          .as('carol', 'audit')
          .request('/checkpoint')
          .catch(() => undefined);
        const note = response?.status === 200 ? await response.text().catch(() => '') : '';
        if (note !== '') {
          const { size, root } = await openCheckpoint(note, parseVerifierKey(key.trim()));
          expect(verifyCosignatures(note, keys).map((one) => one.key.name)).toEqual(['w1', 'w2']);
          expect(size).toBeGreaterThanOrEqual(last); // never an older one, also after a restart
          last = size;
          if (served.at(-1)?.size !== size) served.push({ size, root });
        }
        await setTimeout(5);
      }
    })();
    load.start(server);
    await load.more(PLANTS_PER_ROUND / 2);
    stopped.stop();
    await load.more(PLANTS_PER_ROUND / 2); // POST does not need a witness
    await stopped.start();
    const before = last;
    await expect.poll(() => last).toBeGreaterThan(before);
    await server.kill();
    await load.broken();
    reading.abort();
    await reader;
  }
  expect(served.length).toBeGreaterThanOrEqual(ROUNDS);

  // Each was a beginning of the log that there is now.
  const server = await startServer({ env });
  await load.expectKept(server);
  const carol = server.as('carol', 'audit');
  for (const { size, root } of served) {
    const checkpoint = () => untilAvailable(() => carol.request('/checkpoint'));
    await expect
      .poll(async () => Number((await (await checkpoint()).text()).split('\n')[1]))
      .toBeGreaterThanOrEqual(size);
    expect(await rootOf(carol, size)).toBe(root);
  }
});

/** The root of the first events, from their entries. */
async function rootOf(carol: ReturnType<Awaited<ReturnType<typeof startServer>>['as']>, size: number) {
  const tree = new MerkleTree();
  for (let index = 0; index * 256 < size; index++) {
    const path = tilePath({ level: 'entries', index, width: tileWidth(0, index, size) });
    const bundle = Buffer.from(await (await carol.request(`/${path}`)).arrayBuffer());
    for (const entry of entriesIn(bundle)) tree.append(leafHash(entry));
  }
  return tree.root();
}

import { expect, test } from 'vitest';
import { fakeCluster } from '../checker/fakeCluster.ts';
import { realCluster } from '../checker/realCluster.ts';
import { check } from '../checker/run.ts';
import { heap, mayUse } from '../support/heap.ts';
import { resourcesInUse } from '../support/instances.ts';

/** The number of seeds: SOAK_ROUNDS=100 npm run test:soak. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 2);
/** The first seed: SOAK_SEED=… npm run test:soak. */
const first = Number(process.env.SOAK_SEED ?? Date.now() % 2 ** 31);
const SEED_TIMEOUT_MS = 30 * 60_000;

test.each([
  ['fake', fakeCluster],
  ['real', realCluster],
] as const)(
  `two instances over a %s cluster respond as their log allows, for ${rounds} seeds from ${first}`,
  async (_, start) => {
    const system = await start();
    if (!system)
      return console.info('no real cluster: set EVENTSTOREDB_TEST_URL and EVENTSTOREDB_TEST_FAULTS');
    expect(await check(system, first)).toBeUndefined(); // also starts every thread
    const { expectNoMore } = resourcesInUse();
    const heapBefore = heap();
    for (let seed = first + 1; seed < first + rounds; seed++)
      expect(await check(system, seed)).toBeUndefined();
    await expectNoMore();
    const plants = (await system.events()).length;
    expect(heap() - heapBefore).toBeLessThan(mayUse(plants));
  },
  rounds * SEED_TIMEOUT_MS,
);

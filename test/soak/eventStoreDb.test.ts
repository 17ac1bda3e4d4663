import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { fakeCluster } from '../checker/fakeCluster.ts';
import { realCluster } from '../checker/realCluster.ts';
import { check } from '../checker/run.ts';
import { resourcesInUse } from '../support/instances.ts';

/** The number of seeds: SOAK_ROUNDS=100 npm run test:soak. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 2);
/** The first seed: SOAK_SEED=… npm run test:soak. */
const first = Number(process.env.SOAK_SEED ?? Date.now() % 2 ** 31);
const SEED_TIMEOUT_MS = 30 * 60_000;
/** The memory for a plant in this process: in the log, the views, the log lines and the test. */
const BYTES_PER_PLANT = 8 * 1_024;
/** The memory for code that has not run before. */
const CODE_BYTES = 8 * 1_024 ** 2;

/** The memory in use after a garbage collection, in bytes. */
function heap(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}

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
    expect(heap() - heapBefore).toBeLessThan(plants * BYTES_PER_PLANT + CODE_BYTES);
  },
  rounds * SEED_TIMEOUT_MS,
);

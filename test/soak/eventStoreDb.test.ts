import fc from 'fast-check';
import { expect, test } from 'vitest';
import { heap, mayUse } from '../support/heap.ts';
import {
  expectConsistent,
  expectRecovery,
  FAULTS,
  injectAndHeal,
  Load,
  resourcesInUse,
  twoInstances,
} from '../support/load.ts';
import { startFakeServer } from '../support/stores.ts';

/** The number of rounds of all faults: SOAK_ROUNDS=10 npm run test:soak. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 2);
/** The seed that repeats the same faults in the same order: SOAK_SEED=… npm run test:soak. */
const seed = Number(process.env.SOAK_SEED ?? Date.now() % 2 ** 31);
/** The timeout of a round, which takes half a minute. */
const ROUND_TIMEOUT_MS = 30 * 60_000;
/** The maximum number of plants created between two faults. */
const MAX_PLANTS_BETWEEN = 100;

test(
  `two instances under load survive ${rounds} rounds of all faults (seed ${seed})`,
  async () => {
    const server = await startFakeServer();
    const instances = await twoInstances(server.url);
    const load = new Load({ instances, log: server.log, pauseMs: 100 });
    await load.more();
    const { expectNoMore } = resourcesInUse();
    const heapBefore = heap();

    const all = Object.values(FAULTS);
    const inAnyOrder = fc.shuffledSubarray(all, { minLength: all.length });
    const between = fc.integer({ min: 0, max: MAX_PLANTS_BETWEEN });
    let injected = 0;
    for (let round = 0; round < rounds; round++) {
      const [faults = []] = fc.sample(inAnyOrder, { numRuns: 1, seed: seed + round });
      const plants = fc.sample(between, { numRuns: faults.length, seed: seed + round });
      for (const [i, fault] of faults.entries()) {
        await injectAndHeal(fault, { server, instances, load });
        await load.more(plants[i]);
        injected++;
      }
    }

    await expectRecovery(load);
    await expectConsistent(load, { instances, nodes: [server] });
    await expectNoMore();
    const plants = load.acknowledged.size;
    const growth = heap() - heapBefore;
    console.info(
      `${injected} faults, ${plants} plants, ${load.refused} times 503, ` +
        `the heap has grown by ${Math.round(growth / 1_024)} KiB (seed ${seed})`,
    );
    expect(growth).toBeLessThan(mayUse(plants));
  },
  rounds * ROUND_TIMEOUT_MS,
);

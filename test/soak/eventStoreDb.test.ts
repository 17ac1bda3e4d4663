import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startDouble } from '../copy/logs.ts';
import {
  belongings,
  expectRecovery,
  expectUnharmed,
  FAULTS,
  Load,
  meet,
  twoInstances,
} from '../support/load.ts';

/** So often does each fault happen: SOAK_ROUNDS=10 npm run test:soak. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 2);
/** The same faults again, in the same order: SOAK_SEED=… npm run test:soak. */
const seed = Number(process.env.SOAK_SEED ?? Date.now() % 2 ** 31);
/** A round takes half a minute; one that has not ended after so many milliseconds hangs. */
const HANGS_AFTER_MS = 30 * 60_000;
/** Plants that are created between two faults, at most. */
const MOST_BETWEEN = 100;
/** What a plant may leave behind in this process, in bytes: in the log, in the views, in the log lines and here. */
const A_PLANT = 8 * 1_024;
/** What the code may take that has not run before, in bytes. */
const CODE = 8 * 1_024 ** 2;

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

function heap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test(
  `two instances under the load of two users take no harm from ${rounds} rounds of all faults (seed ${seed})`,
  async () => {
    const server = await startDouble();
    const instances = await twoInstances(server.url);
    const load = new Load({ instances, log: server.log, rest: 100 });
    await load.more();
    const { expectNoMore } = belongings();
    const heapBefore = heap();

    const all = Object.values(FAULTS);
    const inAnyOrder = fc.shuffledSubarray(all, { minLength: all.length });
    const between = fc.integer({ min: 0, max: MOST_BETWEEN });
    let met = 0;
    for (let round = 0; round < rounds; round++) {
      const [faults = []] = fc.sample(inAnyOrder, { numRuns: 1, seed: seed + round });
      const plants = fc.sample(between, { numRuns: faults.length, seed: seed + round });
      for (const [i, fault] of faults.entries()) {
        await meet(fault, { server, instances, load });
        await load.more(plants[i]);
        met++;
      }
    }

    await expectRecovery(load);
    await expectUnharmed(load, { instances, nodes: [server] });
    await expectNoMore();
    const plants = load.acknowledged.size;
    const growth = heap() - heapBefore;
    console.info(
      `${met} faults, ${plants} plants, ${load.refused} times 503, ` +
        `the heap has grown by ${Math.round(growth / 1_024)} KiB (seed ${seed})`,
    );
    expect(growth).toBeLessThan(plants * A_PLANT + CODE);
  },
  rounds * HANGS_AFTER_MS,
);

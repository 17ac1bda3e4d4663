import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { belongings, expectRecovery, expectUnharmed, FAULTS, Load, twoInstances } from '../support/load.ts';

const MINUTE = 60_000;
/** What a plant may leave behind in this process, in bytes: in the log, in the views, in the log lines and here. */
const A_PLANT = 8 * 1_024;
/** The same faults again: SOAK_SEED=… npm run test:soak. */
const seed = Number(process.env.SOAK_SEED ?? Date.now() % 2 ** 31);

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

function heap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test(`two instances under the load of two users take no harm from a minute of faults (seed ${seed})`, async () => {
  const server = await EventStoreDbDouble.start();
  onTestFinished(() => server.stop());
  const instances = await twoInstances(server.url);
  const load = new Load({ instances, log: server.log, rest: 100 });
  await pause(1_000);
  const { expectNoMore } = belongings();
  const heapBefore = heap();

  const inAnyOrder = fc.shuffledSubarray([...FAULTS], { minLength: FAULTS.length });
  const moment = fc.record({
    lasts: fc.integer({ min: 0, max: 2_500 }),
    rest: fc.integer({ min: 0, max: 1_500 }),
  });
  const until = performance.now() + MINUTE;
  const met: string[] = [];
  for (let round = 0; performance.now() < until; round++) {
    const [faults = []] = fc.sample(inAnyOrder, { numRuns: 1, seed: seed + round });
    const moments = fc.sample(moment, { numRuns: faults.length, seed: seed + round });
    for (const [i, { what, inject, heal, lasts }] of faults.entries()) {
      met.push(what);
      await inject(server);
      await pause(lasts ?? moments[i]?.lasts);
      await heal?.(server);
      await pause(moments[i]?.rest);
    }
  }

  await expectRecovery(load);
  await expectUnharmed(load, { instances, nodes: [server] });
  await expectNoMore();
  const plants = load.acknowledged.size;
  const growth = heap() - heapBefore;
  console.info(
    `${met.length} faults, ${plants} plants, ${load.refused} times 503, ` +
      `the heap has grown by ${Math.round(growth / 1_024)} KiB (seed ${seed})`,
  );
  expect(new Set(met).size).toBe(FAULTS.length);
  expect(growth).toBeLessThan(plants * A_PLANT);
});

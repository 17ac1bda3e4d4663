import { expect, test } from 'vitest';
import { fakeCluster } from '../checker/fakeCluster.ts';
import { check, type System } from '../checker/run.ts';
import { resourcesInUse } from '../support/instances.ts';

/** CHECKER_SEEDS=500 npm run test:faults -- test/faults/checker.test.ts checks more. */
const SEEDS = Number(process.env.CHECKER_SEEDS ?? 20);
/** Most of the time clients wait. */
const CLUSTERS = 4;
/** Repeats one seed: CHECKER_SEED=7 npm run test:faults -- test/faults/checker.test.ts */
const { CHECKER_SEED } = process.env;

test('two instances over a cluster respond as their log allows, under any fault', async () => {
  const seeds = CHECKER_SEED ? [Number(CHECKER_SEED)] : Array.from({ length: SEEDS }, (_, i) => i + 1);
  const systems = await Promise.all(Array.from({ length: CLUSTERS }, fakeCluster));
  for (const system of systems) await system.heal();
  const reports: string[] = [];
  const checkNext = async (system: System): Promise<void> => {
    const seed = seeds.shift();
    const report = seed === undefined ? undefined : await check(system, seed);
    if (report !== undefined) reports.push(report);
  };
  await Promise.all(systems.map(checkNext)); // also starts every thread
  const { expectNoMore } = resourcesInUse();
  const checkRest = async (system: System): Promise<void> => {
    while (seeds.length > 0 && reports.length === 0) await checkNext(system);
  };
  await Promise.all(systems.map(checkRest));
  expect(reports).toEqual([]);
  await expectNoMore();
});

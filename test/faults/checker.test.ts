import { expect, test } from 'vitest';
import { fakeCluster } from '../checker/fakeCluster.ts';
import { check } from '../checker/run.ts';
import { resourcesInUse } from '../support/instances.ts';

const SEEDS = 20;
/** Most of the time clients wait. */
const CLUSTERS = 4;
/** Repeats one seed: CHECKER_SEED=7 npm run test:faults -- test/faults/checker.test.ts */
const { CHECKER_SEED } = process.env;

test('two instances over a cluster respond as their log allows, whatever fails', async () => {
  const seeds = CHECKER_SEED ? [Number(CHECKER_SEED)] : Array.from({ length: SEEDS }, (_, i) => i + 1);
  const systems = await Promise.all(Array.from({ length: CLUSTERS }, fakeCluster));
  const { expectNoMore } = resourcesInUse();
  const reports: string[] = [];
  const checking = systems.map(async (system) => {
    for (let seed = seeds.shift(); seed !== undefined && reports.length === 0; seed = seeds.shift()) {
      const report = await check(system, seed);
      if (report !== undefined) reports.push(report);
    }
  });
  await Promise.all(checking);
  expect(reports).toEqual([]);
  await expectNoMore();
});

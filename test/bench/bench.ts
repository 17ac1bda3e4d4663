import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureAudit } from './audit.ts';
import { measureFollowing } from './eventStoreDb.ts';
import { addGoals } from './goals.ts';
import { measureLoads } from './loads.ts';
import { watchOthers } from './machine.ts';
import { measureMemory } from './memory.ts';
import { measureTree } from './merkleTree.ts';
import { measureMetrics } from './metrics.ts';
import { type Part, readOptions } from './options.ts';
import { measureRebuild } from './rebuild.ts';
import { report } from './report.ts';
import { type Bench, setUp } from './setUp.ts';
import { measureStart } from './start.ts';

// Measures the service and its contenders in one run: ratios of pairs measured in the same round, so that a
// machine of varying speed affects both alike. `npm run bench -- --help` lists the options.

const LOADS = new Set<Part>(['post', 'connections', 'get', 'eventstoredb']);

const options = readOptions(process.argv);
const dir = mkdtempSync(join(tmpdir(), 'plant-bench-'));
try {
  const bench = await setUp(options, dir);
  const coresOfOthers = watchOthers();
  if (options.memory === undefined) await measureParts(bench);
  else await measureMemory(bench, options.memory);
  report(bench, coresOfOthers());
} finally {
  rmSync(dir, { recursive: true, force: true });
}

async function measureParts(bench: Bench): Promise<void> {
  const { only } = bench.options;
  const eventStoreDb = only.has('eventstoredb') ? process.env.EVENTSTOREDB_URL : undefined;
  if (only.has('rebuild')) await measureRebuild(bench);
  if (only.has('start')) await measureStart(bench);
  if (only.has('audit')) await measureAudit(bench);
  if (only.has('tree')) await measureTree(bench);
  if (only.has('metrics')) await measureMetrics(bench);
  if (eventStoreDb) await measureFollowing(bench, eventStoreDb);
  if (!only.isDisjointFrom(LOADS)) await measureLoads(bench, eventStoreDb);
  addGoals(
    bench.results,
    bench.services.map(({ name }) => name),
  );
}

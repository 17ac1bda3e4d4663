import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureAudit } from './audit.ts';
import { measureFollowing } from './eventStoreDb.ts';
import { addGoals } from './goals.ts';
import { measureLoads } from './loads.ts';
import { type Part, readOptions } from './options.ts';
import { measureRebuild } from './rebuild.ts';
import { report } from './report.ts';
import { nameOf } from './servers.ts';
import { setUp } from './setUp.ts';
import { measureStart } from './start.ts';

// Measures the service and its contenders in one run: ratios of pairs measured in the same round, so that a
// machine of varying speed affects both alike. `npm run bench -- --help` lists the options.

const LOADS = new Set<Part>(['post', 'connections', 'get', 'eventstoredb']);

const options = readOptions(process.argv);
const { only, against } = options;
const eventStoreDb = only.has('eventstoredb') ? process.env.EVENTSTOREDB_URL : undefined;
const dir = mkdtempSync(join(tmpdir(), 'plant-bench-'));
try {
  const bench = await setUp(options, dir);
  if (only.has('rebuild')) await measureRebuild(bench);
  if (only.has('start')) await measureStart(bench);
  if (only.has('audit')) await measureAudit(bench);
  if (eventStoreDb) await measureFollowing(bench, eventStoreDb);
  if (!only.isDisjointFrom(LOADS)) await measureLoads(bench, eventStoreDb);
  addGoals(bench.results, against && nameOf(against));
  report(bench);
} finally {
  rmSync(dir, { recursive: true, force: true });
}

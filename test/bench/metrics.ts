import { freePort, startService } from './contender.ts';
import { measureLoad } from './load.ts';
import { getName, MAIN_CONNECTIONS, postName, WITH_METRICS, WITHOUT_METRICS } from './names.ts';
import { type Job, runRounds } from './rounds.ts';
import { named } from './servers.ts';
import { type Bench, POSTING_USERS } from './setUp.ts';

/** As observe/prometheus.yml. */
const SCRAPE_INTERVAL_MS = 15_000;

/** Measures what metrics cost: POST and GET with them, which are scraped, and without them, interleaved. */
export async function measureMetrics(bench: Bench): Promise<void> {
  const { keyFile, emptyLog, options, results } = bench;
  await using resources = new AsyncDisposableStack();
  const start = (name: string, env: Record<string, string>) =>
    named(name, startService({ DATA_DIR: emptyLog(), KEY_FILE: keyFile, ...env }), resources);
  const port = await freePort();
  const servers = [await start(WITH_METRICS, { METRICS_PORT: `${port}` }), await start(WITHOUT_METRICS, {})];
  const scrape = async (): Promise<void> => {
    const { ok } = await fetch(`http://127.0.0.1:${port}/metrics`);
    if (!ok) throw new Error('the metrics cannot be read');
  };
  const timer = setInterval(scrape, SCRAPE_INTERVAL_MS);
  resources.defer(() => clearInterval(timer));
  const load = { connections: MAIN_CONNECTIONS, users: POSTING_USERS };
  const jobs = servers.flatMap(({ name, contender }): Job[] => [
    { name: postName(name), measure: () => measureLoad(bench, contender, { method: 'POST', ...load }) },
    { name: getName(name), measure: () => measureLoad(bench, contender, { method: 'GET', ...load }) },
  ]);
  await runRounds(jobs, options.rounds, results);
}

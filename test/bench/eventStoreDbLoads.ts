import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import { issueToken } from '../../src/tokens/issueToken.ts';
import { ROOT } from './checkout.ts';
import { startService } from './contender.ts';
import type { Rate } from './load.ts';
import { ADAPTER_ALONE, CLIENT_ALONE, ON_EVENTSTOREDB } from './names.ts';
import type { Job } from './rounds.ts';
import { named, type Server } from './servers.ts';
import type { Bench } from './setUp.ts';

const run = promisify(execFile);
const VISIBILITY_SAMPLES = 300;

/** Starts the service on EventStoreDB, with a new view. */
export function startOnEventStoreDb(
  { keyFile, emptyLog }: Bench,
  resources: AsyncDisposableStack,
  url: string,
): Promise<Server> {
  const env = { DATA_DIR: emptyLog(), KEY_FILE: keyFile, EVENTSTOREDB_URL: url };
  return named(ON_EVENTSTOREDB, startService(env), resources);
}

/** Appends by the client alone, and by the adapter alone, each in its own process. */
export function appendAlone(bench: Bench, url: string, users: number): Job[] {
  const appends = (name: string, through: string): Job => {
    const args = ['test/bench/appendAlone.ts', url, `${users}`, '0', `${bench.options.seconds}`, through];
    return { name, measure: () => measureAppends(args) };
  };
  return [appends(CLIENT_ALONE, 'client'), appends(ADAPTER_ALONE, 'adapter')];
}

async function measureAppends(args: string[]): Promise<Rate> {
  const { stdout } = await run(process.execPath, args, { cwd: ROOT });
  const [p50, p99, max] = [Number.NaN, Number.NaN, Number.NaN];
  return { p50, p99, loopDelay: { p99, max }, ...JSON.parse(stdout) };
}

/** Measures the time from the response to a POST on one instance until a GET on another returns the plant. */
export async function measureVisibility(bench: Bench, url: string, from: Server): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const to = await startOnEventStoreDb(bench, resources, url);
  const { privateKey } = loadOrCreateKey(bench.keyFile);
  const taken: number[] = [];
  for (let i = 0; i < VISIBILITY_SAMPLES; i++) {
    const subject = `visitor-${performance.now()}-${i}`;
    const token = await issueToken(privateKey, { subject, lifetime: '1h' });
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const look = async (): Promise<unknown[]> =>
      (await fetch(`${to.contender.url}/plants`, { headers })).json() as Promise<unknown[]>;
    await look(); // the token's signature is verified before the measurement
    await fetch(`${from.contender.url}/plants`, { method: 'POST', headers, body: '{"id":1,"name":"Fern"}' });
    const respondedAt = performance.now();
    while ((await look()).length === 0);
    taken.push(performance.now() - respondedAt);
  }
  taken.sort((a, b) => a - b);
  const name = 'EventStoreDB: ms from a POST here to the plant there';
  bench.results.addFigure(name, '', taken);
  bench.results.addFigure(`${name}, p99`, '', taken.slice(Math.floor(taken.length * 0.99)).slice(0, 1));
}

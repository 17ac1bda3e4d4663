import { setTimeout as pause } from 'node:timers/promises';
import { type Contender, cpuTime, startLoopDelay, stopLoopDelay } from './contender.ts';
import type { LoopDelay } from './eventLoopDelay.ts';
import type { Load } from './generator.ts';
import type { Bench } from './setUp.ts';

/**
 * Requests per second; `cpu`: CPU time of all the server's threads per request, in microseconds; latencies
 * and the delay of the server's event loop in milliseconds.
 */
export type Rate = { perSecond: number; cpu: number; p50: number; p99: number; loopDelay: LoopDelay };

/** The service saves its view up to a second later: that belongs to the load, and not to the next one. */
const SAVE_TIMEOUT_MS = 1_500;

/**
 * Puts a server under load: plants are created with new IDs, or 100 plants are listed.
 * @throws Error if a request failed
 */
export async function measureLoad(
  { generator, tokenFile, options }: Bench,
  server: Contender,
  {
    seconds = options.seconds,
    ...rest
  }: Pick<Load, 'method' | 'connections' | 'users'> & { seconds?: number },
): Promise<Rate> {
  const url = `${server.url}/plants${rest.method === 'GET' ? '?limit=100' : ''}`;
  // Larger than the IDs of earlier loads, which had fewer than 100 a millisecond. With a digit more, the body
  // parser would take its slow path.
  const firstId = Date.now() * 100;
  const before = cpuTime(server);
  startLoopDelay(server);
  const { requests, failed, ...sent } = await generator.send({ ...rest, url, seconds, tokenFile, firstId });
  await pause(SAVE_TIMEOUT_MS);
  const loopDelay = await stopLoopDelay(server);
  const cpu = (1_000 * (cpuTime(server) - before)) / requests;
  if (requests === 0 || Object.values(failed).some((count) => count > 0))
    throw new Error(`${rest.method} ${url}: ${requests} requests, of which failed ${JSON.stringify(failed)}`);
  return { perSecond: requests / sent.seconds, cpu, p50: sent.p50, p99: sent.p99, loopDelay };
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import autocannon from 'autocannon';
import type { RequestContext } from './request.ts';

/** Latency in milliseconds; `cpu`: microseconds of all threads for a request or an event. */
export type Sample = { perSecond: number; p99: number; cpu: number };
export type Load = {
  method: 'GET' | 'POST';
  query?: string;
  connections: number;
  seconds: number;
  tokenFile: string;
};
type Env = Record<string, string>;
export type Server = { url: string; pid: number };

/** The service saves its view up to a second later: that is part of the load, and not of the next one. */
const SAVE_TIMEOUT_MS = 1_500;
const USER_HZ = 100;

/** A server as a process, without its log lines. */
export async function startServer(
  root: string,
  entry: string,
  env: Env,
): Promise<Server & { stop: () => Promise<void> }> {
  const port = await freePort();
  const options = { cwd: root, env: { ...process.env, ...env, PORT: `${port}` } };
  const child = spawn(process.execPath, [entry], { ...options, stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${entry} ended with ${child.exitCode}`);
    // A server without this route is ready when it responds.
    const response = await fetch(`${url}/health/ready`).catch(() => undefined);
    if (response && response.status !== 503) break;
    await pause(20);
  }
  const stop = async (): Promise<void> => {
    child.kill();
    await once(child, 'exit');
  };
  return { url, pid: child.pid as number, stop };
}

/** Creates plants with new IDs, or lists plants, each request as another user. @throws Error if a request failed */
export async function measureLoad({ url, pid }: Server, load: Load): Promise<Sample> {
  const { method, query = '', connections, seconds, tokenFile } = load;
  const workers = Math.min(2, connections); // autocannon takes more CPU than the server
  // Later loads have larger IDs: none creates 100 plants a millisecond.
  const initialContext: RequestContext = { tokenFile, workers, firstId: Date.now() * 100 };
  const before = cpuMicroseconds(pid);
  const { errors, non2xx, duration, latency, ...result } = await autocannon({
    url: `${url}/plants${query}`,
    connections,
    duration: seconds,
    workers,
    initialContext,
    requests: [{ method, setupRequest: join(import.meta.dirname, 'request.ts') }],
  });
  const requests = result['2xx'];
  if (requests === 0 || errors + non2xx > 0)
    throw new Error(`${method} ${url}: ${requests} succeeded, ${errors} errors, ${non2xx} error responses`);
  await pause(SAVE_TIMEOUT_MS);
  const cpu = (cpuMicroseconds(pid) - before) / requests;
  return { perSecond: requests / duration, p99: latency.p99, cpu };
}

/** Runs a command to its end over a log of this number of events. @throws Error if it failed */
export async function measureCommand(
  root: string,
  args: string[],
  events: number,
  env: Env,
): Promise<Sample> {
  const before = cpuMicroseconds('self');
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`);
  const perSecond = (1_000 * events) / (performance.now() - startedAt);
  return { perSecond, p99: Number.NaN, cpu: (cpuMicroseconds('self') - before) / events };
}

/** The CPU time of a process, or of the ended children of this one; NaN where there is no /proc. */
function cpuMicroseconds(pid: number | 'self'): number {
  const file = `/proc/${pid}/stat`;
  const fields = existsSync(file) ? readFileSync(file, 'utf8').split(') ').at(-1)?.split(' ') : undefined;
  const [user, system] = pid === 'self' ? [13, 14] : [11, 12];
  return ((Number(fields?.[user]) + Number(fields?.[system])) * 1e6) / USER_HZ;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  await new Promise((closed) => server.close(closed));
  return port;
}

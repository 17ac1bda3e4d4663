import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { RequestContext } from './request.ts';

/** Latency in milliseconds; `cpu`: microseconds of all threads for a request or an event. */
export type Sample = { perSecond: number; p99: number; cpu: number };
type Load = {
  method: 'GET' | 'POST';
  query?: string;
  connections: number;
  seconds: number;
  tokenFile: string;
};
type Server = { url: string; pid: number };
/** What Node runs in a checkout, without its log lines. */
export type Process = { root: string; args: string[]; env?: Record<string, string> };

/** The service saves its view up to a second later: that is part of the load, and not of the next one. */
const SAVE_TIMEOUT_MS = 1_500;
const USER_HZ = 100;

const launch = ({ root, args, env }: Process) =>
  spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });

/** Starts a server, and waits until it is ready. */
export async function startServer({ env, ...options }: Process) {
  const port = await freePort();
  const child = launch({ ...options, env: { ...env, PORT: `${port}` } });
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${options.args} ended with ${child.exitCode}`);
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
  const { default: autocannon } = await import('autocannon');
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
export async function measureCommand(command: Process, events: number): Promise<Sample> {
  const before = cpuMicroseconds('self');
  const startedAt = performance.now();
  const [code] = await once(launch(command), 'exit');
  if (code !== 0) throw new Error(`${command.args.join(' ')} ended with ${code}`);
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
  await using server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as { port: number }).port;
}

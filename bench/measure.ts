import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { freePort } from '../packages/node/src/testing/index.ts';
import type { Latencies } from './latency.ts';
import type { RequestContext } from './request.ts';

/**
 * Latencies in milliseconds; `cpu`: microseconds of all threads for a request or an event; `memory`: MiB after it
 * (proportional set size). CPU and memory are of the server, its backends and their child processes.
 */
export type Sample = { perSecond: number; p50: number; p99: number; cpu: number; memory: number };
type Load = {
  method: 'GET' | 'POST';
  query?: string;
  connections: number;
  seconds: number;
  tokenFile: string;
};
/** `backends`: the processes of its database. */
export type Server = { url: string; pid: number; backends?: number[] };
/** What Node runs in a checkout, without its log lines. */
export type Process = { root: string; args: string[]; env?: Record<string, string> };

/** The service saves its view up to a second later: the save is part of this load, not of the next. */
const SAVE_TIMEOUT_MS = 1_500;
const POLL_MS = 100;
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

/** Sends a request as the first user of a file of tokens. */
export function request(url: string, path: string, tokenFile: string): Promise<Response> {
  const [token] = readFileSync(tokenFile, 'utf8').split('\n');
  return fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
}

/** Waits for the first checkpoint, which covers the log of the start: its views have caught up, and the tree last. */
export async function untilSigned(url: string, auditor: string): Promise<void> {
  while ((await request(url, '/checkpoint', auditor)).status === 503) await pause(POLL_MS);
}

/** Creates plants with new IDs, or lists plants, each request as another user. @throws Error if a request failed */
async function run({ url }: Server, load: Load, more = {}) {
  const { method, query = '', connections, seconds: duration, tokenFile } = load;
  const workers = Math.min(2, connections); // autocannon takes more CPU than the server
  // Later loads have larger IDs: none creates 100 plants a millisecond.
  const initialContext: RequestContext = { tokenFile, workers, firstId: Date.now() * 100 };
  const { default: autocannon } = await import('autocannon');
  const requests = [{ method, setupRequest: join(import.meta.dirname, 'request.ts') as never }];
  const options = { url: `${url}/plants${query}`, connections, duration, workers, initialContext, requests };
  const { errors, non2xx, ...result } = await autocannon({ ...options, ...more });
  const succeeded = result['2xx'];
  if (succeeded === 0 || errors + non2xx > 0)
    throw new Error(`${method} ${url}: ${succeeded} succeeded, ${errors} errors, ${non2xx} error responses`);
  return { requests: succeeded, duration: result.duration };
}

/** Measures a load beside other loads; their requests only count for the CPU. @throws Error if a request failed */
export async function measureLoad(server: Server, load: Load, others: readonly Load[] = []): Promise<Sample> {
  const { pid, backends = [] } = server;
  const latencies = createHistogram();
  const histograms: RecordableHistogram[] = [];
  const listen = (worker: Worker) =>
    worker.on('message', (message: Partial<Latencies>) => {
      if (message.latencies) histograms.push(message.latencies);
    });
  process.on('worker', listen);
  const before = cpuMicroseconds([pid, ...backends]);
  const setupClient = join(import.meta.dirname, 'latency.ts'); // a path, for workers
  const [{ requests, duration }, ...beside] = await Promise.all([
    run(server, load, { setupClient }),
    ...others.map((other) => run(server, other)),
  ]);
  process.off('worker', listen);
  await pause(SAVE_TIMEOUT_MS);
  for (const histogram of histograms) latencies.add(histogram);
  return {
    perSecond: requests / duration,
    p50: latencies.percentile(50) / 1_000,
    p99: latencies.percentile(99) / 1_000,
    cpu:
      (cpuMicroseconds([pid, ...backends]) - before) / sum([{ requests }, ...beside], (one) => one.requests),
    memory: memoryMiB([pid, ...backends]),
  };
}

/** Starts a server over a log of this number of events until its views have caught up with it. */
export async function measureStart(process: Process, events: number): Promise<Sample> {
  const startedAt = performance.now();
  const { pid, stop } = await startServer(process);
  const perSecond = (1_000 * events) / (performance.now() - startedAt);
  const cpu = cpuMicroseconds([pid]) / events;
  const memory = memoryMiB([pid]);
  await stop();
  return { perSecond, p50: Number.NaN, p99: Number.NaN, cpu, memory };
}

/** Runs a command to its end over a log of this number of events. @throws Error if it failed */
export async function measureCommand(command: Process, events: number): Promise<Sample> {
  const before = cpuOfChildren();
  const startedAt = performance.now();
  const [code] = await once(launch(command), 'exit');
  if (code !== 0) throw new Error(`${command.args.join(' ')} ended with ${code}`);
  const perSecond = (1_000 * events) / (performance.now() - startedAt);
  const cpu = (cpuOfChildren() - before) / events;
  return { perSecond, p50: Number.NaN, p99: Number.NaN, cpu, memory: Number.NaN };
}

/** The CPU time of processes and their running and ended children; NaN without /proc. */
const cpuMicroseconds = (pids: number[]): number =>
  sum(pids.flatMap(processTree), (pid) => sum([11, 12, 13, 14], (field) => cpuTime(pid, field)));

/** The CPU time of the ended children of this process. */
const cpuOfChildren = (): number => sum([13, 14], (field) => cpuTime('self', field));

/** Shared memory is divided among the processes that share it; NaN without permission to read it. */
export const memoryMiB = (pids: number[]): number =>
  sum(pids.flatMap(processTree), (pid) =>
    Number(/^Pss: +(\d+)/m.exec(readIfExists(`/proc/${pid}/smaps_rollup`))?.[1]),
  ) / 1_024;

/** A process, and the processes that its main thread has started. */
function processTree(pid: number): number[] {
  const children = readIfExists(`/proc/${pid}/task/${pid}/children`).match(/\d+/g) ?? [];
  return [pid, ...children.flatMap((child) => processTree(Number(child)))];
}

function cpuTime(pid: number | 'self', field: number): number {
  const fields = readIfExists(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ');
  return (Number(fields?.[field]) * 1e6) / USER_HZ;
}

const sum = <T>(values: readonly T[], of: (value: T) => number): number =>
  values.reduce((total, value) => total + of(value), 0);

const readIfExists = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');

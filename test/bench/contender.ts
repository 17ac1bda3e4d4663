import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ROOT } from './checkout.ts';
import type { LoopDelay } from './eventLoopDelay.ts';

const EVENT_LOOP_DELAY = fileURLToPath(new URL('eventLoopDelay.ts', import.meta.url));

/** A measured server in its own process, without its logs. */
export type Contender = { url: string; process: ChildProcess };

type Env = Record<string, string>;

/** Starts the service of a checkout, this one by default. */
export function startService(env: Env, root = ROOT): Promise<Contender> {
  return startContender(['src/main.ts'], env, root);
}

export async function startContender(args: string[], env: Env, cwd = ROOT): Promise<Contender> {
  const port = await freePort();
  const { EVENTSTOREDB_URL: _, ...inherited } = process.env; // only for contenders whose env has it
  const child = spawn(process.execPath, ['--import', EVENT_LOOP_DELAY, ...args], {
    cwd,
    env: { ...inherited, ...env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(url, child);
  return { url, process: child };
}

export async function stopContender({ process: child }: Contender): Promise<void> {
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** CPU time of all threads of the process, in milliseconds; NaN if the system does not provide it. */
export function cpuTime({ process: child }: Contender): number {
  const fields = procFile(child, 'stat').split(') ')[1]?.split(' ') ?? [];
  const CLOCK_TICK = 10; // USER_HZ is 100 wherever Node runs on Linux
  return (Number(fields[11]) + Number(fields[12])) * CLOCK_TICK;
}

/** The process's resident set, in MiB; NaN if the system does not provide it. */
export function residentMemory({ process: child }: Contender): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(procFile(child, 'status'))?.[1]) / 1024;
}

/** Starts to measure the delay of the contender's event loop. */
export function startLoopDelay({ process: child }: Contender): void {
  child.send('start');
}

/** The delay of the contender's event loop since the start of the measurement. */
export async function stopLoopDelay({ process: child }: Contender): Promise<LoopDelay> {
  const reply = once(child, 'message') as Promise<[LoopDelay]>;
  child.send('stop');
  return (await reply)[0];
}

function procFile({ pid }: ChildProcess, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const response = await fetch(`${url}/health/ready`).catch(() => undefined);
    // Contenders without a health route are ready when they respond.
    if (response && response.status !== 503) return;
    await pause(5);
  }
  throw new Error(`the server ended with ${child.exitCode}`);
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

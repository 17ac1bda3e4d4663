import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** A measured server in its own process, without its logs. */
export type Contender = { url: string; process: ChildProcess };

type Env = Record<string, string>;

export async function startContender(script: string, args: string[], env: Env): Promise<Contender> {
  const port = await freePort();
  const { EVENTSTOREDB_URL: _, ...inherited } = process.env; // only for contenders whose env has it
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...inherited, ...env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'inherit'],
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
  try {
    const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const CLOCK_TICK = 10; // USER_HZ is 100 wherever Node runs on Linux
    return (Number(fields[11]) + Number(fields[12])) * CLOCK_TICK;
  } catch {
    return Number.NaN;
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

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

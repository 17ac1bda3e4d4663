import { spawn } from 'node:child_process';
import { once } from 'node:events';

const TIMEOUT_MS = 60_000;

/** Runs a program with a text on its standard input. It does not get the token. @throws Error if it fails */
export async function runOnAlarm(program: string, text: string, timeout = TIMEOUT_MS): Promise<void> {
  const running = spawn(program, [], {
    env: { ...process.env, TOKEN: undefined },
    stdio: ['pipe', 'ignore', 'ignore'],
    timeout,
    killSignal: 'SIGKILL',
  });
  running.stdin.on('error', () => {}); // the program need not read its input
  running.stdin.end(text);
  const [code, signal] = await once(running, 'exit');
  running.stdin.destroy(); // a child of the program may keep it open
  if (signal) throw new Error(`ended by ${signal}, the timeout is ${timeout / 1_000} s`);
  if (code !== 0) throw new Error(`exit code ${code}`);
}

import { spawn } from 'node:child_process';

const TIMEOUT_MS = 60_000;

/** Runs a program with a text on its standard input; returns why it failed, or undefined. It does not get the token. */
export function runOnAlarm(program: string, text: string, timeout = TIMEOUT_MS): Promise<string | undefined> {
  return new Promise((resolve) => {
    const running = spawn(program, [], {
      env: { ...process.env, TOKEN: undefined },
      stdio: ['pipe', 'ignore', 'ignore'],
      timeout,
      killSignal: 'SIGKILL',
    });
    running.once('error', ({ message }) => resolve(message));
    running.once('exit', (code, signal) => {
      running.stdin.destroy(); // a process that it has started may hold it open
      if (signal) resolve(`ended by ${signal}, as after ${timeout / 1_000} s`);
      else resolve(code === 0 ? undefined : `exit code ${code}`);
    });
    running.stdin.on('error', () => {}); // it need not read
    running.stdin.end(text);
  });
}

import { handleSignals } from '@event-sourced/event-log/process';
import { type Config, readConfig } from '../config.ts';
import type { Context } from './context.ts';

const CLEANUP_TIMEOUT_MS = 5_000;

/** Runs a command; a signal stops it, and then ends the process. @throws what the command throws */
export async function runCommand(
  command: (context: Context) => Promise<void>,
  process: NodeJS.Process,
): Promise<void> {
  process.umask(0o077);
  const print = (line: string): void => void process.stderr.write(`${line}\n`);
  const stopping = new AbortController();
  let stoppedBy: NodeJS.Signals | undefined;
  /** Ends the process as one without a handler ends, so that a shell reports the signal. */
  const endBySignal = (signal: NodeJS.Signals): void => {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  };
  handleSignals(process, {
    stop: (signal) => {
      stoppedBy = signal;
      stopping.abort(new Error(`stopped by ${signal}`));
    },
    force: endBySignal,
    timeoutMs: CLEANUP_TIMEOUT_MS,
  });
  let config: Config | undefined;
  const context: Context = {
    get config() {
      config ??= readConfig(process.env);
      return config;
    },
    env: process.env,
    input: process.stdin,
    output: process.stdout,
    print,
    onTerminal: process.stderr.isTTY === true,
    signal: stopping.signal,
    onFatal: ({ message }) => {
      print(message);
      process.exit(1);
    },
  };
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {}); // the write that failed rejects
  try {
    await command(context);
  } catch (error) {
    // The reader has closed the pipe, as in `… | head`.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return;
    if (!stoppedBy) throw error;
  } finally {
    if (stoppedBy) endBySignal(stoppedBy);
  }
}

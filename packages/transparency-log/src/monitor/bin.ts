#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { checkProof } from './checkProof.ts';
import { addMonitorCommands } from './commands.ts';

// transparency-log monitor --url … --key … --state …; transparency-log check-proof --key … < FILE.tlog-proof;
// transparency-log witness --key … --name … --logs … --state …

/** A witness that is running; a signal ends the process after it has closed. */
let witness = Promise.resolve();
const stopping = new AbortController();
process.umask(0o077);
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, async () => {
    stopping.abort(new Error(`stopped by ${signal}`));
    await witness.catch(() => {});
    process.kill(process.pid, signal);
  });

const write = (text: string): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });

// A reader that has gone, as in `… | head`: the write that failed rejects, and a witness goes on.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

const print = (line: string): void => void process.stderr.write(`${line}\n`);

const program = new Command('transparency-log')
  .description('Check a transparency log (https://c2sp.org/tlog-tiles) from anywhere.')
  .exitOverride();
addMonitorCommands(program, {
  checkProof: async (options) => write(`${await checkProof(process.stdin, options, print)}\n`),
  monitor: async (options) => {
    const { monitorLog } = await import('./monitor.ts');
    await monitorLog(options, { token: process.env.TOKEN, write, print, signal: stopping.signal });
  },
  witness: async (options) => {
    const { runWitness } = await import('../witness/witnessCommand.ts');
    witness = runWitness(options, { write, print, signal: stopping.signal });
    return witness;
  },
});
program.parseAsync().catch((error: Error & { exitCode?: number }) => {
  if (!(error instanceof CommanderError || stopping.signal.aborted)) print(error.message);
  process.exitCode = error.exitCode ?? 1;
});

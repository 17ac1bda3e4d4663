import { errorText } from '@event-sourced/node/cli';
import { runUntilSignal } from '@event-sourced/node/process';
import { CommanderError } from 'commander';
import { commandLine } from './commandLine.ts';

export { commandLine } from './commandLine.ts';

/** Runs the command in the arguments of the process. A signal stops the command, then ends the process. */
export async function main(process: NodeJS.Process): Promise<void> {
  process.umask(0o077);
  const { argv, env, stdin: input, stdout, stderr } = process;
  const print = (line: string): void => void stderr.write(`${line}\n`);
  const write = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      stdout.write(text, (error) => (error ? reject(error) : resolve()));
    });
  try {
    await runUntilSignal(process, async (signal) => {
      await commandLine({ env, input, write, print, signal }).parseAsync(argv);
    });
  } catch (error) {
    const { exitCode = 1 } = error as { exitCode?: number };
    if (!(error instanceof CommanderError)) print(errorText(error as Error)); // Commander has already printed its own errors
    process.exitCode = exitCode;
  }
}

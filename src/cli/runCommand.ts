import { runUntilSignal } from '@event-sourced/node/process';
import { type Config, readConfig, useTempDir } from '../config.ts';
import type { Context } from './context.ts';

/** Runs a command. A signal stops the command, then ends the process. @throws the command's error */
export async function runCommand(
  command: (context: Context) => Promise<void>,
  process: NodeJS.Process,
): Promise<void> {
  process.umask(0o077);
  const print = (line: string): void => void process.stderr.write(`${line}\n`);
  let config: Config | undefined;
  await runUntilSignal(process, (signal) =>
    command({
      get config() {
        if (config) return config;
        config = readConfig(process.env);
        useTempDir(process.env, config);
        return config;
      },
      env: process.env,
      output: process.stdout,
      print,
      onTerminal: process.stderr.isTTY === true,
      signal,
      onFatal: ({ message }) => {
        print(message);
        process.exit(1);
      },
    }),
  );
}

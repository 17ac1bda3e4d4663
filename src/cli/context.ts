import type { Writable } from 'node:stream';
import type { EventLog, Logger } from '@event-sourced/event-log';
import type { LogReaderOptions } from '@event-sourced/event-log/sqlite';
import pino from 'pino';
import type { Config } from '../config.ts';
import { openLog } from '../stores.ts';

export type Context = {
  config: Config;
  env: NodeJS.ProcessEnv;
  /** For data only; see `print`. */
  output: Writable;
  /** Prints a line for the user of the command, on standard error. */
  print: (line: string) => void;
  onTerminal: boolean;
  /** Aborts when the command must stop, for example after Ctrl-C. */
  signal: AbortSignal;
  /** Called when durability can no longer be guaranteed; the process must end. */
  onFatal: (error: Error) => void;
};

/** A logger that prints warnings for the user of a command. */
export function loggerTo(print: (line: string) => void): Logger {
  const write = (line: string): void => {
    const { msg, err, reason = err?.message } = JSON.parse(line);
    print(reason === undefined ? msg : `${msg} (${reason})`);
  };
  return pino({ level: 'warn' }, { write });
}

/** Opens the configured log for reading; `resources` closes it. @throws Error for the operator */
export async function useLog(
  resources: AsyncDisposableStack,
  { config, print }: Context,
  options: LogReaderOptions = {},
): Promise<EventLog> {
  const log = await openLog(config, { logger: loggerTo(print), ...options });
  resources.defer(() => log.close());
  return log;
}

/** Writes data at the pace of its reader. */
export async function write(output: Writable, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    output.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

import type { Readable, Writable } from 'node:stream';
import type { Config } from '../config.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import type { Reading } from '../eventStore/sqliteReading.ts';
import { logTo, openLogForReading } from '../openStore.ts';

/** What a command gets of the process it runs in. */
export type Surroundings = {
  config: Config;
  /** Data, and nothing else. */
  output: Writable;
  input: Readable;
  /** A line for the person who typed the command. */
  say: (line: string) => void;
  /** Whether that person looks at a terminal. */
  onTerminal: boolean;
  /** Aborts when the command has to end, as after Ctrl-C. */
  signal: AbortSignal;
  /** The disk can no longer be trusted; the process must end. */
  onFatal: (error: Error) => void;
};

/** Opens the configured log for reading until `open` is disposed of. @throws Error with a message for an operator */
export async function openLogUntil(
  open: AsyncDisposableStack,
  { config, say }: Surroundings,
  reading: Reading = {},
): Promise<EventLog> {
  const log = await openLogForReading(config, { log: logTo(say), ...reading });
  open.defer(() => log.close());
  return log;
}

/** Writes data, at the pace of its reader. */
export async function write(output: Writable, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    output.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

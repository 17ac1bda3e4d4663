import { once } from 'node:events';
import { copyLog } from '@event-sourced/event-log/copy';
import { rootOfLog } from '@event-sourced/transparency-log/entries';
import { type LogLocation, STREAMS } from '../stores.ts';
import { type Context, loggerTo, write } from './context.ts';
import { isSameLocation, parseLocation, useStoreAt } from './eventLogLocation.ts';
import { commandProgress } from './progress.ts';

type Options = { from: string; to: string };

/**
 * Copies the whole log, compares both logs, and prints the result in one line. A signal stops it at once, and the next
 * copy continues from there. @throws Error for the operator, without passwords
 */
export async function copyCommand(options: Options, context: Context): Promise<void> {
  const { output, signal } = context;
  const [from, to] = [parseLocation('--from', options.from), parseLocation('--to', options.to)];
  if (isSameLocation(from, to)) throw new Error('--from and --to are the same location');
  signal.throwIfAborted();
  const stopped = once(signal, 'abort').then(() => Promise.reject(signal.reason));
  const result = await Promise.race([copy(from, to, context), stopped]);
  await write(output, `${result}\n`);
}

async function copy(
  from: LogLocation,
  to: LogLocation,
  { print, onFatal, signal }: Context,
): Promise<string> {
  const options = { logger: loggerTo(print), onFatal };
  await using resources = new AsyncDisposableStack();
  const open = (location: LogLocation, option: string) =>
    useStoreAt(location, { ...options, mustExist: option === '--from' }, resources).catch(prefix(option));
  const log = (await open(from, '--from')).forHashing;
  const store = await open(to, '--to');
  const progress = commandProgress(print);
  const { events, copied } = await copyLog({
    from: log,
    to: store,
    prefix: STREAMS.prefix,
    onProgress: (done) => progress.show(done),
  });
  const [source, target] = await Promise.all(
    [log, store.forHashing].map((log) => rootOfLog(log, signal, events)),
  );
  if (source?.root !== target?.root)
    throw new Error(`the Merkle roots differ: ${source?.root} of the source, ${target?.root} of the target`);
  const done = copied === 0 ? 'nothing to copy' : `copied ${copied} events`;
  return `${done}: both logs have the same ${events} events`;
}

const prefix =
  (option: string) =>
  (error: Error): never => {
    if (error.message.includes(option)) throw error;
    throw new Error(`${option}: ${error.message}`, { cause: error });
  };

import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { copyLog } from '../copy/copyLog.ts';
import { isSame, openLog, type Place, placeOf } from '../copy/openLog.ts';
import { logTo } from '../openStore.ts';
import { showProgress } from './showProgress.ts';
import { type Surroundings, write } from './surroundings.ts';

const USAGE = 'npm run copy -- --from <url|dir> --to <url|dir>';

/**
 * Copies the whole log from one place to another, as the command line names them, and prints the result in one line.
 * A signal ends it at once, wherever it is: the next copy continues from there.
 * @throws Error with a message for an operator, which never holds a password
 */
export async function copyCommand(args: string[], surroundings: Surroundings): Promise<void> {
  const { output, signal } = surroundings;
  const places = readPlaces(args);
  signal.throwIfAborted();
  const stopped = once(signal, 'abort').then(() => Promise.reject(signal.reason));
  const result = await Promise.race([copy(places, surroundings), stopped]);
  await write(output, `${result}\n`);
}

async function copy(
  places: Record<'from' | 'to', Place>,
  { say, onTerminal, onFatal }: Surroundings,
): Promise<string> {
  const log = logTo(say);
  await using open = new AsyncDisposableStack();
  const from = await named('--from', openLog(places.from, { mustExist: true, log, onFatal }, open));
  const to = await named('--to', openLog(places.to, { mustExist: false, log, onFatal }, open));
  using progress = showProgress(say, onTerminal);
  const { events, copied } = await copyLog({ from, to, onProgress: progress.show });
  const done = copied === 0 ? 'there was nothing to copy' : `copied ${copied} events`;
  return `${done}: both sides hold the same ${events} events`;
}

function readPlaces(args: string[]): { from: Place; to: Place } {
  const { from = [], to = [] } = read(args);
  if (from.length !== 1 || to.length !== 1) throw new Error(`one --from and one --to are needed: ${USAGE}`);
  const places = { from: place('--from', from[0]), to: place('--to', to[0]) };
  if (isSame(places.from, places.to)) throw new Error(`--from and --to are the same place: ${USAGE}`);
  return places;
}

function read(args: string[]) {
  const option = { type: 'string', multiple: true } as const;
  try {
    return parseArgs({ args, options: { from: option, to: option } }).values;
  } catch {
    throw new Error(`usage: ${USAGE}`); // the parser would quote what it does not expect: a password, perhaps
  }
}

function place(option: string, text = ''): Place {
  try {
    return placeOf(text);
  } catch (error) {
    throw new Error(`${option} ${(error as Error).message}`);
  }
}

async function named<T>(option: string, opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    throw new Error(`${option}: ${(error as Error).message}`);
  }
}

import { TileMismatch } from '../merkle/tiles.ts';
import { Alarm } from './alarm.ts';
import type { Check } from './check.ts';
import { NotChecked } from './notChecked.ts';

const MAX_RETRIES = 5;
const RETRY_INTERVAL_MS = 1_000;

/** The path of the response that an error is about, if another attempt may get another one. */
type PathOf = (error: unknown) => string | undefined;

export const wrongTile: PathOf = (error) =>
  error instanceof TileMismatch ? ([...error.received.keys()][0] ?? '') : undefined;

/** All missing tiles count as one path: a log that lacks many must not prolong the check. */
export const wrongOrMissingTile: PathOf = (error) =>
  error instanceof NotChecked && error.isMissing ? 'missing' : wrongTile(error);

/** Other alarms compare signed checkpoints: they are final. */
export const wrongCheckpoint: PathOf = (error) =>
  error instanceof Alarm && error.kind !== 'fork' && error.kind !== 'withheld' ? 'checkpoint' : undefined;

/** Repeats reads whose responses are wrong. @throws the last error; for tiles, with all responses for its path */
export type Reread = <T>(read: () => Promise<T>, pathOf: PathOf) => Promise<T>;

/**
 * Wrong responses are read again: they may come from a stale instance, a proxy, a cache or a network. A check has a
 * number of retries for each path.
 */
export function rereading({ sleep, onNotice }: Pick<Check, 'sleep' | 'onNotice'>): Reread {
  const failures = new Map<string, number>();
  return async (read, pathOf) => {
    let lastPath: string | undefined;
    let received = new Map<string, Buffer>();
    const notices: string[] = [];
    const print = (): void => notices.forEach(onNotice); // not before the alarm that follows the last attempt
    for (;;) {
      try {
        const result = await read();
        print();
        return result;
      } catch (error) {
        const path = pathOf(error);
        if (path === undefined) {
          print();
          throw error;
        }
        if (path !== lastPath) received = new Map();
        lastPath = path;
        const count = (failures.get(path) ?? 0) + 1;
        failures.set(path, count);
        const isMismatch = error instanceof TileMismatch;
        if (isMismatch) for (const [name, content] of error.received) addCopy(received, name, content);
        if (count > MAX_RETRIES) throw isMismatch ? new TileMismatch(error.message, received) : error;
        if (isMismatch && count === 1)
          notices.push(`a response did not match, and was read again: ${error.message}`);
        await sleep(RETRY_INTERVAL_MS);
      }
    }
  };
}

/** Adds a response for a path under a new name, unless an equal one was received before. */
function addCopy(received: Map<string, Buffer>, path: string, content: Buffer): void {
  let name = path;
  for (let copy = 2; received.has(name); copy++) {
    if (received.get(name)?.equals(content)) return;
    name = `${path}-copy${copy}`;
  }
  received.set(name, content);
}

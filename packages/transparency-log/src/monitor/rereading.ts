import { TileMismatch } from '../merkle/tiles.ts';
import { LogUnavailable } from './logClient.ts';

/** Wrong responses are fetched again: they may come from a stale instance, a proxy, a cache or a network. */
export const MAX_RETRIES = 5;
export const RETRY_INTERVAL_MS = 1_000;
/** All missing tiles count as one path: a log that lacks many must not prolong the check. */
const MISSING = '';

type Options = { sleep: (ms: number) => Promise<void>; onNotice: (line: string) => void };

/** Repeats reads of tiles that do not match or, with `missing`, do not exist. Create one per check. */
export class Rereading {
  readonly #options: Options;
  /** The number of failures by the first path that did not match, or was missing. */
  readonly #failures = new Map<string, number>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** Reads and compares tiles. @throws TileMismatch with all responses for a path that never matches; LogUnavailable */
  async read<T>(work: () => Promise<T>, { missing = false } = {}): Promise<T> {
    const { sleep, onNotice } = this.#options;
    let first: string | undefined;
    let received = new Map<string, Buffer>();
    const notices: string[] = [];
    for (;;) {
      try {
        const result = await work();
        for (const line of notices) onNotice(line);
        return result;
      } catch (error) {
        const isMismatch = error instanceof TileMismatch;
        if (!isMismatch && !(missing && error instanceof LogUnavailable && error.isMissing)) {
          for (const line of notices) onNotice(line);
          throw error;
        }
        const [path = MISSING] = isMismatch ? error.received.keys() : [];
        if (path !== first) received = new Map();
        first = path;
        for (const [name, content] of isMismatch ? error.received : []) addCopy(received, name, content);
        const count = (this.#failures.get(path) ?? 0) + 1;
        this.#failures.set(path, count);
        if (count > MAX_RETRIES) throw isMismatch ? new TileMismatch(error.message, received) : error;
        if (count === 1 && isMismatch)
          notices.push(`a response did not match, and was read again: ${error.message}`);
        await sleep(RETRY_INTERVAL_MS);
      }
    }
  }
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

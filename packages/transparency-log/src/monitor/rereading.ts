import { TileMismatch } from '../merkle/tiles.ts';

/** The monitor fetches again what is wrong: another instance may lag behind, or a proxy, a cache or a network respond. */
export const MAX_RETRIES = 5;
export const RETRY_INTERVAL_MS = 1_000;

type Options = { sleep: (ms: number) => Promise<void>; onNotice: (line: string) => void };

/** Reads tiles again that do not match their tree; one for each check, which so ends whatever the log responds. */
export class Rereading {
  readonly #options: Options;
  /** How many times the first path of a mismatch did not match. */
  readonly #mismatches = new Map<string, number>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** Reads and compares tiles. @throws TileMismatch with each response for the first path that never matches */
  async read<T>(work: () => Promise<T>): Promise<T> {
    const { sleep, onNotice } = this.#options;
    let first: string | undefined;
    let received = new Map<string, Buffer>();
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof TileMismatch)) throw error;
        const [path = ''] = error.received.keys();
        if (path !== first) received = new Map();
        first = path;
        for (const [name, content] of error.received) addCopy(received, name, content);
        const count = (this.#mismatches.get(path) ?? 0) + 1;
        this.#mismatches.set(path, count);
        if (count > MAX_RETRIES) throw new TileMismatch(error.message, received);
        if (count === 1) onNotice(`a response did not match, and is read again: ${error.message}`);
        await sleep(RETRY_INTERVAL_MS);
      }
    }
  }
}

/** Adds what was received for a path, unless it was before; a second copy has another name. */
function addCopy(received: Map<string, Buffer>, path: string, content: Buffer): void {
  let name = path;
  for (let copy = 2; received.has(name); copy++) {
    if (received.get(name)?.equals(content)) return;
    name = `${path}-copy${copy}`;
  }
  received.set(name, content);
}

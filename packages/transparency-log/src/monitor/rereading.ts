import { TileMismatch } from '../merkle/tiles.ts';

/** What is wrong is fetched again: another instance may lag behind, or a proxy, a cache or a network respond. */
export const MAX_RETRIES = 5;
export const RETRY_INTERVAL_MS = 1_000;

export type RereadOptions = { sleep: (ms: number) => Promise<void>; onNotice: (line: string) => void };

/**
 * Reads and compares tiles. What does not match is read again, and all that was received is kept. What matched in the end,
 * or could not be read any more, is a notice. @throws TileMismatch
 */
export async function rereading<T>(read: () => Promise<T>, { sleep, onNotice }: RereadOptions): Promise<T> {
  const received = new Map<string, Buffer>();
  const failures = new Map<string, number>();
  const notices: string[] = [];
  for (;;) {
    const reading = read();
    const error: unknown = await reading.catch((thrown) => thrown);
    if (!(error instanceof TileMismatch)) {
      for (const line of notices) onNotice(line);
      return reading;
    }
    for (const [path, content] of error.received) addCopy(received, path, content);
    const [first = ''] = error.received.keys();
    const count = (failures.get(first) ?? 0) + 1;
    failures.set(first, count);
    if (count > MAX_RETRIES) throw new TileMismatch(error.message, received);
    if (count === 1) notices.push(`a response did not match, and was read again: ${error.message}`);
    await sleep(RETRY_INTERVAL_MS);
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

import { EVENT_ERASED } from '@event-sourced/event-log/erasure';
import { parseEntryBundle, TILE_WIDTH, tilePath, toHex } from '@event-sourced/tlog';
import { type Api, readLogSize } from '../api.ts';
import { parseEvent, replayLines } from '../events.ts';

/** The positions of stubs, by the index of their event in the tree: a stub has the entry that the tree has there. */
export async function findStubs(
  api: Api,
  indices: readonly number[],
  signal: AbortSignal,
): Promise<Map<number, bigint>> {
  const size = (await readLogSize(api, signal)) ?? 0;
  const wanted = new Map<string, number>();
  for (const bundle of new Set(indices.map((index) => Math.floor(index / TILE_WIDTH)))) {
    const first = bundle * TILE_WIDTH;
    const width = Math.min(size - first, TILE_WIDTH);
    if (width <= 0) continue;
    const bytes = await api.getBytes(tilePath({ level: 'entries', index: bundle, width }), { signal });
    const entries = parseEntryBundle(bytes);
    for (const index of indices) {
      const entry = entries[index - first];
      if (entry) wanted.set(toHex(entry), index);
    }
  }
  const found = new Map<number, bigint>();
  for await (const line of replayLines(api, { type: EVENT_ERASED }, signal)) {
    const { erased = '', position } = parseEvent(line);
    const index = wanted.get(erased);
    if (index !== undefined) found.set(index, position);
    if (found.size === wanted.size) break;
  }
  return found;
}

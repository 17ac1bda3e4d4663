import {
  leafHash,
  MerkleTree,
  NotVerified,
  parseEntryBundle,
  readAhead,
  TILE_WIDTH,
  tilePath,
  tileWidth,
} from '@event-sourced/transparency-log';
import type { Api } from './api.ts';

type Options = { signal: AbortSignal; onProgress: (entries: number) => void };

/** The root of the tree of the first `size` events, from their entries. @throws ApiError, NotVerified */
export async function rootOfEntries(
  api: Api,
  size: number,
  { signal, onProgress }: Options,
): Promise<string> {
  const readBundle = async (index: number): Promise<Buffer[]> => {
    const width = tileWidth(0, index, size);
    const path = tilePath({ level: 'entries', index, width });
    const entries = parseEntryBundle(await api.getBytes(path, { signal }));
    if (entries.length !== width)
      throw new NotVerified(`bundle ${index} has ${entries.length} entries, not ${width}`);
    return entries;
  };
  const tree = new MerkleTree();
  for await (const entries of readAhead(0, Math.ceil(size / TILE_WIDTH) - 1, readBundle)) {
    for (const entry of entries) tree.append(leafHash(entry));
    onProgress(tree.size);
  }
  signal.throwIfAborted();
  return tree.root();
}

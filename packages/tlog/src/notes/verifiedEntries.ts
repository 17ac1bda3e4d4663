import { fromHex } from '../bytes.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { TILE_WIDTH, TileMismatch, tileHashes, tilePath, tileRoot, tileWidth } from '../merkle/tiles.ts';
import type { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import { parseEntryBundle } from './entryBundle.ts';
import { NotVerified } from './notVerified.ts';
import { readAhead } from './readAhead.ts';

/** Fetches the bundle of the first `width` entries of a tile. */
type Client = { entries(index: number, width: number): Promise<Uint8Array> };
/** Entries in log order; `first` is the ordinal of the first entry, from 1. */
type Entries = { first: number; entries: Uint8Array[] };

/** The entries after the first `from`, verified by their hashes in the tree. @throws TileMismatch, LogUnavailable */
export async function* readEntriesAfter(
  from: number,
  tiles: VerifiedTiles,
  client: Client,
): AsyncGenerator<Entries> {
  if (from === tiles.head.size) return;
  const first = Math.floor(from / TILE_WIDTH);
  const last = Math.ceil(tiles.head.size / TILE_WIDTH) - 1;
  const bundles = readAhead(first, last, async (index) => ({
    index,
    entries: await verifiedBundle(index, tiles, client),
  }));
  for await (const { index, entries } of bundles) {
    const start = index * TILE_WIDTH;
    const skipped = Math.max(from - start, 0);
    yield { first: start + skipped + 1, entries: entries.slice(skipped) };
  }
}

async function verifiedBundle(index: number, tiles: VerifiedTiles, client: Client): Promise<Uint8Array[]> {
  const width = tileWidth(0, index, tiles.head.size);
  const leaves = { level: 0, index, width };
  const path = tilePath({ level: 'entries', index, width });
  const [bundle, root] = await Promise.all([
    client.entries(index, width),
    width === TILE_WIDTH ? tiles.tileRoot(leaves) : undefined,
  ]);
  const entries = parsed(bundle);
  const found = entries?.map(leafHash) ?? [];
  // The log chooses the root, so a different number of entries may also have it.
  if (entries?.length === TILE_WIDTH && tileRoot(fromHex(found.join(''))) === root) return entries;
  const hashes = await tiles.read(leaves); // to find the entry that differs
  const mismatch = (message: string): TileMismatch =>
    new TileMismatch(message, new Map([[path, bundle]]).set(tilePath(leaves), hashes));
  if (!entries) throw mismatch(`${path} ends within an entry, or has more than ${TILE_WIDTH}`);
  if (entries.length !== width) throw mismatch(`${path} has ${entries.length} entries, not ${width}`);
  const expected = tileHashes(hashes);
  const differing = found.findIndex((hash, i) => hash !== expected[i]);
  if (differing === -1) return entries;
  throw mismatch(`the entry at index ${index * TILE_WIDTH + differing} does not have its hash in the tree`);
}

function parsed(bundle: Uint8Array): Uint8Array[] | undefined {
  try {
    return parseEntryBundle(bundle);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    return undefined;
  }
}

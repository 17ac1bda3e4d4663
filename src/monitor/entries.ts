import { leafHash } from '../merkle/merkleTree.ts';
import { hashesOfTile, rootOfHashes, TILE_WIDTH, tilePath, tileWidth } from '../merkle/tiles.ts';
import { parseEntryBundle } from '../transparency/entryBundle.ts';
import { NotVerified } from '../transparency/notVerified.ts';
import { Mismatch } from './alarm.ts';
import type { LogClient } from './logClient.ts';
import { readAhead } from './readAhead.ts';
import type { VerifiedTiles } from './verifiedTiles.ts';

type Client = Pick<LogClient, 'entries'>;
/** Entries in log order; the first one is that of the event with this number, counted from 1. */
export type Entries = { number: number; entries: Buffer[] };

/** The entries after the first `from`, each of which has its hash in the tree. @throws Mismatch, LogUnavailable */
export async function* readEntriesAfter(
  from: number,
  tiles: VerifiedTiles,
  client: Client,
): AsyncGenerator<Entries> {
  if (from === tiles.size) return;
  const first = Math.floor(from / TILE_WIDTH);
  const last = Math.ceil(tiles.size / TILE_WIDTH) - 1;
  const bundles = readAhead(first, last, async (index) => ({
    index,
    entries: await verifiedBundle(index, tiles, client),
  }));
  for await (const { index, entries } of bundles) {
    const start = index * TILE_WIDTH;
    const skipped = Math.max(from - start, 0);
    yield { number: start + skipped + 1, entries: entries.slice(skipped) };
  }
}

async function verifiedBundle(index: number, tiles: VerifiedTiles, client: Client): Promise<Buffer[]> {
  const width = tileWidth(0, index, tiles.size);
  const leaves = { level: 0, index, width };
  const path = tilePath({ level: 'entries', index, width });
  const [bundle, root] = await Promise.all([
    client.entries(index, width),
    width === TILE_WIDTH ? tiles.rootOf({ level: 0, index }) : undefined,
  ]);
  const entries = parsed(bundle);
  const found = entries?.map(leafHash) ?? [];
  // The log chooses the root: another number of entries may have it, too.
  if (entries?.length === TILE_WIDTH && rootOfHashes(found) === root) return entries;
  const hashes = await tiles.read(leaves); // to find the entry that differs
  const mismatch = (message: string): Mismatch =>
    new Mismatch(message, [
      [path, bundle],
      [tilePath(leaves), hashes],
    ]);
  if (!entries) throw mismatch(`${path} ends within an entry`);
  if (entries.length !== width) throw mismatch(`${path} has ${entries.length} entries, not ${width}`);
  const expected = hashesOfTile(hashes);
  const other = found.findIndex((hash, i) => hash !== expected[i]);
  if (other === -1) return entries;
  throw mismatch(`the entry of event ${index * TILE_WIDTH + other + 1} does not have its hash in the tree`);
}

/** The entries of a bundle; undefined if it is malformed. */
function parsed(bundle: Buffer): Buffer[] | undefined {
  try {
    return parseEntryBundle(bundle);
  } catch (error) {
    if (!(error instanceof NotVerified)) throw error;
    return undefined;
  }
}

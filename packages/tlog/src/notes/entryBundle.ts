import { concat } from '../bytes.ts';
import { HASH_BYTES, TILE_WIDTH } from '../merkle/tiles.ts';
import { NotVerified } from './notVerified.ts';

// Entry bundles of https://c2sp.org/tlog-tiles: each entry follows its length in two bytes, big-endian.

const LENGTH_BYTES = 2;
const MAX_ENTRY_BYTES = 65_535;

export function formatEntryBundle(entries: readonly Uint8Array[]): Uint8Array {
  const parts = entries.flatMap((entry) => {
    if (entry.length > MAX_ENTRY_BYTES) throw new RangeError(`an entry has ${entry.length} bytes`);
    return [Uint8Array.of(entry.length >> 8, entry.length), entry];
  });
  return concat(parts);
}

/** A bundle of entries of 32 bytes each, which are concatenated. */
export function formatDigestBundle(entries: Uint8Array): Uint8Array {
  const count = entries.length / HASH_BYTES;
  return formatEntryBundle(
    Array.from({ length: count }, (_, i) => entries.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES)),
  );
}

/** The entries of a bundle. @throws NotVerified if it ends within an entry, or has more entries than a tile */
export function parseEntryBundle(bundle: Uint8Array): Uint8Array[] {
  const entries: Uint8Array[] = [];
  const view = new DataView(bundle.buffer, bundle.byteOffset, bundle.length);
  for (let at = 0; at < bundle.length; ) {
    const start = at + LENGTH_BYTES;
    const end = start <= bundle.length ? start + view.getUint16(at) : Number.POSITIVE_INFINITY;
    if (end > bundle.length) throw new NotVerified('a bundle of entries ends within an entry');
    if (entries.length === TILE_WIDTH) throw new NotVerified('a bundle has too many entries');
    entries.push(bundle.subarray(start, end));
    at = end;
  }
  return entries;
}

import { HASH_BYTES, TILE_WIDTH } from '../merkle/tiles.ts';
import { NotVerified } from './notVerified.ts';

// Entry bundles of https://c2sp.org/tlog-tiles: each entry follows its length in two bytes, big-endian.

const LENGTH_BYTES = 2;

export function formatEntryBundle(entries: readonly Buffer[]): Buffer {
  const parts = entries.flatMap((entry) => {
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt16BE(entry.length);
    return [length, entry];
  });
  return Buffer.concat(parts);
}

/** A bundle of entries of 32 bytes each, which are concatenated. */
export function formatDigestBundle(entries: Buffer): Buffer {
  const count = entries.length / HASH_BYTES;
  return formatEntryBundle(
    Array.from({ length: count }, (_, i) => entries.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES)),
  );
}

/** The entries of a bundle. @throws NotVerified if it ends within an entry, or has more entries than a tile */
export function parseEntryBundle(bundle: Buffer): Buffer[] {
  const entries: Buffer[] = [];
  for (let at = 0; at < bundle.length; ) {
    const start = at + LENGTH_BYTES;
    const end = start <= bundle.length ? start + bundle.readUInt16BE(at) : Number.POSITIVE_INFINITY;
    if (end > bundle.length) throw new NotVerified('a bundle of entries ends within an entry');
    if (entries.length === TILE_WIDTH) throw new NotVerified('a bundle has too many entries');
    entries.push(bundle.subarray(start, end));
    at = end;
  }
  return entries;
}

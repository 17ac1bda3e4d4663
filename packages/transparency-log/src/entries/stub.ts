import { leafHash } from '../merkle/merkleTree.ts';

// The entry of a stub in a tile. It is the leaf of no event. This module also runs in browsers.

const STUB_ENTRY = /^\{"erased":"([\da-f]{64})"\}$/;
const STUB_ENTRY_BYTES = 77;

/** The leaf hash in the entry of a stub; undefined for any other entry. */
export function erasedLeaf(entry: Uint8Array): string | undefined {
  if (entry.length !== STUB_ENTRY_BYTES) return undefined;
  return STUB_ENTRY.exec(Buffer.from(entry).toString())?.[1];
}

/** The hash that an entry has in the tree. */
export const entryHash = (entry: Uint8Array): string => erasedLeaf(entry) ?? leafHash(entry);

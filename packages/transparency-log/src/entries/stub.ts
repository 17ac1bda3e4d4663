import type { RecordedEvent } from '@event-sourced/event-log';
import { leafHash } from '../merkle/merkleTree.ts';
import { leafText } from './leaf.ts';

// The leaf of a stub is the hash that it carries. Its entry in a tile is no leaf of any event: that is a text with an ID.

const STUB_ENTRY = /^\{"erased":"([\da-f]{64})"\}$/;
const STUB_ENTRY_BYTES = 77;

/** The leaf hash of an event, or of the erased event whose stub it is. */
export const leafOf = (event: RecordedEvent): string => event.erased ?? leafHash(leafText(event).text);

/** The entry of an event in a tile: its leaf, or the leaf hash of the erased event whose stub it is. */
export const toEntry = (event: RecordedEvent): Buffer =>
  Buffer.from(event.erased === undefined ? leafText(event).text : `{"erased":"${event.erased}"}`);

/** The leaf hash in the entry of a stub; undefined for any other entry. */
export function erasedLeaf(entry: Uint8Array): string | undefined {
  if (entry.length !== STUB_ENTRY_BYTES) return undefined;
  return STUB_ENTRY.exec(Buffer.from(entry).toString())?.[1];
}

/** The hash that an entry has in the tree. */
export const entryHash = (entry: Uint8Array): string => erasedLeaf(entry) ?? leafHash(entry);

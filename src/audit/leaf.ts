import canonicalize from 'canonicalize';
import type { RecordedEvent } from '../eventStore/eventStore.ts';

/**
 * What an event contributes to the root of its log: the canonical JSON (RFC 8785) of these six, the revision as text
 * since it has 64 bits. Not its position, and not the store's own notes, so that every store gives the same.
 */
export type Leaf = {
  id: string;
  stream: string;
  revision: string;
  type: string;
  data?: unknown;
  metadata?: unknown;
};

export function leafOf({ id, stream, revision, type, data, metadata }: RecordedEvent): Leaf {
  return { id, stream, revision: String(revision), type, data, metadata };
}

/**
 * The text of a leaf. RFC 8785 refuses what is no I-JSON: half a surrogate pair, a number beyond all bounds. Another
 * writer may store it, or bytes: then data and metadata are in it as one text, `dataAndMetadata`, as JSON.stringify writes them.
 */
export function leafText(leaf: Leaf): { text: string; isCanonical: boolean } {
  if (!isBytes(leaf.data) && !isBytes(leaf.metadata)) {
    try {
      return { text: canonical(leaf), isCanonical: true };
    } catch {} // said by `isCanonical`
  }
  const { data, metadata, ...rest } = leaf;
  return {
    text: canonical({ ...rest, dataAndMetadata: JSON.stringify([data, metadata]) }),
    isCanonical: false,
  };
}

function canonical(value: object): string {
  return canonicalize(value) as string; // undefined only for what is no JSON at all
}

function isBytes(value: unknown): boolean {
  return ArrayBuffer.isView(value);
}

import canonicalize from 'canonicalize';
import type { RecordedEvent } from '../eventStore/eventStore.ts';

/**
 * The Merkle tree leaf of an event: the canonical JSON (RFC 8785) of its id, stream, revision (as text: it
 * has 64 bits), type, data and metadata. The position is not part of it, nor what a store adds, so the same
 * events have the same root in any store.
 *
 * RFC 8785 covers I-JSON only, without lone surrogates and infinite numbers. Another writer may have stored
 * those, or bytes. Then data and metadata are combined into one text, `dataAndMetadata`; and if even id,
 * stream or type is not well-formed, those are combined into `names`. Different events still have different
 * leaves.
 */
export function leafText(event: RecordedEvent): { text: string; isCanonical: boolean } {
  const { id, stream, type, data, metadata } = event;
  const revision = String(event.revision);
  if (!isBytes(data) && !isBytes(metadata)) {
    try {
      return { text: canonicalJson({ id, stream, revision, type, data, metadata }), isCanonical: true };
    } catch {} // reported as `isCanonical: false`
  }
  const areWellFormed = [id, stream, type].every((name) => name.isWellFormed());
  const names = areWellFormed
    ? { id, stream, revision, type }
    : { names: JSON.stringify([id, stream, revision, type]) };
  const dataAndMetadata = `[${extendedJson(data)},${extendedJson(metadata)}]`;
  return { text: canonicalJson({ ...names, dataAndMetadata }), isCanonical: false };
}

/** RFC 8785. @throws Error for what is not I-JSON */
export function canonicalJson(value: object): string {
  return canonicalize(value) as string; // undefined only for values that JSON does not have
}

/** JSON with a notation for what JSON does not have: nothing, bytes and infinite numbers. */
function extendedJson(value: unknown): string {
  if (value === undefined) return '';
  if (isBytes(value)) return `base64:${Buffer.from(value).toString('base64')}`;
  return JSON.stringify(value, (_key, part) => {
    if (part === Number.POSITIVE_INFINITY) return rawJSON('1e999');
    return part === Number.NEGATIVE_INFINITY ? rawJSON('-1e999') : part;
  });
}

/** https://tc39.es/proposal-json-parse-with-source; TypeScript has no type for it yet. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

function isBytes(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array;
}

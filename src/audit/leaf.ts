import canonicalize from 'canonicalize';
import type { RecordedEvent } from '../eventStore/eventStore.ts';

/**
 * What an event contributes to the root of its log: the canonical JSON (RFC 8785) of its id, stream, revision (as text,
 * since it has 64 bits), type, data and metadata. Not its position, and not the store's own notes: every store gives the same.
 *
 * RFC 8785 refuses what is no I-JSON: half a surrogate pair, a number beyond all bounds. Another writer may store it, or
 * bytes. Then data and metadata stand in one text, `dataAndMetadata`, and where even a name is no text, the rest in another,
 * `names`; no two events have the same.
 */
export function leafText(event: RecordedEvent): { text: string; isCanonical: boolean } {
  const { id, stream, type, data, metadata } = event;
  const revision = String(event.revision);
  if (!isBytes(data) && !isBytes(metadata)) {
    try {
      return { text: canonical({ id, stream, revision, type, data, metadata }), isCanonical: true };
    } catch {} // said by `isCanonical`
  }
  const areTexts = [id, stream, type].every((name) => name.isWellFormed());
  const names = areTexts
    ? { id, stream, revision, type }
    : { names: JSON.stringify([id, stream, revision, type]) };
  const dataAndMetadata = `[${written(data)},${written(metadata)}]`;
  return { text: canonical({ ...names, dataAndMetadata }), isCanonical: false };
}

/** RFC 8785. @throws Error for what it refuses */
export function canonical(value: object): string {
  return canonicalize(value) as string; // undefined only for what is no JSON at all
}

/** As JSON.stringify writes it, with infinities, bytes and nothing as no JSON has them. */
function written(value: unknown): string {
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

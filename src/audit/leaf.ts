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
  const members = { data, id, metadata, revision, stream, type };
  const text = flatLeafText(members);
  if (text !== undefined) return { text, isCanonical: true };
  if (!isBytes(data) && !isBytes(metadata)) {
    try {
      return { text: canonicalJson(members), isCanonical: true };
    } catch {} // reported as `isCanonical: false`
  }
  const areWellFormed = [id, stream, type].every((name) => name.isWellFormed());
  const names = areWellFormed
    ? { id, stream, revision, type }
    : { names: JSON.stringify([id, stream, revision, type]) };
  const dataAndMetadata = `[${extendedJson(data)},${extendedJson(metadata)}]`;
  return { text: canonicalJson({ ...names, dataAndMetadata }), isCanonical: false };
}

/**
 * The same canonical JSON at half the cost, if data and metadata are objects of text and finite numbers only,
 * like those of this service; undefined if they are not. RFC 8785 writes text and numbers like
 * JSON.stringify, and rejects lone surrogates.
 */
function flatLeafText(members: { data: unknown; metadata: unknown }): string | undefined {
  const [data, metadata] = [sorted(members.data), sorted(members.metadata)];
  if (!data || !metadata) return undefined;
  const text = JSON.stringify({ ...members, data, metadata }); // the members themselves are sorted
  return text.includes('\\ud') ? undefined : text; // the escape of a lone surrogate, or rarely other text
}

/** An object of text and finite numbers with its members in the order of RFC 8785, if an object can have it. */
function sorted(value: unknown): object | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Object.getPrototypeOf(value) !== Object.prototype) return undefined;
  const keys = Object.keys(value).sort();
  const members: Record<string, unknown> = {};
  for (const key of keys) {
    const member = (value as Record<string, unknown>)[key];
    if (typeof member !== 'string' && !Number.isFinite(member)) return undefined;
    members[key] = member;
  }
  // Numeric keys come first in any object, and __proto__ did not become a member.
  const order = Object.keys(members);
  return keys.every((key, i) => key === order[i]) ? members : undefined;
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

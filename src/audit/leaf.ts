import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { RecordedEvent } from '../eventStore/eventStore.ts';

/** The largest leaf, in bytes of UTF-8: the entries of a tiled log have a length of 16 bits (tlog-tiles). */
export const MAX_LEAF_BYTES = 65_535;

/** What of an event its leaf covers. */
export type LeafEvent = Omit<RecordedEvent, 'position'>;

/**
 * Data and metadata as they are in a leaf: the canonical JSON of each that is there; or both combined into
 * one text, if one of them, or a name, has no canonical form.
 */
type LeafContent = { data: string | undefined; metadata: string | undefined } | { dataAndMetadata: string };

/**
 * The Merkle tree leaf of an event: the canonical JSON (RFC 8785) of its id, stream, revision (as text: it
 * has 64 bits), type, data and metadata. The position is not part of it, nor what a store adds, so the same
 * events have the same root in any store.
 *
 * RFC 8785 covers I-JSON only, without lone surrogates and infinite numbers. Another writer may have stored
 * those, or bytes. Then data and metadata are combined into one text, `dataAndMetadata`; and if even id,
 * stream or type is not well-formed, those are combined into `names`. Of a text of more than MAX_LEAF_BYTES,
 * which only another writer may have caused, the leaf has the SHA-256. Different events still have different
 * leaves.
 */
export function leafText(event: LeafEvent): { text: string; isCanonical: boolean } {
  const content = leafContent(event);
  return { text: leafTextOf(event, content), isCanonical: !('dataAndMetadata' in content) };
}

/** The leaf of an event with these names and this content. */
export function leafTextOf(
  names: { id: string; stream: string; revision: bigint | string; type: string },
  content: LeafContent,
): string {
  const text = 'dataAndMetadata' in content ? combined(names, content) : separate(names, content);
  if (Buffer.byteLength(text) <= MAX_LEAF_BYTES) return text;
  return canonicalJson({ sha256: hash('sha256', text) });
}

type Names = Parameters<typeof leafTextOf>[0];
type Separate = { data: string | undefined; metadata: string | undefined };

/** A leaf whose members are in canonical form, in the order of RFC 8785. */
function separate({ id, revision, stream, type }: Names, { data, metadata }: Separate): string {
  const before = data === undefined ? '' : `"data":${data},`;
  const between = metadata === undefined ? '' : `"metadata":${metadata},`;
  const names = `"revision":"${revision}","stream":${JSON.stringify(stream)},"type":${JSON.stringify(type)}`;
  return `{${before}"id":${JSON.stringify(id)},${between}${names}}`;
}

function combined({ id, stream, type, ...rest }: Names, content: { dataAndMetadata: string }): string {
  const revision = String(rest.revision);
  const names = areWellFormed({ id, stream, type })
    ? { id, stream, revision, type }
    : { names: JSON.stringify([id, stream, revision, type]) };
  return canonicalJson({ ...names, ...content });
}

/** Data and metadata of an event as they are in its leaf. */
function leafContent(event: LeafEvent): LeafContent {
  if (!areWellFormed(event)) return combinedContent(event);
  const { stored } = event;
  if (stored) {
    const data = canonicalFlat(stored.data);
    const metadata = data === undefined ? undefined : canonicalFlat(stored.metadata);
    if (metadata !== undefined) return { data, metadata };
  }
  const { data, metadata } = event; // it may have to be parsed
  if (!isBytes(data) && !isBytes(metadata)) {
    try {
      return { data: canonicalText(data), metadata: canonicalText(metadata) };
    } catch {} // one of them has no canonical form
  }
  return combinedContent(event);
}

const combinedContent = ({ data, metadata }: LeafEvent): { dataAndMetadata: string } => ({
  dataAndMetadata: `[${extendedJson(data)},${extendedJson(metadata)}]`,
});

/** What a leaf covers besides names and data; `dataAndMetadata` as in `leafContent`. */
export function leafMetadata(
  event: LeafEvent,
): { metadata: string | undefined } | { dataAndMetadata: string } {
  const { data, metadata } = event;
  if (areWellFormed(event) && isIJson(data) && !isBytes(metadata)) {
    try {
      return { metadata: canonicalText(metadata) };
    } catch {} // it has no canonical form
  }
  return leafContent(event);
}

/** Whether a value has canonical JSON, or is absent. */
function isIJson(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  if (isBytes(value)) return false;
  for (const key of Object.keys(value))
    if (!key.isWellFormed() || !isIJson((value as Record<string, unknown>)[key])) return false;
  return true;
}

/** Whether all names of an event are well-formed Unicode. */
export function areWellFormed({ id, stream, type }: Pick<Names, 'id' | 'stream' | 'type'>): boolean {
  return id.isWellFormed() && stream.isWellFormed() && type.isWellFormed();
}

/** The canonical JSON of a value, undefined if there is none. @throws Error for what is not I-JSON */
export function canonicalText(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  return canonicalFlat(JSON.stringify(value)) ?? canonicalJson(value); // the former takes half as long
}

/** The JSON of an object, without white space before its first member, and without escapes. */
const PLAIN_OBJECT = /^\{"[^\\\p{Cc}]*\}$/u;
/** RFC 8785 writes such integers alike. */
const INTEGER = /^(?:0|-?[1-9]\d{0,14})$/;

/**
 * The canonical JSON of the text of an object, without parsing it, if its members are text without escapes, and
 * integers: those of nearly all events are. Undefined for other JSON.
 */
function canonicalFlat(json: string): string | undefined {
  if (!PLAIN_OBJECT.test(json) || !json.isWellFormed()) return undefined;
  const names: string[] = [];
  const members: string[] = [];
  for (let start = 1; start < json.length; ) {
    const colon = json.indexOf('"', start + 1) + 1;
    const isText = json[colon + 1] === '"';
    let end = isText ? json.indexOf('"', colon + 2) + 1 : json.indexOf(',', colon);
    if (end === -1) end = json.length - 1;
    const isMember = json[start] === '"' && json[colon] === ':' && end > colon;
    if (!isMember || !(isText || INTEGER.test(json.slice(colon + 1, end)))) return undefined;
    if (json[end] !== (end === json.length - 1 ? '}' : ',')) return undefined;
    const name = json.slice(start + 1, colon - 1);
    if (name >= '0' && name <= '9\uffff') return undefined; // JSON.parse moves integers to the front
    let place = names.length; // insertion sort
    for (; place > 0 && (names[place - 1] as string) > name; place--) {
      names[place] = names[place - 1] as string;
      members[place] = members[place - 1] as string;
    }
    if (names[place - 1] === name) return undefined;
    names[place] = name;
    members[place] = json.slice(start, end);
    start = end + 1;
  }
  return `{${members.join(',')}}`;
}

/** RFC 8785. @throws Error for what is not I-JSON */
export function canonicalJson(value: unknown): string {
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

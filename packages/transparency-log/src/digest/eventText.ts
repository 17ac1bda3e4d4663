import type { RecordedEvent } from '@event-sourced/event-log';
import { toBase64 } from '@event-sourced/tlog';
import canonicalize from 'canonicalize';

export type TextEvent = Omit<RecordedEvent, 'position'>;

/** Data and metadata in a text: two texts in canonical JSON, or one text if either has no canonical form. */
type TextContent = { data: string | undefined; metadata: string | undefined } | { dataAndMetadata: string };

/**
 * The text of an event: the canonical JSON (RFC 8785) of its id, stream, revision (as text, since it has 64 bits), type,
 * data and metadata. It has neither the position nor additions of a store, so the same events have the same root in every
 * store.
 *
 * RFC 8785 only covers I-JSON, which has no unpaired surrogates, infinite numbers and bytes. If another writer has
 * stored such data, data and metadata are combined into one text, `dataAndMetadata`. If even id, stream or type is not
 * well-formed, these are combined into `names`. Different events still have different texts.
 */
export function eventText(event: TextEvent): { text: string; isCanonical: boolean } {
  const content = textContent(event);
  return { text: formatText(event, content), isCanonical: !('dataAndMetadata' in content) };
}

export function formatText(
  names: { id: string; stream: string; revision: bigint | string; type: string },
  content: TextContent,
): string {
  return 'dataAndMetadata' in content ? combined(names, content) : separate(names, content);
}

/** Whether a value is a revision in text; one of another program may be negative. */
export const isRevision = (value: unknown): value is string =>
  typeof value === 'string' && /^(0|-?[1-9]\d*)$/.test(value);

type Names = Parameters<typeof formatText>[0];
type Separate = { data: string | undefined; metadata: string | undefined };

/** A text whose members are in canonical form, in the order of RFC 8785. */
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

export function textContent(event: TextEvent): TextContent {
  if (!areWellFormed(event)) return combinedContent(event);
  const { data, metadata } = event;
  if (!isBytes(data) && !isBytes(metadata)) {
    try {
      return { data: canonicalText(data), metadata: canonicalText(metadata) };
    } catch {} // data or metadata has no canonical form
  }
  return combinedContent(event);
}

const combinedContent = ({ data, metadata }: TextEvent): { dataAndMetadata: string } => ({
  dataAndMetadata: `[${extendedJson(data)},${extendedJson(metadata)}]`,
});

function areWellFormed({ id, stream, type }: Pick<Names, 'id' | 'stream' | 'type'>): boolean {
  return id.isWellFormed() && stream.isWellFormed() && type.isWellFormed();
}

/** The canonical JSON of a value; undefined if there is none. @throws Error for what is not I-JSON */
export function canonicalText(value: unknown): string | undefined {
  return value === undefined ? undefined : canonicalJson(value);
}

/** RFC 8785. @throws Error for what is not I-JSON */
export function canonicalJson(value: unknown): string {
  return canonicalize(value) as string; // undefined only for values that JSON cannot represent
}

/** JSON with a notation for undefined, bytes and infinite numbers. */
function extendedJson(value: unknown): string {
  if (value === undefined) return '';
  if (isBytes(value)) return `base64:${toBase64(value)}`;
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

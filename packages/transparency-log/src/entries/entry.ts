import { isUtf8 } from 'node:buffer';
import { canonicalJson, type LeafEvent, leafText, MAX_LEAF_BYTES } from './leaf.ts';

/** The members of a leaf: those of an event, or others, see leaf.ts. None if the text is not JSON of an object. */
function parsed(text: string): { [name: string]: unknown } {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** The event whose leaf an entry is; undefined if the leaf does not have all of it in canonical form. */
export function eventOfEntry(entry: Buffer): LeafEvent | undefined {
  if (!isUtf8(entry) || entry.length > MAX_LEAF_BYTES) return undefined;
  const text = entry.toString();
  const { id, stream, revision, type, data, metadata } = parsed(text);
  if (typeof id !== 'string' || typeof stream !== 'string' || typeof type !== 'string') return undefined;
  if (typeof revision !== 'string' || !/^(0|-?[1-9]\d{0,18})$/.test(revision)) return undefined;
  const event = { id, stream, revision: BigInt(revision), type, data, metadata };
  try {
    return leafText(event).text === text ? event : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined; // it is nested too deeply to be compared
    throw error;
  }
}

/** What an entry is, for messages: the event that it names, or its size. */
export function describeEntry(entry: Buffer): string {
  const text = entry.toString();
  const { id, stream, ...others } = parsed(text);
  const isLeaf =
    typeof id === 'string' && typeof stream === 'string' && isCanonical({ id, stream, ...others }, text);
  return isLeaf
    ? `event ${JSON.stringify(id)} of ${JSON.stringify(stream)}`
    : `an entry of ${entry.length} bytes`;
}

/** Whether a text is the canonical JSON of a value: in other JSON, two members may have the same name. */
function isCanonical(value: object, text: string): boolean {
  try {
    return canonicalJson(value) === text;
  } catch {
    return false;
  }
}

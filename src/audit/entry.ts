import { canonicalJson, type LeafEvent } from './leaf.ts';

/** The members of a leaf: those of an event, or others, see leaf.ts. */
type Members = { [name: string]: unknown };

/**
 * The members of an entry of the tree, if it is canonical JSON of an object, as every leaf is; undefined for
 * anything else, such as JSON in which two members have the same name.
 */
function membersOf(entry: Buffer): Members | undefined {
  try {
    const text = entry.toString();
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject && canonicalJson(value) === text ? (value as Members) : undefined;
  } catch {
    return undefined;
  }
}

/** The event whose leaf an entry is; undefined if the leaf does not have all of it in canonical form. */
export function eventOfEntry(entry: Buffer): LeafEvent | undefined {
  const { id, stream, revision, type, data, metadata, ...others } = membersOf(entry) ?? {};
  if (typeof id !== 'string' || typeof stream !== 'string' || typeof type !== 'string') return undefined;
  if (typeof revision !== 'string' || !/^(0|-?[1-9]\d{0,18})$/.test(revision)) return undefined;
  if (Object.keys(others).length > 0) return undefined;
  return { id, stream, revision: BigInt(revision), type, data, metadata };
}

/** What an entry is, for messages: the event that it names, or its size. */
export function describeEntry(entry: Buffer): string {
  const { id, stream } = membersOf(entry) ?? {};
  if (typeof id !== 'string' || typeof stream !== 'string') return `an entry of ${entry.length} bytes`;
  return `event ${JSON.stringify(id)} of ${JSON.stringify(stream)}`;
}

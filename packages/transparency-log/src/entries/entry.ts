import { canonicalJson } from './leaf.ts';

/** What an entry is, for messages: the event that it names, or its size. */
export function describeEntry(entry: Buffer): string {
  const text = entry.toString();
  try {
    const leaf = Object(JSON.parse(text));
    const isNamed = typeof leaf.id === 'string' && typeof leaf.stream === 'string';
    // In other JSON, two members may have the same name.
    if (isNamed && canonicalJson(leaf) === text)
      return `event ${JSON.stringify(leaf.id)} of ${JSON.stringify(leaf.stream)}`;
  } catch {} // it is not JSON, or has no canonical form
  return `an entry of ${entry.length} bytes`;
}

import { isUtf8 } from 'node:buffer';
import { canonicalJson } from './leaf.ts';

/** Describes an entry for messages: by the event that it names and its data, or by its size and text. */
export function describeEntry(entry: Buffer): string {
  const text = entry.toString();
  try {
    const leaf = Object(JSON.parse(text));
    const isNamed = typeof leaf.id === 'string' && typeof leaf.stream === 'string';
    // Without this check, two members may have the same name.
    if (isNamed && canonicalJson(leaf) === text) {
      const data = leaf.data ?? leaf.dataAndMetadata;
      const shown = data === undefined ? '' : ` with the data ${canonicalJson(data)}`;
      return `event ${JSON.stringify(leaf.id)} of ${JSON.stringify(leaf.stream)}${shown}`;
    }
  } catch {} // it is not JSON, or has no canonical form
  return `an entry of ${entry.length} bytes${isUtf8(entry) ? `, ${JSON.stringify(text)},` : ''}`;
}

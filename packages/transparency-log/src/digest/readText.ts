import { decodeUtf8, sha256 as hash, NotVerified } from '@event-sourced/tlog';
import { entryOf } from './eventEntry.ts';
import { canonicalJson, isRevision } from './eventText.ts';

/** An event as its text shows it. `dataAndMetadata` replaces data and metadata that have no canonical form. */
export type EventInText = {
  id: string;
  stream: string;
  revision: string;
  type: string;
  data?: unknown;
  metadata?: unknown;
  dataAndMetadata?: string;
};

/** Reads the text of an event; returns the event and its entry. @throws NotVerified for any other text */
export function readText(bytes: Uint8Array): { event: EventInText; entry: string } {
  const event = parseText(decodeUtf8(bytes));
  if (!event) throw new NotVerified('it is not the text of an event in its canonical form');
  return { event, entry: entryOf({ sha256: hash(bytes), type: event.type }) };
}

/** Only the canonical form counts: in another one, two members may have the same name. */
function parseText(text: string): EventInText | undefined {
  try {
    const members = JSON.parse(text);
    if (canonicalJson(members) !== text) return undefined;
    const { names, data, metadata, dataAndMetadata, ...others } = members;
    const [id, stream, revision, type] =
      names === undefined ? [others.id, others.stream, others.revision, others.type] : JSON.parse(names);
    const expected = names === undefined ? { id, revision, stream, type } : {};
    const isEvent =
      [id, stream, type].every((name) => typeof name === 'string') &&
      isRevision(revision) &&
      (dataAndMetadata === undefined
        ? names === undefined
        : typeof dataAndMetadata === 'string' && data === undefined && metadata === undefined) &&
      canonicalJson(others) === canonicalJson(expected) &&
      (names === undefined || names === JSON.stringify([id, stream, revision, type]));
    return isEvent ? { id, stream, revision, type, data, metadata, dataAndMetadata } : undefined;
  } catch {
    return undefined; // it is not JSON, or not I-JSON
  }
}

/** Describes an event for messages. */
export function describeEvent({ id, stream, data, dataAndMetadata }: EventInText): string {
  const content = data ?? dataAndMetadata;
  const shown = content === undefined ? '' : ` with the data ${canonicalJson(content)}`;
  return `event ${JSON.stringify(id)} of ${JSON.stringify(stream)}${shown}`;
}

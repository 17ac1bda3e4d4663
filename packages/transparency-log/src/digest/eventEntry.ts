import type { RecordedEvent } from '@event-sourced/event-log';
import { digestInStub, EVENT_ERASED, type EventDigest, stubStream } from '@event-sourced/event-log/erasure';
import { sha256 as hash } from '@event-sourced/tlog';
import { eventText, type TextEvent } from './eventText.ts';

// The entry of an event: 32 bytes, the same whether the event is there or erased. Hashes are in lower-case hexadecimal.

/** An entry covers the type, so that a stub cannot deny what it replaces. */
export const entryOf = ({ sha256, type }: EventDigest): string => hash(JSON.stringify({ sha256, type }));

/** What a stub of this event keeps. */
export const digestOf = (event: TextEvent): EventDigest => ({
  sha256: hash(eventText(event).text),
  type: event.type,
});

/** The entry of an event, or of the erased event whose stub it is. */
export const eventEntry = (event: TextEvent): string => stubEntry(event) ?? entryOf(digestOf(event));

/** The stub that replaces an event. It follows from the digest and the prefix of streams, so all copies of a log agree. */
export function stubOf({ sha256, type }: EventDigest, prefix: string): Omit<RecordedEvent, 'position'> {
  const id = stubId(entryOf({ sha256, type }));
  return {
    stream: stubStream(prefix, id),
    revision: 0n,
    id,
    type: EVENT_ERASED,
    data: { sha256, type },
    metadata: {},
  };
}

/** The digest in a stub, whose ID must follow from it; undefined for any other event. */
export function stubDigest(event: TextEvent): EventDigest | undefined {
  const digest = digestInStub(event);
  return digest && event.id === stubId(entryOf(digest)) ? digest : undefined;
}

function stubEntry(event: TextEvent): string | undefined {
  const digest = stubDigest(event);
  return digest && entryOf(digest);
}

/** A UUID version 8 (RFC 9562 section 5.8) of the first bits of an entry. */
function stubId(entry: string): string {
  const variant = ((Number.parseInt(entry.charAt(16), 16) & 3) | 8).toString(16);
  const hex = `${entry.slice(0, 12)}8${entry.slice(13, 16)}${variant}${entry.slice(17, 32)}`;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

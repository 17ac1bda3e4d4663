import type { EventDigest } from '@event-sourced/event-log/erasure';
import type { CloudEvent } from '@event-sourced/event-log/replay';
import { sha256 as hash } from '@event-sourced/tlog';
import { entryOf, eventEntry, stubDigest } from './eventEntry.ts';
import { canonicalText, formatText, isRevision, type TextEvent, textContent } from './eventText.ts';

/** The attributes of a CloudEvent that show what the entry covers, besides its data. */
export function hashedAttributes(
  event: TextEvent,
): Pick<CloudEvent, 'metadata' | 'dataandmetadata' | 'erased'> {
  if (stubDigest(event)) return { erased: eventEntry(event) };
  const content = textContent(event);
  if ('dataAndMetadata' in content) return { dataandmetadata: content.dataAndMetadata };
  return content.metadata === undefined ? {} : { metadata: content.metadata };
}

/** The text of an event in CloudEvents format, equal to `eventText`. @throws Error if it is not an event of a log */
export function cloudEventText(event: CloudEvent): string {
  const { id, subject: stream, revision, type, data, metadata, dataandmetadata } = event;
  const names = { id, stream, revision, type };
  if (dataandmetadata !== undefined) return formatText(names, { dataAndMetadata: dataandmetadata });
  return formatText(names, {
    data: canonicalText(data),
    metadata: metadata === undefined ? undefined : canonicalText(JSON.parse(metadata)),
  });
}

/**
 * The entry of an event in CloudEvents format, with the data that it covers; `digest` is that of a stub, which must follow
 * from it. @throws Error if it is not an event of a log
 */
export function cloudEventEntry(event: CloudEvent): { entry: string; data: unknown; digest?: EventDigest } {
  const { id, subject: stream, revision, type, metadata } = event;
  if (![id, stream, type].every((name) => typeof name === 'string') || !isRevision(revision))
    throw new Error('the line has no event of a log');
  const data = event.dataandmetadata === undefined ? event.data : undefined;
  if (event.erased === undefined)
    return { entry: entryOf({ sha256: hash(cloudEventText(event)), type }), data };
  const digest = stubDigest({ id, stream, revision: BigInt(revision), type, data, metadata: metadata ?? {} });
  if (!digest || entryOf(digest) !== event.erased)
    throw new Error('the line of an erased event is malformed');
  return { entry: event.erased, data, digest };
}

import type { CloudEvent } from '@event-sourced/event-log/replay';
import { canonicalText, type LeafEvent, leafContent, leafTextOf } from './leaf.ts';

/** The attributes of a CloudEvent that show what of the event is hashed, besides its data. */
export function hashedAttributes(event: LeafEvent): Pick<CloudEvent, 'metadata' | 'dataandmetadata'> {
  const content = leafContent(event);
  if ('dataAndMetadata' in content) return { dataandmetadata: content.dataAndMetadata };
  return content.metadata === undefined ? {} : { metadata: content.metadata };
}

/** The leaf of an event, as `leafText` makes it. @throws Error if the CloudEvent is not one of an event */
export function leafOfCloudEvent(event: CloudEvent): string {
  const { id, subject: stream, revision, type, data, metadata, dataandmetadata } = event;
  const names = { id, stream, revision, type };
  if (dataandmetadata !== undefined) return leafTextOf(names, { dataAndMetadata: dataandmetadata });
  return leafTextOf(names, {
    data: canonicalText(data),
    metadata: metadata === undefined ? undefined : canonicalText(JSON.parse(metadata)),
  });
}

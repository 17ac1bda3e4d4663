import type { CloudEvent } from '@event-sourced/event-log/replay';
import { leafHash } from '../merkle/merkleTree.ts';
import { canonicalText, formatLeaf, type LeafEvent, leafContent } from './leaf.ts';

/** The attributes of a CloudEvent that show the hashed text of the event, besides its data. */
export function hashedAttributes(event: LeafEvent): Pick<CloudEvent, 'metadata' | 'dataandmetadata'> {
  if (event.erased !== undefined) return {};
  const content = leafContent(event);
  if ('dataAndMetadata' in content) return { dataandmetadata: content.dataAndMetadata };
  return content.metadata === undefined ? {} : { metadata: content.metadata };
}

/** The leaf hash of an event in CloudEvents format, or of the erased event whose stub it is. @throws Error */
export const cloudEventLeafHash = (event: CloudEvent): string =>
  event.erased ?? leafHash(cloudEventLeaf(event));

/** The leaf of an event in CloudEvents format, equal to `leafText`. @throws Error if it is not an event of a log */
export function cloudEventLeaf(event: CloudEvent): string {
  const { id, subject: stream, revision, type, data, metadata, dataandmetadata } = event;
  const names = { id, stream, revision, type };
  if (dataandmetadata !== undefined) return formatLeaf(names, { dataAndMetadata: dataandmetadata });
  return formatLeaf(names, {
    data: canonicalText(data),
    metadata: metadata === undefined ? undefined : canonicalText(JSON.parse(metadata)),
  });
}

import { printableJson } from '@event-sourced/node/cli';
import { isRfc3339, parseRfc3339 } from '@event-sourced/node/time';
import { type Static, Type } from 'typebox';
import type { RecordedEvent } from '../eventStore.ts';

const optionalText = (description: string) => Type.Optional(Type.String({ description }));

/**
 * An event in the JSON format of CloudEvents 1.0
 * (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md), with extension
 * attributes. Positions and revisions are strings: they have 64 bits, a CloudEvents integer has 32.
 */
export const CloudEvent = Type.Object(
  {
    specversion: Type.Literal('1.0'),
    id: Type.String(),
    source: Type.String({ format: 'uri', description: 'The URI of this store.' }),
    type: Type.String(),
    subject: Type.String({ description: 'The stream.' }),
    time: Type.Optional(
      Type.String({ format: 'date-time', description: 'The time of the event: occurredAt in its metadata.' }),
    ),
    datacontenttype: Type.Optional(Type.String()),
    data: Type.Optional(Type.Unknown()),
    data_base64: optionalText('Data that is not JSON.'),
    position: Type.String({ description: 'The position in the log; positions increase, with gaps.' }),
    revision: Type.String({ description: 'The revision in the stream, from 0.' }),
    correlationid: optionalText('The Request-Id of the request that caused the event.'),
    schemaversion: Type.Optional(Type.Integer()),
    traceparent: optionalText(
      'The trace of the request that caused the event (W3C Trace Context; extension Distributed Tracing).',
    ),
    metadata: optionalText('The complete metadata, as the canonical JSON (RFC 8785) that is hashed.'),
    dataandmetadata: optionalText(
      'Replaces metadata if the event has no canonical JSON: the text that is hashed.',
    ),
    erased: optionalText('Only for the stub of an erased event: its entry, in hexadecimal.'),
  },
  { $id: 'CloudEvent', description: 'An event in the JSON format of CloudEvents 1.0.' },
);
export type CloudEvent = Static<typeof CloudEvent>;

type CloudEventFormat = {
  source: string;
  /** The attributes that show which text of an event is hashed. */
  hashed?: (event: RecordedEvent) => Pick<CloudEvent, 'metadata' | 'dataandmetadata' | 'erased'>;
};

/** Converts an event to a CloudEvent; JSON omits undefined members. */
export function toCloudEvent(event: RecordedEvent, { source, hashed }: CloudEventFormat): CloudEvent {
  const { id, type, stream, position, revision, data } = event;
  const { occurredAt, $correlationId, schemaVersion, traceparent } = metadataObject(event);
  const bytes = data instanceof Uint8Array ? data : undefined;
  const shown = hashed?.(event);
  const cloudEvent: { [Name in keyof CloudEvent]: CloudEvent[Name] | undefined } = {
    specversion: '1.0',
    id,
    source,
    type,
    subject: stream,
    time: isRfc3339(occurredAt) ? occurredAt : undefined,
    datacontenttype: contentType(data),
    data: bytes ? undefined : data,
    data_base64: bytes && Buffer.from(bytes).toString('base64'),
    position: String(position),
    revision: String(revision),
    correlationid: nonEmptyText($correlationId),
    schemaversion: isInt32(schemaVersion) ? schemaVersion : undefined,
    traceparent: nonEmptyText(traceparent),
    metadata: shown?.metadata,
    dataandmetadata: shown?.dataandmetadata,
    erased: shown?.erased,
  };
  return cloudEvent as CloudEvent;
}

/** An event as one line of JSON, without the line end. */
export const cloudEventLine = (event: RecordedEvent, format: CloudEventFormat): string =>
  printableJson(JSON.stringify(toCloudEvent(event, format)));

/** CloudEvents attributes must not be empty. */
function nonEmptyText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** When an event occurred, in milliseconds since 1970; undefined if its metadata has no time. */
export function occurredAt(event: RecordedEvent): number | undefined {
  return parseRfc3339(metadataObject(event).occurredAt);
}

type Metadata = Record<string, unknown>;

function metadataObject({ metadata }: RecordedEvent): Metadata {
  return typeof metadata === 'object' && metadata !== null ? (metadata as Metadata) : {};
}

function contentType(data: unknown): string | undefined {
  if (data === undefined) return undefined;
  return data instanceof Uint8Array ? 'application/octet-stream' : 'application/json';
}

function isInt32(value: unknown): value is number {
  return typeof value === 'number' && value === (value | 0);
}

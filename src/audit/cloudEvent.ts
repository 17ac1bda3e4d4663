import { type Static, Type } from 'typebox';
import type { RecordedEvent } from '../eventStore/eventStore.ts';
import { timeOf } from '../time.ts';

/**
 * An event of the log as CloudEvents 1.0 has it (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md),
 * with four extensions. Positions and revisions have 64 bits, and are text: an integer there has 32.
 */
export const CloudEvent = Type.Object(
  {
    specversion: Type.Literal('1.0'),
    id: Type.String(),
    source: Type.String({ format: 'uri', description: 'This store.' }),
    type: Type.String(),
    subject: Type.String({ description: 'The stream.' }),
    time: Type.Optional(
      Type.String({ format: 'date-time', description: 'When it happened: occurredAt of its metadata.' }),
    ),
    datacontenttype: Type.Optional(Type.String()),
    data: Type.Optional(Type.Unknown()),
    data_base64: Type.Optional(Type.String({ description: 'Data that is no JSON.' })),
    position: Type.String({ description: 'Its place in the log; positions grow, with gaps.' }),
    revision: Type.String({ description: 'Its place in the stream, from 0.' }),
    correlationid: Type.Optional(Type.String({ description: 'The Request-Id of the request behind it.' })),
    schemaversion: Type.Optional(Type.Integer()),
  },
  { $id: 'CloudEvent', description: 'An event, in the JSON format of CloudEvents 1.0.' },
);
export type CloudEvent = Static<typeof CloudEvent>;

export function cloudEvent(event: RecordedEvent, source: string): CloudEvent {
  const { id, type, stream, position, revision, data } = event;
  const { occurredAt, $correlationId, schemaVersion } = metadataOf(event);
  const time = timeOf(occurredAt) === undefined ? undefined : String(occurredAt);
  return {
    specversion: '1.0',
    id,
    source,
    type,
    subject: stream,
    ...(time !== undefined && { time }),
    ...content(data),
    position: String(position),
    revision: String(revision),
    ...(typeof $correlationId === 'string' && $correlationId !== '' && { correlationid: $correlationId }),
    ...(isInt32(schemaVersion) && { schemaversion: schemaVersion }),
  };
}

/** When an event happened, by its metadata, in milliseconds since 1970; undefined where they do not say. */
export function occurredAt(event: RecordedEvent): number | undefined {
  return timeOf(metadataOf(event).occurredAt);
}

function metadataOf({ metadata }: RecordedEvent): Record<string, unknown> {
  return typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {};
}

function content(data: unknown): Pick<CloudEvent, 'datacontenttype' | 'data' | 'data_base64'> {
  if (data === undefined) return {};
  if (data instanceof Uint8Array)
    return {
      datacontenttype: 'application/octet-stream',
      data_base64: Buffer.from(data).toString('base64'),
    };
  return { datacontenttype: 'application/json', data };
}

function isInt32(value: unknown): value is number {
  return typeof value === 'number' && value === (value | 0);
}

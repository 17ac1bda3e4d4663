import { InvalidEvent, type NewEvent, type RecordedEvent, UUID } from '@event-sourced/event-log';
import { isRfc3339 } from '@event-sourced/node/time';
import { type Static, type TProperties, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { canHaveRevision, isInt64Text, parsePlantStream, plantStream } from './stream.ts';
import { isUser } from './user.ts';

// The log stores these names and shapes forever: add to them, never change them.

/** An event of a plant. Its data begins with the ID, as text since few JSON parsers keep 64-bit integers, and the user. */
function plantEvent<P extends TProperties>(properties: P) {
  const schema = Type.Object({
    id: Type.Refine(Type.String(), isInt64Text),
    user: Type.Refine(Type.String(), isUser),
    ...properties,
  });
  return { schema, isData: Compile(schema) };
}

/** The known events, by type. */
export const EVENTS = {
  PlantCreated: plantEvent({ name: Type.String(), tag: Type.Optional(Type.String()) }),
};

const SCHEMA_VERSION = 1;

/** The metadata of every event. */
const Metadata = Type.Object({
  $correlationId: Type.String(),
  schemaVersion: Type.Literal(SCHEMA_VERSION),
  occurredAt: Type.Refine(Type.String(), isRfc3339),
  /** W3C Trace Context: the trace of the request, and the span that sent it. */
  traceparent: Type.Optional(Type.String({ pattern: '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' })),
});
const isMetadata = Compile(Metadata);

/** A valid event of a plant's stream. */
export type PlantEvent = {
  [Type in keyof typeof EVENTS]: { type: Type; data: Static<(typeof EVENTS)[Type]['schema']> };
}[keyof typeof EVENTS];

/** What every command needs besides its arguments. */
export type CommandContext = {
  now: () => Date;
  newEventId: (now: Date) => string;
  correlationId: string;
  traceparent?: string | undefined;
};

/** Creates an event to append, with the metadata of its command. */
export function newPlantEvent(
  { type, data }: PlantEvent,
  { now, newEventId, correlationId, traceparent }: CommandContext,
): NewEvent {
  const occurredAt = now();
  return {
    id: newEventId(occurredAt),
    type,
    data,
    metadata: {
      $correlationId: correlationId,
      schemaVersion: SCHEMA_VERSION,
      occurredAt: occurredAt.toISOString(),
      ...(traceparent !== undefined && { traceparent }),
    },
  };
}

/** Whether this service knows the event type. */
export function isKnownType(type: string): type is PlantEvent['type'] {
  return Object.hasOwn(EVENTS, type);
}

/**
 * Parses an event of a plant's stream; undefined for other events: an unknown type, another kind of stream, or a
 * revision at which the type does not occur.
 * @throws InvalidEvent
 */
export function parsePlantEvent(event: RecordedEvent): PlantEvent | undefined {
  const { type, revision, stream, data } = event;
  if (!isKnownType(type) || !canHaveRevision(type, revision)) return undefined;
  if (EVENTS[type].isData.Check(data) && stream === plantStream(data.user, data.id))
    return { type, data } as PlantEvent;
  if (!parsePlantStream(stream)) return undefined;
  throw new InvalidEvent(event);
}

/**
 * Completes "position N: …": why this service cannot have appended an event of a known type; undefined if it can. Stricter
 * than `parsePlantEvent`, which skips other events.
 */
export function plantEventProblem(event: RecordedEvent): string | undefined {
  const { id, type, stream, revision, data, metadata } = event;
  if (!isKnownType(type)) return undefined;
  const { schema, isData } = EVENTS[type];
  if (!isData.Check(data)) return `its data is not valid for a ${type}`;
  const own = plantStream(data.user, data.id);
  if (stream !== own)
    return `it is in the stream ${JSON.stringify(stream)}, but its data belongs to ${JSON.stringify(own)}`;
  if (!canHaveRevision(type, revision)) return `it is a ${type} at revision ${revision} of its stream`;
  if (!isMetadata.Check(metadata)) return `its metadata is not valid for a ${type}`;
  const unknown = unknownMember(data, schema.properties);
  if (unknown !== undefined) return `its data has the unknown member ${JSON.stringify(unknown)}`;
  const added = unknownMember(metadata, Metadata.properties);
  if (added !== undefined) return `its metadata has the unknown member ${JSON.stringify(added)}`;
  if (!UUID.test(id)) return 'its ID is not a UUID';
  return undefined;
}

function unknownMember(value: object, properties: object): string | undefined {
  return Object.keys(value).find((name) => !Object.hasOwn(properties, name));
}

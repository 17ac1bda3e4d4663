import { type Json, type NewEvent, type Position, type RecordedEvent, START } from './eventStore.ts';
import { isPosition } from './position.ts';

// An erased event leaves a stub with its leaf hash in its place, and a later record names the stub. What the hash
// covers is the business of the caller.

/** The type of a stub. Stores accept no other event of this type. */
export const EVENT_ERASED = 'EventErased';
/** The type of a record. */
export const EVENTS_ERASED = 'EventsErased';

/** A record of this number of events has 55 KB: it fits into an entry of a transparency log. */
export const EVENTS_PER_RECORD = 500;

/** An event that is erased: its leaf hash in hexadecimal, and its position. */
export type ErasedEvent = { position: Position; leaf: string };

/** What a record says: these events of the log with this ID are erased. A copy may have other positions. */
export type Erasure = { log: string; events: readonly ErasedEvent[] };

const LEAF = /^[\da-f]{64}$/;

type StreamEvent = Omit<RecordedEvent, 'position' | 'erased'>;

/** The stub of an event. It follows from the leaf hash and the prefix of streams alone, so all copies of a log agree. */
export function stubOf(leaf: string, prefix: string): StreamEvent {
  const id = stubId(leaf);
  return {
    stream: `${prefix}erased-${id}`,
    revision: 0n,
    id,
    type: EVENT_ERASED,
    data: { leaf },
    metadata: {},
  };
}

/** The leaf hash in a stub; undefined for any other event. */
export function leafOfStub({ stream, revision, id, type, data, metadata }: StreamEvent): string | undefined {
  if (type !== EVENT_ERASED) return undefined;
  const { leaf, ...others } = Object(data) as { leaf?: unknown };
  const isStub =
    typeof leaf === 'string' &&
    LEAF.test(leaf) &&
    id === stubId(leaf) &&
    stream.endsWith(`erased-${id}`) &&
    !stream.includes('/') && // it is in no stream of an entity
    revision === 0n &&
    [others, metadata].every((value) => JSON.stringify(value) === '{}');
  return isStub ? leaf : undefined;
}

/** An event that a store has read; if it is a stub, with the leaf hash. */
export function withErased(event: Omit<RecordedEvent, 'erased'>): RecordedEvent {
  const erased = leafOfStub(event);
  return erased === undefined ? event : { ...event, erased };
}

/** A UUID version 8 (RFC 9562 section 5.8) of the first bits of a leaf hash. */
function stubId(leaf: string): string {
  const variant = ((Number.parseInt(leaf.charAt(16), 16) & 3) | 8).toString(16);
  const hex = `${leaf.slice(0, 12)}8${leaf.slice(13, 16)}${variant}${leaf.slice(17, 32)}`;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The prefix of the streams of records, in a log whose streams have this prefix. */
export const recordStreams = (prefix: string): string => `${prefix}erasure-`;

/** The data of a record. */
export function erasureData({ log, events }: Erasure): NewEvent['data'] {
  return { log, events: events.map(({ position, leaf }): Json => ({ position: String(position), leaf })) };
}

/**
 * What a record says; undefined for any other event: a record is in a stream of its own, which has its ID. Another
 * program may have written it.
 */
export function parseErasure({
  stream,
  id,
  type,
  data,
}: Pick<RecordedEvent, 'stream' | 'id' | 'type' | 'data'>): Erasure | undefined {
  if (type !== EVENTS_ERASED || !stream.endsWith(recordStreams('') + id)) return undefined;
  const { log, events } = Object(data) as { log?: unknown; events?: unknown };
  if (typeof log !== 'string' || !Array.isArray(events)) return undefined;
  const parsed = events.map((event) => parseErasedEvent(Object(event)));
  return parsed.includes(undefined) ? undefined : { log, events: parsed as ErasedEvent[] };
}

function parseErasedEvent({ position, leaf }: { [name: string]: unknown }): ErasedEvent | undefined {
  if (typeof leaf !== 'string' || !LEAF.test(leaf)) return undefined;
  if (typeof position !== 'string' || !/^[1-9]\d{0,18}$/.test(position)) return undefined;
  const at = BigInt(position);
  return isPosition(at) && at > START ? { position: at, leaf } : undefined;
}

import { EVENT_ERASED, isStub } from './erasure/erasure.ts';
import { UUID } from './eventId.ts';
import { type NewEvent, NO_STREAM, WrongExpectedRevision } from './eventStore.ts';
import { isPosition } from './position.ts';

/** A valid append, as stores send it to their threads: data and metadata are JSON. */
export type AppendRequest = Record<'stream' | 'id' | 'type' | 'data' | 'metadata', string> & {
  expectedRevision: bigint;
};

/**
 * Checks an append; every store accepts the same ones. EventStoreDB would replace unpaired surrogates in a stream name,
 * so two names would become one. @throws TypeError; WrongExpectedRevision if no stream can have this revision
 */
export function appendRequest(
  stream: string,
  { id, type, ...event }: NewEvent,
  expectedRevision: bigint,
): AppendRequest {
  if (!stream.isWellFormed()) throw new TypeError('the stream name is not well-formed Unicode');
  if (stream === '') throw new TypeError('the stream name is empty');
  if (!UUID.test(id)) throw new TypeError('the event ID is not a UUID in lower case');
  if (typeof type !== 'string' || type === '') throw new TypeError('the event has no type');
  const [data, metadata] = [JSON.stringify(event.data), JSON.stringify(event.metadata)];
  if (data === undefined || metadata === undefined) throw new TypeError('the event is not JSON');
  const appended = { stream, revision: expectedRevision + 1n, id, type, ...event };
  if (type === EVENT_ERASED && !isStub(appended)) throw new TypeError(`${EVENT_ERASED} is the type of stubs`);
  if (expectedRevision !== NO_STREAM && !isPosition(expectedRevision))
    throw new WrongExpectedRevision(stream, expectedRevision);
  return { stream, id, type, data, metadata, expectedRevision };
}

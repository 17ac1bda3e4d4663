import { UUID } from '../eventId.ts';
import { assertWellFormed, type NewEvent, NO_STREAM, WrongExpectedRevision } from '../eventStore.ts';
import { isPosition } from '../position.ts';

/** An event to append, in the form that the client's thread accepts. */
export type AppendRequest = Record<'stream' | 'id' | 'type' | 'data' | 'metadata', string> & {
  expectedRevision: bigint;
};

/** Below the server's limit for a message, 16 MiB. The server itself reports its lower limit for an append. */
const MAX_EVENT_BYTES = 15 * 1_024 * 1_024;

/**
 * Checks an append before it is sent. All appends share one gRPC call: one that the client cannot serialise, or the
 * server cannot parse, would fail them all. @throws TypeError; WrongExpectedRevision if no stream can have this
 * revision
 */
export function appendRequest(
  stream: string,
  { id, type, ...event }: NewEvent,
  expectedRevision: bigint,
): AppendRequest {
  assertWellFormed(stream);
  if (stream === '') throw new TypeError('the stream name is empty');
  if (!UUID.test(id)) throw new TypeError('the event ID is not a UUID in lower case');
  if (typeof type !== 'string' || type === '') throw new TypeError('the event has no type');
  const [data, metadata] = [JSON.stringify(event.data), JSON.stringify(event.metadata)];
  if (data === undefined || metadata === undefined) throw new TypeError('the event is not JSON');
  if (Buffer.byteLength(data) + Buffer.byteLength(metadata) > MAX_EVENT_BYTES)
    throw new TypeError(`the event has more than ${MAX_EVENT_BYTES} bytes`);
  if (expectedRevision !== NO_STREAM && !isPosition(expectedRevision))
    throw new WrongExpectedRevision(stream, expectedRevision);
  return { stream, id, type, data, metadata, expectedRevision };
}

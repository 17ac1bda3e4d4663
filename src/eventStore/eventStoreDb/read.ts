import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  START as CLIENT_START,
  END,
  type EventStoreDBClient,
  FORWARDS,
  type ResolvedEvent,
  type StreamingRead,
} from '@eventstore/db-client';
import {
  type BackwardRange,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
} from '../eventStore.ts';
import { GRPC_STATUS, OperationFailed } from './failures.ts';

/**
 * A read fails when no event has arrived for so long, in milliseconds. The client takes a deadline and
 * ignores it.
 */
const READ_TIMEOUT_MS = 3_000;

/** A follower may lag behind what has been acknowledged; the leader does not. */
export const FROM_LEADER = { requiresLeader: true };

export async function readEdge(
  client: EventStoreDBClient,
  edge: 'first' | 'last',
): Promise<RecordedEvent | undefined> {
  const options = { maxCount: 1, ...FROM_LEADER };
  const read =
    edge === 'first'
      ? client.readAll({ fromPosition: CLIENT_START, direction: FORWARDS, ...options })
      : client.readAll({ fromPosition: END, direction: BACKWARDS, ...options });
  return (await collect(read)).events[0];
}

/** A page of $all from a position on, inclusive; empty if no event starts at the position. */
export async function readFrom(
  client: EventStoreDBClient,
  position: Position,
  maxCount: number,
): Promise<Collected> {
  const fromPosition = position === START ? CLIENT_START : { commit: position, prepare: position };
  try {
    const read = client.readAll({ fromPosition, direction: FORWARDS, maxCount, ...FROM_LEADER });
    const page = await collect(read, PAGE_LENGTH);
    return position === START || page.events[0]?.position === position ? page : NOTHING;
  } catch (error) {
    if (position !== START && isInvalidPosition(error as Error)) return NOTHING;
    throw error;
  }
}

/** EventStoreDB 23.10 responds "Unexpected ReadAllResult: Error" to a position between two events. */
function isInvalidPosition({ code, message }: Error & { code?: number }): boolean {
  const isUnknown = code === GRPC_STATUS.UNKNOWN && /position|ReadAllResult/i.test(message);
  return code === GRPC_STATUS.INVALID_ARGUMENT || isUnknown;
}

/** The events of the streams with a prefix in one page of $all; it may have none. */
export async function readPage(
  client: EventStoreDBClient,
  prefix: string,
  { after, limit }: { after: Position; limit: number },
): Promise<Page> {
  const skipped = after === START ? 0 : 1; // the event at `after` itself
  const { events, isCut } = await readFrom(client, after, limit + skipped);
  if (skipped > events.length)
    throw new OperationFailed('positionNotFound', `there is no event at position ${after}`);
  return {
    events: events.slice(skipped).filter(({ stream }) => stream.startsWith(prefix)),
    position: events.at(-1)?.position ?? after,
    isEnd: !isCut && events.length < limit + skipped,
  };
}

/** The same, newest event first. A backward read of $all starts before the position, a forward one at it. */
export async function readPageBackwards(
  client: EventStoreDBClient,
  prefix: string,
  { before, limit, prefix: narrower = '' }: BackwardRange,
): Promise<Page> {
  if (before === START) return { events: [], position: START, isEnd: true };
  const fromPosition = before === undefined ? END : { commit: before, prepare: before };
  const options = { fromPosition, direction: BACKWARDS, maxCount: limit, ...FROM_LEADER } as const;
  try {
    const { events, isCut } = await collect(client.readAll(options), PAGE_LENGTH);
    return {
      events: events.filter(({ stream }) => stream.startsWith(prefix) && stream.startsWith(narrower)),
      position: events.at(-1)?.position ?? before ?? START,
      isEnd: !isCut && events.length < limit,
    };
  } catch (error) {
    if (before === undefined || !isInvalidPosition(error as Error)) throw error;
    throw new OperationFailed('positionNotFound', `there is no event at position ${before}`);
  }
}

/** Events that were read. `isCut`: they have the length at which reading ended, so there may be more. */
type Collected = { events: RecordedEvent[]; isCut: boolean };

const NOTHING: Collected = { events: [], isCut: false };

/**
 * The events of a bounded read, until they have a length in characters. @throws OperationFailed when no event
 * arrives in time
 */
export async function collect(
  stream: StreamingRead<ResolvedEvent>,
  maxLength = Number.POSITIVE_INFINITY,
): Promise<Collected> {
  stream.on('error', () => {}); // the loop throws the first error; a second one may follow
  const timer = setTimeout(() => {
    stream.destroy(new OperationFailed('unavailable', `no response for ${READ_TIMEOUT_MS} ms`));
    void stream.cancel().catch(() => {});
  }, READ_TIMEOUT_MS);
  const events: RecordedEvent[] = [];
  let length = 0;
  try {
    for await (const { event } of stream) {
      timer.refresh();
      if (!event) continue;
      const recorded = toRecordedEvent(event);
      events.push(recorded);
      if (Number.isFinite(maxLength)) length += lengthOf(recorded.data) + lengthOf(recorded.metadata);
      if (length < maxLength || events.length < 2) continue; // the first one may be the last of the page before
      void stream.cancel().catch(() => {});
      return { events, isCut: true };
    }
  } finally {
    clearTimeout(timer);
  }
  return { events, isCut: false };
}

/** Of bytes, or of JSON: the client does not keep the text that it has parsed. */
function lengthOf(content: unknown): number {
  return content instanceof Uint8Array ? content.length : (JSON.stringify(content)?.length ?? 0);
}

export function toRecordedEvent(
  event: NonNullable<ResolvedEvent['event'] | AllStreamResolvedEvent['event']>,
): RecordedEvent {
  const { position, streamId: stream, revision, id, type, data, metadata } = event;
  if (!position) throw new Error('the server returns no positions: it must be 23.10 or later');
  return {
    position: position.commit,
    stream,
    revision,
    id,
    type,
    data: cloneable(data),
    metadata: cloneable(metadata),
  };
}

/** Deeper nesting overflows the stack of a structured clone between threads. This service writes none. */
const MAX_NESTING = 500;

function cloneable<T>(value: T): T | undefined {
  return isDeeperThan(MAX_NESTING, value) ? undefined : value;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  return levels === 0 || Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}

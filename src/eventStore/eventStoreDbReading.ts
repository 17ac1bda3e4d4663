import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  FORWARDS,
  type ResolvedEvent,
  START,
  type StreamingRead,
} from '@eventstore/db-client';
import type { Position, RecordedEvent } from './eventStore.ts';
import { Failed } from './eventStoreDbFailures.ts';

/** A read takes milliseconds. The client takes a deadline for it and overlooks it, so it is kept here; in milliseconds. */
const DEADLINE = 3_000;

/** A node that follows may lag behind what has been acknowledged; the leader never does. */
export const OF_LEADER = { requiresLeader: true };

/** Events of the whole log, the one at `from` included when reading forwards. */
export function readAll(
  client: EventStoreDBClient,
  from: Position | 'start' | 'end',
  backwards: boolean,
  maxCount: number,
): Promise<RecordedEvent[]> {
  const fromPosition = from === 'start' ? START : from === 'end' ? END : { commit: from, prepare: from };
  const direction = backwards ? BACKWARDS : FORWARDS;
  return collect(client.readAll({ fromPosition, direction, maxCount, ...OF_LEADER }));
}

/** All that a bounded read gives. @throws Failed when it gives nothing in time */
export async function collect(stream: StreamingRead<ResolvedEvent>): Promise<RecordedEvent[]> {
  stream.on('error', () => {}); // the loop throws the first one; a second may follow it
  const late = setTimeout(() => {
    stream.destroy(new Failed({ kind: 'unreachable', message: `no answer for ${DEADLINE} ms` }));
    void stream.cancel().catch(() => {});
  }, DEADLINE);
  const events: RecordedEvent[] = [];
  try {
    for await (const { event } of stream) if (event) events.push(recorded(event));
  } finally {
    clearTimeout(late);
  }
  return events;
}

export function recorded(
  event: NonNullable<ResolvedEvent['event'] | AllStreamResolvedEvent['event']>,
): RecordedEvent {
  const { position, streamId: stream, revision, id, type, data, metadata } = event;
  if (!position) throw new Error('the server gives no positions: it has to be 23.10 or later');
  return {
    position: position.commit,
    stream,
    revision,
    id,
    type,
    data: portable(data),
    metadata: portable(metadata),
  };
}

/** What is nested deeper cannot be sent from one thread to the other; it is nothing that anybody here has written. */
const LEVELS = 500;

function portable<T>(value: T): T | undefined {
  return isDeeperThan(LEVELS, value) ? undefined : value;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  return levels === 0 || Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}

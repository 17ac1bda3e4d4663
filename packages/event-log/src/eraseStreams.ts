import {
  type ErasedEvent,
  EVENTS_ERASED,
  EVENTS_PER_RECORD,
  erasureData,
  recordStreams,
  stubOf,
} from './erasure.ts';
import { newEventId } from './eventId.ts';
import type { EventStore, RecordedEvent } from './eventStore.ts';
import { readToEnd } from './readEvents.ts';
import type { NextTurn } from './time/fairQueue.ts';

/** A store that can erase. */
export type ErasableStore = EventStore & Required<Pick<EventStore, 'erase'>>;

type Options = {
  /** The streams to erase, which start with `start`. */
  streams: { start: string; has: (stream: string) => boolean };
  /** The prefix of the streams of stubs and records, without a slash: one that subscriptions deliver. */
  prefix: string;
  /** The leaf hash of an event that was read for hashing. */
  leafOf: (event: RecordedEvent) => string;
  now: () => Date;
  nextTurn?: NextTurn | undefined;
};

export const canErase = (store: EventStore): store is ErasableStore => store.erase !== undefined;

/**
 * Erases all events that the streams have now, and records it, in one transaction. Resolves with their number when it is
 * durable; see `scrubbing` of the store. Erase the same streams one after the other. @throws StoreUnavailable; then
 * nothing is erased
 */
export async function eraseStreams(store: ErasableStore, options: Options): Promise<number> {
  const { streams, prefix, leafOf, now, nextTurn } = options;
  const erased: ErasedEvent[] = [];
  for await (const { events } of readToEnd(store.forHashing, { prefix: streams.start, nextTurn }))
    for (const event of events)
      if (streams.has(event.stream) && event.erased === undefined)
        erased.push({ position: event.position, leaf: leafOf(event) });
  if (erased.length === 0) return 0;
  const log = await store.logId();
  const records = [];
  for (let i = 0; i < erased.length; i += EVENTS_PER_RECORD) {
    const id = newEventId(now());
    const data = erasureData({ log, events: erased.slice(i, i + EVENTS_PER_RECORD) });
    const metadata = { occurredAt: now().toISOString() };
    records.push({
      stream: `${recordStreams(prefix)}${id}`,
      event: { id, type: EVENTS_ERASED, data, metadata },
    });
  }
  await store.erase(
    erased.map(({ position, leaf }) => ({ position, ...stubOf(leaf, prefix) })),
    records,
  );
  return erased.length;
}

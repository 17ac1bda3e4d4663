import { hash } from 'node:crypto';
import {
  canErase,
  type ErasableStore,
  type EventStore,
  newEventId,
  type RecordedEvent,
  readToEnd,
  type Stub,
} from '@event-sourced/event-log';
import {
  EVENT_ERASED,
  EVENTS_ERASED,
  isStub,
  recordStreams,
  stubStream,
} from '@event-sourced/event-log/erasure';
import { expect } from 'vitest';

/** The store of the embedded log. */
export function erasable(store: EventStore): ErasableStore {
  if (!canErase(store)) throw new Error('the embedded log can erase');
  return store;
}

/** A stub with the form that stores expect. Its digest is any hash of the event. */
export function stubFor({ position, id, type, data }: RecordedEvent, prefix: string): Stub {
  const sha256 = hash('sha256', JSON.stringify([id, data]));
  const stubId = sha256.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, '$1-$2-8$3-8$4-$5');
  const stub = { type: EVENT_ERASED, data: { sha256, type }, metadata: {} };
  return { position, id: stubId, stream: stubStream(prefix, stubId), ...stub };
}

/** A record of these indices. */
export function recordOf(erased: readonly number[], prefix: string) {
  const id = newEventId();
  const event = { id, type: EVENTS_ERASED, data: { erased: [...erased] }, metadata: {} };
  return { stream: `${recordStreams(prefix)}${id}`, event };
}

/** Erases the events of streams, and records it, without the checks of a service. Resolves with their number. */
export async function eraseIn(
  store: ErasableStore,
  prefix: string,
  has: (stream: string) => boolean,
  perRecord = 10_000,
): Promise<number> {
  const events: RecordedEvent[] = [];
  for await (const batch of readToEnd(store.forHashing))
    events.push(...batch.events.filter((event) => has(event.stream) && !isStub(event)));
  if (events.length === 0) return 0;
  const indices = events.map(({ position }) => store.indexOf(position));
  const records = [];
  for (let i = 0; i < indices.length; i += perRecord)
    records.push(recordOf(indices.slice(i, i + perRecord), prefix));
  await store.erase(
    events.map((event) => stubFor(event, prefix)),
    records,
  );
  return events.length;
}

/** Resolves when the files of a store or a view have no bytes of erased events. */
export const scrubbed = (files: { scrub(): Promise<boolean> }): Promise<void> =>
  expect.poll(() => files.scrub()).toBe(true);

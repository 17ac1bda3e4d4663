import { randomUUID } from 'node:crypto';
import type { EventStore, RecordedEvent } from '../../event-log/src/eventStore.ts';
import type { Open } from '../../event-log/src/testing/contract.ts';
import { openOver } from './stores.ts';

/**
 * Opens stores on a shared server: the streams of each log have their own prefix, which is hidden from tests.
 */
export function openOn(url: string): Open {
  const prefixes = new WeakMap<EventStore, string>();
  return async (again) => {
    const prefix = (again && prefixes.get(again)) ?? `contract${randomUUID().slice(0, 8)}-`;
    const store = withPrefix(prefix, await openOver(url, prefix));
    prefixes.set(store, prefix);
    return store;
  };
}

function withPrefix(prefix: string, store: EventStore): EventStore {
  const shown = ({ stream, ...event }: RecordedEvent) => ({ ...event, stream: stream.replace(prefix, '') });
  return {
    get forHashing() {
      return this;
    },
    logId: () => store.logId(),
    lastPosition: () => store.lastPosition(),
    close: () => store.close(),
    append: (stream, event, expectedRevision) =>
      store.append(stream && `${prefix}${stream}`, event, expectedRevision).catch((error) => {
        if (error.existing) error.existing.first = shown(error.existing.first);
        throw error;
      }),
    readStream: async (stream, maxCount) =>
      (await store.readStream(`${prefix}${stream}`, maxCount)).map(shown),
    readEvent: async (position) => {
      const event = await store.readEvent(position);
      return event && shown(event);
    },
    readAll: async (range) => {
      const { events, ...page } = await store.readAll(range);
      return { ...page, events: events.map(shown) };
    },
    readBackwards: async (range) => {
      const { events, ...page } = await store.readBackwards({
        ...range,
        prefix: `${prefix}${range.prefix ?? ''}`,
      });
      return { ...page, events: events.map(shown) };
    },
    async *subscribe(options) {
      for await (const { events, caughtUp } of store.subscribe(options))
        yield { events: events.map(shown), caughtUp };
    },
  };
}

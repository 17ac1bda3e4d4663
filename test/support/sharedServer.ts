import { randomUUID } from 'node:crypto';
import pino from 'pino';
import type { EventStore, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import type { Open } from '../eventStore/contract.ts';

/** Opens stores on a server that others use too: the streams of each log have a prefix of their own, which tests do not see. */
export function openOn(url: string): Open {
  const prefixes = new WeakMap<EventStore, string>();
  return async (again) => {
    const prefix = (again && prefixes.get(again)) ?? `contract${randomUUID().slice(0, 8)}-`;
    const log = pino({ level: 'silent' });
    const store = withPrefix(prefix, await openEventStoreDb({ url, prefix, log }));
    prefixes.set(store, prefix);
    return store;
  };
}

function withPrefix(prefix: string, store: EventStore): EventStore {
  const shown = (event: RecordedEvent): RecordedEvent => ({
    ...event,
    stream: event.stream.replace(prefix, ''),
  });
  return {
    ...store,
    append: (stream, event, expectedRevision) => store.append(`${prefix}${stream}`, event, expectedRevision),
    readStream: async (stream, maxCount) =>
      (await store.readStream(`${prefix}${stream}`, maxCount)).map(shown),
    eventAt: async (position) => {
      const event = await store.eventAt(position);
      return event && shown(event);
    },
    async *subscribe(options) {
      for await (const { events, caughtUp } of store.subscribe(options))
        yield { events: events.map(shown), caughtUp };
    },
  };
}

import type { EventLog, RecordedEvent } from '../eventStore/eventStore.ts';
import { readToEnd } from '../eventStore/readEvents.ts';

/** The events of a log from its start to its current end, one by one. */
export type EventCursor = Disposable & { next(): Promise<RecordedEvent | undefined> };

export function openCursor(log: EventLog): EventCursor {
  const stopping = new AbortController();
  const batches = readToEnd(log, { signal: stopping.signal });
  let events: Iterator<RecordedEvent> = [].values();
  return {
    async next() {
      for (;;) {
        const { value: event } = events.next();
        if (event !== undefined) return event;
        const { value: batch } = await batches.next();
        if (!batch) return undefined;
        events = batch.events.values();
      }
    },
    [Symbol.dispose]() {
      stopping.abort();
      void batches.return(undefined);
    },
  };
}

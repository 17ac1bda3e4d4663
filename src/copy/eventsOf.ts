import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { readLog } from '../eventStore/readLog.ts';

/** A log with the name it has in messages. */
export type Side = { name: 'the source' | 'the target'; log: EventLog };

/** The events of a log from its start, one by one, as far as there are any now. */
export type Events = Disposable & { next(): Promise<RecordedEvent | undefined> };

/** Reads a log to its end. */
export function eventsOf({ name, log }: Side): Events {
  const stop = new AbortController();
  const batches = readLog(log, { after: START, signal: stop.signal });
  let events: Iterator<RecordedEvent> = [].values();
  return {
    async next() {
      for (;;) {
        const { value: event } = events.next();
        if (event !== undefined) return event;
        const { value: batch } = await reaching(name, batches.next());
        if (!batch) return undefined;
        events = batch.events.values();
      }
    },
    [Symbol.dispose]() {
      stop.abort();
      void batches.return?.(undefined);
    },
  };
}

/** The position of the last event. @throws Error when the log does not answer */
export function endOf({ name, log }: Side): Promise<Position> {
  return reaching(name, log.end());
}

async function reaching<T>(name: Side['name'], answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw new Error(`${name} cannot be reached: ${(error as Error).message}`);
  }
}

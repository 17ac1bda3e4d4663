import { setTimeout as pause } from 'node:timers/promises';
import { type EventStore, type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';

/** A log with the name it has in messages. */
export type Side = { name: 'the source' | 'the target'; log: EventStore };

/** The events of a log from its start, one by one, as far as there are any now. */
export type Events = Disposable & { next(): Promise<RecordedEvent | undefined> };

/**
 * Reads a log to its end, a batch at a time. One that gives nothing for `silence` milliseconds is asked whether it is
 * still there: a subscription would wait for it for ever.
 */
export function eventsOf(side: Side, silence: number): Events {
  const stop = new AbortController();
  const batches = side.log.subscribe({ after: START, signal: stop.signal })[Symbol.asyncIterator]();
  let events: Iterator<RecordedEvent> = [].values();
  let caughtUp = false;
  return {
    async next() {
      for (;;) {
        const { value: event } = events.next();
        if (event !== undefined || caughtUp) return event;
        const { value: batch, done } = await orAway(batches.next(), side, silence);
        if (done) throw new Error(`${side.name} has been closed`);
        events = batch.events.values();
        caughtUp = batch.caughtUp;
      }
    },
    [Symbol.dispose]() {
      stop.abort();
      void batches.return?.();
    },
  };
}

async function orAway<T>(next: Promise<T>, side: Side, silence: number): Promise<T> {
  const over = new AbortController();
  const away = async (): Promise<never> => {
    for (;;) {
      await pause(silence, undefined, over);
      await endOf(side);
    }
  };
  try {
    return await Promise.race([next, away()]);
  } finally {
    over.abort();
  }
}

/** The position of the last event. @throws Error when the log does not answer */
export async function endOf({ name, log }: Side): Promise<Position> {
  try {
    return await log.end();
  } catch (error) {
    throw new Error(`${name} cannot be reached: ${(error as Error).message}`);
  }
}

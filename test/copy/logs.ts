import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import pino from 'pino';
import { onTestFinished } from 'vitest';
import { type EventStore, type NewEvent, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { tempDir } from '../support/tempDir.ts';

/** The log of a data directory, until the test is over. */
export async function openIn(dir: string): Promise<EventStore> {
  const store = await openSqliteEventStore({
    file: join(dir, 'log.db'),
    now: () => new Date(),
    onFatal: (error) => {
      throw error;
    },
  });
  onTestFinished(() => store.close());
  return store;
}

/** The log behind a connection string, until the test is over; `patience` in milliseconds. */
export async function overDouble(url: string, patience?: number): Promise<EventStore> {
  const log = pino({ level: 'silent' });
  const store = await openEventStoreDb({
    url,
    prefix: PLANT_STREAMS,
    log,
    ...(patience !== undefined && { patience }),
  });
  onTestFinished(() => store.close());
  return store;
}

/** A data directory with so many events in its log. */
export async function dirWith(events: number): Promise<string> {
  const dir = tempDir();
  const log = await openIn(dir);
  await plantMany(log, events);
  await log.close();
  return dir;
}

export async function plantMany(log: EventStore, events: number): Promise<void> {
  const append = (i: number) => log.append(`plant-u${i % 7}/${i}`, named(`plant ${i}`), NO_STREAM);
  await Promise.all(Array.from({ length: events }, (_, i) => append(i)));
}

export function named(name: string): NewEvent {
  return { id: randomUUID(), type: 'Written', data: { name }, metadata: {} };
}

/** A server until the test is over. */
export async function startDouble(
  options?: Parameters<typeof EventStoreDbDouble.start>[0],
): Promise<EventStoreDbDouble> {
  const double = await EventStoreDbDouble.start(options);
  onTestFinished(() => double.stop());
  return double;
}

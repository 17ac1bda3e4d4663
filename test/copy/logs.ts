import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import pino from 'pino';
import { expect, onTestFinished } from 'vitest';
import type { CopyProgress } from '../../src/copy/copyLog.ts';
import { openLog } from '../../src/copy/openLog.ts';
import {
  type EventStore,
  type NewEvent,
  NO_STREAM,
  type RecordedEvent,
} from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { PLANT_STREAMS } from '../../src/plants/plant.ts';
import { everything } from '../eventStore/contract.ts';
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

/** The log behind a connection string. */
export function openOver(url: string): Promise<EventStore> {
  return openEventStoreDb({ url, prefix: PLANT_STREAMS, log: pino({ level: 'silent' }) });
}

/** The log behind a connection string, until the test is over. */
export async function overDouble(url: string): Promise<EventStore> {
  const store = await openOver(url);
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

/** As the command opens it, with its time-outs. */
export function openAsCommand(url: string): Promise<EventStore> {
  const surroundings = { mustExist: false, log: pino({ level: 'silent' }), onFatal: () => {} };
  return openLog({ url }, surroundings, new AsyncDisposableStack());
}

/** The same, until the test is over. */
export async function openedUntilFinished(url: string): Promise<EventStore> {
  const store = await openAsCommand(url);
  onTestFinished(() => store.close());
  return store;
}

/** All that two logs can have in common. */
export async function contents(store: EventStore) {
  return (await everything(store)).map(comparable);
}

export function comparable({ position, ...event }: RecordedEvent) {
  return event;
}

/** Restarts a server at the 50th event, when it is copied and when it is compared. */
export function restarting(double: EventStoreDbDouble) {
  return async ({ events }: CopyProgress) => {
    if (events !== 50) return;
    await double.stop();
    await double.restart();
  };
}

/** The message of a copy that fails. */
export async function refusal(copying: Promise<unknown>): Promise<string> {
  const outcome = await copying.catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(Error);
  return (outcome as Error).message;
}

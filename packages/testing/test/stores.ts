import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import pino from 'pino';
import { expect, onTestFinished } from 'vitest';
import {
  type EventLog,
  type EventStore,
  type NewEvent,
  NO_STREAM,
  type RecordedEvent,
} from '../../event-log/src/eventStore.ts';
import { openSqliteStore } from '../../event-log/src/sqlite/store.ts';
import { everything, type Open } from '../../event-log/src/testing/contract.ts';
import { openEventStoreDb } from '../../event-store-db/src/store.ts';
import { FakeEventStoreDb, type FakeOptions } from '../../event-store-db/src/testing/server.ts';

import { logWith } from './logs.ts';
import { type AtEnd, tempDir } from './tempDir.ts';

/** Which events a store is for, as in the service. */
export const STREAMS = { prefix: 'plant-', identityStream: 'plantstore' };

const SILENT = pino({ level: 'silent' });

async function closedAtEnd(opening: Promise<EventStore>, atEnd: AtEnd = onTestFinished): Promise<EventStore> {
  const store = await opening;
  atEnd(() => store.close());
  return store;
}

/** The log of a data directory, until the end of the test; with `afterAll`, of the file. */
export const openIn = (dir: string, atEnd?: AtEnd): Promise<EventStore> =>
  closedAtEnd(openSqliteStore({ file: join(dir, 'log.db') }), atEnd);

/** Opens stores over new files or, given a store, over its file again, until the end of the test. */
export function openFiles(open: (file: string) => Promise<EventStore>): Open {
  const files = new WeakMap<EventStore, string>();
  return async (again) => {
    const file = (again && files.get(again)) ?? join(tempDir(), 'log.db');
    const store = await closedAtEnd(open(file));
    files.set(store, file);
    return store;
  };
}

/** The log of a connection string. */
export const openOver = (url: string, prefix = STREAMS.prefix): Promise<EventStore> =>
  openEventStoreDb({ url, timeoutMs: 60_000, ...STREAMS, prefix, logger: SILENT });

/** The log of a connection string, until the end of the test. */
export const overFakeServer = (url: string) => closedAtEnd(openOver(url));

/** A data directory whose log has this number of events of unknown type, appended by appendMany. */
export const dirWith = (events: number): string =>
  logWith({ events, after: -1, type: 'Written', user: "'u' || (id % 7)" });

/** A slow machine can do this number of appends within the timeout of one call. */
const PORTION = 100;

export async function appendMany(log: EventStore, events: number): Promise<void> {
  const append = (i: number) => log.append(`plant-u${i % 7}/${i}`, named(`plant ${i}`), NO_STREAM);
  for (let first = 0; first < events; first += PORTION)
    await Promise.all(Array.from({ length: Math.min(PORTION, events - first) }, (_, i) => append(first + i)));
}

export function named(name: string): NewEvent {
  return { id: randomUUID(), type: 'Written', data: { name }, metadata: {} };
}

/** A fake server until the end of the test; with `afterAll`, of the file. */
export async function startFakeServer(
  options: FakeOptions = {},
  atEnd: AtEnd = onTestFinished,
): Promise<FakeEventStoreDb> {
  const server = await FakeEventStoreDb.start(options);
  atEnd(() => server.stop());
  return server;
}

/** The events without their positions, which differ between logs. */
export async function contents(store: EventLog) {
  return (await everything(store)).map(comparable);
}

export function comparable({ position, ...event }: RecordedEvent) {
  return event;
}

/** The message of a copy that fails. */
export async function refusal(copying: Promise<unknown>): Promise<string> {
  const outcome = await copying.catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(Error);
  return (outcome as Error).message;
}

/** The settings of an empty log, and a function that writes an event of another category, if the store supports that. */
export async function emptyLog(kind: 'the embedded log' | 'EventStoreDB') {
  const DATA_DIR = tempDir();
  if (kind === 'the embedded log') return { env: { DATA_DIR }, writeOther: () => {} };
  const server = await startFakeServer();
  const env = { DATA_DIR, EVENTSTOREDB_URL: server.url };
  return { env, writeOther: () => void server.write('other-1') };
}

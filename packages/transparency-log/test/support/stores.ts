import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type EventStore, NO_STREAM } from '../../../event-log/src/eventStore.ts';
import { openEventStoreDb } from '../../../event-log/src/eventStoreDb/store.ts';
import { SILENT } from '../../../event-log/src/logger.ts';
import { openSqliteStore } from '../../../event-log/src/sqlite/store.ts';
import { FakeEventStoreDb } from '../../../event-log/src/testing/fakeEventStoreDb/server.ts';

type AtEnd = (close: () => Promise<void>) => void;

/** The embedded log of a directory, until the end of the test; with `afterAll`, of the file. */
export async function openIn(dir: string, atEnd: AtEnd = onTestFinished): Promise<EventStore> {
  const store = await openSqliteStore({ file: join(dir, 'log.db') });
  atEnd(() => store.close());
  return store;
}

/** A log in a fake server of EventStoreDB, until the end of the test, and its server. */
export async function openFake(): Promise<{ server: FakeEventStoreDb; store: EventStore }> {
  const server = await FakeEventStoreDb.start();
  onTestFinished(() => server.stop());
  server.write('identity', { type: 'LogBegun' }); // the first event identifies the log
  const streams = { prefix: 'plant-', identityStream: 'identity' };
  const store = await openEventStoreDb({ url: server.url, timeoutMs: 60_000, ...streams, logger: SILENT });
  onTestFinished(() => store.close());
  return { server, store };
}

/** A slow machine can do this number of appends within the timeout of one call. */
const PORTION = 100;

/** Appends an event of unknown type to each of `count` streams. */
export async function appendMany(log: EventStore, events: number): Promise<void> {
  const append = (i: number) =>
    log.append(
      `plant-u${i % 7}/${i}`,
      { id: randomUUID(), type: 'Written', data: {}, metadata: {} },
      NO_STREAM,
    );
  for (let first = 0; first < events; first += PORTION)
    await Promise.all(Array.from({ length: Math.min(PORTION, events - first) }, (_, i) => append(first + i)));
}

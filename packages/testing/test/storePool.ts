import { afterAll, onTestFinished } from 'vitest';
import type { EventStore } from '../../event-log/src/eventStore.ts';
import { FakeEventStoreDb, type FakeOptions } from '../../event-store-db/src/testing/server.ts';

type Pooled = { store: EventStore; server: FakeEventStoreDb };

/**
 * Stores over EventStoreDB for the tests of a file, each with its own fake server, whose log is empty when a
 * test gets it. They are reused, since each starts a thread.
 */
export function storePool(
  open: (url: string) => Promise<EventStore>,
  options: FakeOptions = {},
): () => Promise<Pooled> {
  const all: Pooled[] = [];
  const idle: Pooled[] = [];
  afterAll(async () => {
    for (const { store, server } of all) {
      await store.close();
      await server.stop();
    }
  });
  return async () => {
    let pooled = idle.pop();
    if (!pooled) {
      const server = await FakeEventStoreDb.start(options);
      server.write('plantstore', { type: 'LogBegun' }); // the first event identifies the log
      pooled = { server, store: await open(server.url) };
      all.push(pooled);
    }
    const borrowed = pooled;
    onTestFinished(async () => {
      await borrowed.server.clear();
      idle.push(borrowed);
    });
    return borrowed;
  };
}

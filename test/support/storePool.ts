import { afterAll, onTestFinished } from 'vitest';
import type { EventStore } from '../../src/eventStore/eventStore.ts';
import { type DoubleOptions, EventStoreDbDouble } from './eventStoreDbDouble.ts';

type Pooled = { store: EventStore; server: EventStoreDbDouble };

/**
 * Stores over EventStoreDB for the tests of a file, each with a server of its own, whose log is empty when a test gets
 * it. They are kept from one test to the next, since each costs a thread.
 */
export function storePool(
  open: (url: string) => Promise<EventStore>,
  options: DoubleOptions = {},
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
      const server = await EventStoreDbDouble.start(options);
      server.write('plantstore', { type: 'LogBegun' }); // by which the stores know the log again
      pooled = { server, store: await open(server.url) };
      all.push(pooled);
    }
    const taken = pooled;
    onTestFinished(async () => {
      await taken.server.clear();
      idle.push(taken);
    });
    return taken;
  };
}

import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { EventStore } from '../../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../../src/eventStore/eventStoreDb/store.ts';
import { FakeEventStoreDb, type FakeOptions } from '../../fakeEventStoreDb/server.ts';
import { openOn } from '../../support/sharedServer.ts';
import { storePool } from '../../support/storePool.ts';
import { eventStoreContract, type Open } from '../contract.ts';

const WITHOUT_BATCHES = { serverFeatures: 'unimplemented' } satisfies FakeOptions;

const servers = new WeakMap<EventStore, FakeEventStoreDb>();

function openOver(options: FakeOptions): Open {
  return async (again) => {
    const known = again && servers.get(again);
    const server = known ?? (await FakeEventStoreDb.start(options));
    if (!known) onTestFinished(() => server.stop());
    const store = await connect(server.url);
    servers.set(store, server);
    return store;
  };
}

function connect(url: string): Promise<EventStore> {
  return openEventStoreDb({ url, timeoutMs: 10_000, prefix: 'plant-', logger: pino({ level: 'silent' }) });
}

function borrow(options: FakeOptions): () => Promise<EventStore> {
  const pooled = storePool(connect, options);
  return async () => (await pooled()).store;
}

eventStoreContract('the event store over EventStoreDB', openOver({}), { borrow: borrow({}) });
eventStoreContract('the event store over EventStoreDB without batches', openOver(WITHOUT_BATCHES), {
  borrow: borrow(WITHOUT_BATCHES),
  only: 'append',
});

const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

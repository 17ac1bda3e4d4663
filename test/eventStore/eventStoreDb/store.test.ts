import { onTestFinished } from 'vitest';
import type { EventStore } from '../../../src/eventStore/eventStore.ts';
import { FakeEventStoreDb, type FakeOptions } from '../../fakeEventStoreDb/server.ts';
import { openOn } from '../../support/sharedServer.ts';
import { storePool } from '../../support/storePool.ts';
import { openOver } from '../../support/stores.ts';
import { eventStoreContract, type Open } from '../contract.ts';

const WITHOUT_BATCHES = { serverFeatures: 'unimplemented' } satisfies FakeOptions;

const servers = new WeakMap<EventStore, FakeEventStoreDb>();

function openOnFake(options: FakeOptions): Open {
  return async (again) => {
    const known = again && servers.get(again);
    const server = known ?? (await FakeEventStoreDb.start(options));
    if (!known) onTestFinished(() => server.stop());
    const store = await openOver(server.url);
    servers.set(store, server);
    return store;
  };
}

function borrow(options: FakeOptions): () => Promise<EventStore> {
  const pooled = storePool((url) => openOver(url), options);
  return async () => (await pooled()).store;
}

eventStoreContract('the event store over EventStoreDB', openOnFake({}), { borrow: borrow({}) });
eventStoreContract('the event store over EventStoreDB without batches', openOnFake(WITHOUT_BATCHES), {
  borrow: borrow(WITHOUT_BATCHES),
  only: 'append',
});

const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

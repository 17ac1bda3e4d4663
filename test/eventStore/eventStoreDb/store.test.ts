import type { EventStore } from '../../../src/eventStore/eventStore.ts';
import type { FakeOptions } from '../../fakeEventStoreDb/server.ts';
import { LEADER_CHANGES, openOnFake } from '../../support/interruptedReads.ts';
import { openOn } from '../../support/sharedServer.ts';
import { storePool } from '../../support/storePool.ts';
import { openOver } from '../../support/stores.ts';
import { eventStoreContract, interruptedReadsContract } from '../contract.ts';

const WITHOUT_BATCHES = { serverFeatures: 'unimplemented' } satisfies FakeOptions;

function borrow(options: FakeOptions): () => Promise<EventStore> {
  const pooled = storePool((url) => openOver(url), options);
  return async () => (await pooled()).store;
}

eventStoreContract('the event store over EventStoreDB', openOnFake({}), {
  borrow: borrow({}),
});
interruptedReadsContract('over EventStoreDB', openOnFake({}), LEADER_CHANGES);
eventStoreContract('the event store over EventStoreDB without batches', openOnFake(WITHOUT_BATCHES), {
  borrow: borrow(WITHOUT_BATCHES),
  only: 'append',
});

const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

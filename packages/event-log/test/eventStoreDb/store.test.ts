import { LEADER_CHANGES, openOnFake } from '../../../../test/support/interruptedReads.ts';
import { openOn } from '../../../../test/support/sharedServer.ts';
import { storePool } from '../../../../test/support/storePool.ts';
import { openOver } from '../../../../test/support/stores.ts';
import { eventStoreContract, interruptedReadsContract, STREAM_PREFIX } from '../../src/testing/contract.ts';

const pooled = storePool((url) => openOver(url, STREAM_PREFIX));

eventStoreContract('the event store over EventStoreDB', openOnFake, {
  borrow: async () => (await pooled()).store,
});
interruptedReadsContract('over EventStoreDB', openOnFake, LEADER_CHANGES);
const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

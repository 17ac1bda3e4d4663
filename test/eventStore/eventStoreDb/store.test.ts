import { LEADER_CHANGES, openOnFake } from '../../support/interruptedReads.ts';
import { openOn } from '../../support/sharedServer.ts';
import { storePool } from '../../support/storePool.ts';
import { openOver } from '../../support/stores.ts';
import { eventStoreContract, interruptedReadsContract } from '../contract.ts';

const pooled = storePool((url) => openOver(url));

eventStoreContract('the event store over EventStoreDB', openOnFake({}), {
  borrow: async () => (await pooled()).store,
});
interruptedReadsContract('over EventStoreDB', openOnFake({}), LEADER_CHANGES);
const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

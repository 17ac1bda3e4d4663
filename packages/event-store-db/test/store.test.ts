import { openOnFake } from '@event-sourced/testing/interruptedReads';
import { openOn } from '@event-sourced/testing/sharedServer';
import { storePool } from '@event-sourced/testing/storePool';
import { openOver } from '@event-sourced/testing/stores';
import { eventStoreContract, STREAM_PREFIX } from '../../event-log/src/testing/contract.ts';

const pooled = storePool((url) => openOver(url, STREAM_PREFIX));

eventStoreContract('the event store over EventStoreDB', openOnFake, {
  borrow: async () => (await pooled()).store,
});
const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

import pino from 'pino';
import { onTestFinished } from 'vitest';
import type { EventStore } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { type DoubleOptions, EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { openOn } from '../support/sharedServer.ts';
import { eventStoreContract, type Open } from './contract.ts';

const servers = new WeakMap<EventStore, EventStoreDbDouble>();

function openOver(options: DoubleOptions): Open {
  return async (again) => {
    const known = again && servers.get(again);
    const server = known ?? (await EventStoreDbDouble.start(options));
    if (!known) onTestFinished(() => server.stop());
    const store = await openEventStoreDb({
      url: server.url,
      prefix: 'plant-',
      log: pino({ level: 'silent' }),
    });
    servers.set(store, server);
    return store;
  };
}

eventStoreContract('the event store over EventStoreDB', openOver({}));
eventStoreContract(
  'the event store over EventStoreDB without batches',
  openOver({ serverFeatures: 'unimplemented' }),
);

const { EVENTSTOREDB_TEST_URL } = process.env;
if (EVENTSTOREDB_TEST_URL)
  eventStoreContract('the event store over EVENTSTOREDB_TEST_URL', openOn(EVENTSTOREDB_TEST_URL));

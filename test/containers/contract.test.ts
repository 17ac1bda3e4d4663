import { openOn } from '@event-sourced/testing/sharedServer';
import { describe, inject } from 'vitest';
import { eventStoreContract } from '../../packages/event-log/src/testing/contract.ts';

const server = inject('eventStoreDb');

describe.skipIf(!server)('in a container', () => {
  eventStoreContract('the event store over EventStoreDB', openOn(server?.url ?? ''));
});

import {
  EventStoreDBClient,
  type JSONEventType,
  jsonEvent,
  NO_STREAM,
  type Position,
  START,
  streamNameFilter,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { MemoryView } from './memoryView.ts';
import { type Plant, serve } from './server.ts';

// EventStoreDB's client: a stream per plant, and a view that a catch-up subscription fills.

type PlantCreated = JSONEventType<'PlantCreated', Plant & { user: string; id: number }>;

const client = EventStoreDBClient.connectionString(process.env.EVENTSTOREDB_TEST_URL ?? '');
/** A name that earlier runs have not used. */
const prefix = `bench${Date.now()}-`;
const view = new MemoryView();
follow(START);

await serve({
  async create(user, plant) {
    const event = jsonEvent<PlantCreated>({ type: 'PlantCreated', data: { user, ...plant } });
    try {
      await client.appendToStream(`${prefix}${user}/${plant.id}`, event, { expectedRevision: NO_STREAM });
      return true;
    } catch (error) {
      if (error instanceof WrongExpectedVersionError) return false;
      throw error;
    }
  },
  list: (user, limit) => view.list(user, limit),
});

/** EventStoreDB drops the subscription of a consumer that is too slow for it. */
function follow(fromPosition: Position | typeof START): void {
  let last = fromPosition;
  client
    .subscribeToAll({ fromPosition, filter: streamNameFilter({ prefixes: [prefix] }) })
    .on('data', ({ event }) => {
      if (!event) return;
      view.apply((event as unknown as PlantCreated).data);
      last = event.position;
    })
    .on('error', () => follow(last));
}

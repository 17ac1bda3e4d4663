import { SQL } from '@event-driven-io/dumbo';
import { type Event, isExpectedVersionConflictError, projections } from '@event-driven-io/emmett';
import { getPostgreSQLEventStore, pongoSingleStreamProjection } from '@event-driven-io/emmett-postgresql';
import { pongoClient } from '@event-driven-io/pongo';
import { type Plant, serve } from './server.ts';

// emmett's PostgreSQL store: a stream per plant, and a Pongo document that the transaction of the append writes.

type PlantCreated = Event<'PlantCreated', Plant & { user: string; id: number }>;
type PlantDocument = Plant & { _id?: string; user: string };

const url = process.env.DATABASE_URL ?? '';
const plantDocuments = pongoSingleStreamProjection<PlantDocument, PlantCreated>({
  collectionName: 'plants',
  canHandle: ['PlantCreated'],
  evolve(_document: PlantDocument | null, { data: { id: _, ...document } }: PlantCreated): PlantDocument {
    return document;
  },
});
const store = getPostgreSQLEventStore(url, { projections: projections.inline([plantDocuments]) });
await store.schema.migrate();
const db = pongoClient(url).db();
const plants = db.collection<PlantDocument>('plants');
await plants.createCollection();
await db.sql.command(SQL`CREATE INDEX ON plants ((data->>'user'), _created)`);

await serve({
  async create(user, plant) {
    const event: PlantCreated = { type: 'PlantCreated', data: { user, ...plant } };
    try {
      // STREAM_DOES_NOT_EXIST checks nothing here: version 0 does.
      await store.appendToStream(`plant-${user}/${plant.id}`, [event], { expectedStreamVersion: 0n });
      return true;
    } catch (error) {
      if (isExpectedVersionConflictError(error)) return false;
      throw error;
    }
  },
  // Pongo has no order and no limit of its own.
  list: (user, limit) => plants.find(SQL`data->>'user' = ${user} ORDER BY _created LIMIT ${limit}`),
});

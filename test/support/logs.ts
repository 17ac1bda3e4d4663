import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import type { DoubleEvent, EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { tempDir } from './tempDir.ts';

const METADATA = { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-01-01T00:00:00.000Z' };

export type EventToStore = {
  stream: string;
  id: string;
  type?: string;
  /** Written as JSON; a text is written as it is. */
  data: object | string;
  metadata?: object | string;
};

/** The event of a plant, as the service writes it. */
export function plantOf(user: string, id: number, name: string): EventToStore {
  return { stream: `plant-${user}/${id}`, id: eventId(id), data: { id: `${id}`, user, name } };
}

/** A UUID for each number. */
export const eventId = (n: number): string =>
  `${n.toString(16).padStart(8, '0')}-0000-7000-8000-000000000000`;

/** Appends events, each the first of its stream, to the log in a data directory, as a server would have; gives the directory. */
export function appendTo(dir: string, ...events: EventToStore[]): string {
  using db = openLogFile(join(dir, 'log.db'));
  const insert = db.prepare(
    'INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (?, ?, 0, ?, ?, ?, ?)',
  );
  const text = (json: object | string): string => (typeof json === 'string' ? json : JSON.stringify(json));
  for (const { stream, id, type = 'PlantCreated', data, metadata = METADATA } of events)
    insert.run(id, stream, type, text(data), text(metadata), '2026-01-01T00:00:00.000Z');
  return dir;
}

/** The same in a double of EventStoreDB. */
export function writeTo(double: EventStoreDbDouble, ...events: EventToStore[]): DoubleEvent[] {
  return events.map(({ stream, type = 'PlantCreated', metadata = METADATA, ...event }) =>
    double.write(stream, { type, metadata, ...event }),
  );
}

type Many = {
  events: number;
  dir?: string;
  /** So many are there already. */
  after?: number;
  type?: string;
  /** Of each plant, in SQL, by its id. */
  user?: string;
  name?: string;
};

/**
 * A data directory with so many events in its log, as if they had been posted one after the other: plant 1 of alice,
 * plant 2 of bob, and so on; the plant's id is its position.
 */
export function logWith({
  events,
  dir = tempDir(),
  after = 0,
  type = 'PlantCreated',
  user = "iif(id % 2, 'alice', 'bob')",
  name = "'plant ' || id",
}: Many): string {
  using db = openLogFile(join(dir, 'log.db'));
  db.exec(`
    PRAGMA synchronous = OFF;
    BEGIN;
    WITH RECURSIVE
      ids (id) AS (
        SELECT ${after + 1} WHERE ${events} > 0 UNION ALL SELECT id + 1 FROM ids WHERE id < ${after + events}
      ),
      plants (id, user, name) AS (SELECT id, ${user}, ${name} FROM ids)
    INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
    SELECT
      format('%08x-0000-7000-8000-000000000000', id), format('plant-%s/%d', user, id), 0, '${type}',
      json_object('id', CAST(id AS TEXT), 'user', user, 'name', name), '${JSON.stringify(METADATA)}', '2026-01-01T00:00:00.000Z'
    FROM plants;
    COMMIT;
  `);
  return dir;
}

export type Row = { position: number; id: string; stream: string; data: string };

/** What a log holds, read from its file. */
export function rowsIn(file: string): Row[] {
  using db = new DatabaseSync(file, { readOnly: true, timeout: 60_000 });
  return db.prepare('SELECT position, id, stream, data FROM events ORDER BY position').all() as Row[];
}

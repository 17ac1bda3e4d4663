import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openLogFile } from '../../event-log/src/sqlite/file.ts';
import type { FakeEvent, FakeEventStoreDb } from '../../event-store-db/src/testing/server.ts';
import { tempDir } from './tempDir.ts';

const METADATA = { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-01-01T00:00:00.000Z' };

export type EventToStore = {
  stream: string;
  id: string;
  /** 0 by default; the fake server has the next of the stream. */
  revision?: number;
  type?: string;
  /** Stored as JSON; a string is stored unchanged. */
  data: object | string;
  metadata?: object | string;
};

/** The event of a plant, like that of the service. */
export function plantOf(user: string, id: number, name: string): EventToStore {
  return { stream: `plant-${user}/${id}`, id: eventId(id), data: { id: `${id}`, user, name } };
}

/** A UUID for each number. */
export const eventId = (n: number): string =>
  `${n.toString(16).padStart(8, '0')}-0000-7000-8000-000000000000`;

/** Appends events to the log in a data directory, like a server; returns the directory. */
export function appendTo(dir: string, ...events: EventToStore[]): string {
  using db = openLogFile(join(dir, 'log.db'));
  const insert = db.prepare(
    'INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const text = (json: object | string): string => (typeof json === 'string' ? json : JSON.stringify(json));
  db.exec('BEGIN');
  for (const { stream, revision = 0, id, type = 'PlantCreated', data, metadata = METADATA } of events)
    insert.run(id, stream, revision, type, text(data), text(metadata), '2026-01-01T00:00:00.000Z');
  db.exec('COMMIT');
  return dir;
}

/** Runs SQL on the log in a data directory, like an intruder: without its triggers, which are then restored. */
export function alterLog(dir: string, sql: string): void {
  using db = new DatabaseSync(join(dir, 'log.db'));
  const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all();
  for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
  db.exec(sql);
  for (const { sql } of triggers) db.exec(`${sql}`);
}

/** Writes events to a fake EventStoreDB server. */
export function writeTo(server: FakeEventStoreDb, ...events: EventToStore[]): FakeEvent[] {
  return events.map(({ stream, type = 'PlantCreated', metadata = METADATA, ...event }) =>
    server.write(stream, { type, metadata, ...event }),
  );
}

type LogContent = {
  events: number;
  dir?: string;
  /** The number of existing events. */
  after?: number;
  type?: string;
  /** The user of each plant, in SQL, by its ID. */
  user?: string;
  name?: string;
};

/**
 * A data directory with this number of events in its log, as after consecutive POSTs: plant 1 of alice,
 * plant 2 of bob, and so on; the ID of a plant is its position.
 */
export function logWith({
  events,
  dir = tempDir(),
  after = 0,
  type = 'PlantCreated',
  user = "iif(id % 2, 'alice', 'bob')",
  name = "'plant ' || id",
}: LogContent): string {
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

export type Row = {
  position: number;
  id: string;
  stream: string;
  revision: number;
  type: string;
  data: string;
  metadata: string;
};

/** The events of a log, read from its file. */
export function rowsIn(file: string): Row[] {
  using db = new DatabaseSync(file, { readOnly: true, timeout: 60_000 });
  const columns = 'position, id, stream, revision, type, data, metadata';
  return db.prepare(`SELECT ${columns} FROM events ORDER BY position`).all() as Row[];
}

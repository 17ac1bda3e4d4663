import { newEventId } from '../../src/eventStore/eventId.ts';
import { openLogFile } from '../../src/eventStore/sqlite/file.ts';

/** Writes a log of this many events, users in turn, like the service. */
export function writePlants(file: string, events: number, users: number): void {
  const db = openLogFile(file);
  const insert = db.prepare(
    'INSERT INTO events (stream, revision, id, type, data, metadata, recorded_at) VALUES (?, 0, ?, ?, ?, ?, ?)',
  );
  const date = new Date();
  const now = date.toISOString();
  const metadata = JSON.stringify({ $correlationId: newEventId(date), schemaVersion: 1, occurredAt: now });
  db.exec('BEGIN');
  for (let i = 0; i < events; i++) {
    const id = String(i);
    const user = `user-${i % users}`;
    const data = JSON.stringify({ id, user, name: `Fern number ${i}`, tag: 'indoor' });
    insert.run(`plant-${user}/${id}`, newEventId(date), 'PlantCreated', data, metadata, now);
  }
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
}

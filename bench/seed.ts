import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newEventId } from '../packages/event-log/src/eventId.ts';
import { openLogFile } from '../packages/event-log/src/sqlite/file.ts';
import { issueToken } from '../packages/http/src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../packages/node/src/files/keyFile.ts';

const USERS = 1_000;

/** Writes a file with a token for each user, one per line. */
export async function writeTokens(
  dir: string,
  keyFile: string,
  { users = USERS, scope }: { users?: number; scope?: string } = {},
): Promise<string> {
  const { privateKey } = loadOrCreateKey(keyFile);
  const issue = (_: unknown, i: number) =>
    issueToken(privateKey, { subject: `user-${i}`, lifetime: '1d', scope });
  const file = join(dir, ['tokens', users, scope].join('-'));
  writeFileSync(file, (await Promise.all(Array.from({ length: users }, issue))).join('\n'));
  return file;
}

/** Writes events until a log has this number, users in turn, like the service; returns how many. */
export function writeLog(file: string, events: number, users = USERS): number {
  using db = openLogFile(file);
  const insert = db.prepare(
    'INSERT INTO events (stream, revision, id, type, data, metadata, recorded_at) VALUES (?, 0, ?, ?, ?, ?, ?)',
  );
  const date = new Date();
  const now = date.toISOString();
  const metadata = JSON.stringify({ $correlationId: newEventId(date), schemaVersion: 1, occurredAt: now });
  db.exec('BEGIN');
  const { existing } = db.prepare('SELECT coalesce(max(position), 0) AS existing FROM events').get() as {
    existing: number;
  };
  for (let i = existing; i < events; i++) {
    const user = `user-${i % users}`;
    const data = JSON.stringify({ id: `${i}`, user, name: `Fern number ${i}`, tag: 'indoor' });
    insert.run(`plant-${user}/${i}`, newEventId(date), 'PlantCreated', data, metadata, now);
  }
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)');
  return Math.max(0, events - existing);
}

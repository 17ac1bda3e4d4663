import { join } from 'node:path';
import Database from 'better-sqlite3';
import { plantOf, type Row } from './rows.ts';
import { type NewPlant, serve } from './server.ts';

// A table in SQLite. Usage: node betterSqlite3.ts request|turn: a commit per request, or per turn of the event loop.

const db = new Database(join(process.env.DATA_DIR ?? '', 'plants.db'));
db.pragma('journal_mode = WAL');
db.pragma('synchronous = FULL');
db.exec(`
  CREATE TABLE plants (
    position INTEGER PRIMARY KEY, user TEXT NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, tag TEXT,
    UNIQUE (user, id)
  );
  CREATE INDEX plants_by_user ON plants (user, position);
`);
const insert = db.prepare<[string, number, string, string | null]>(
  'INSERT INTO plants (user, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
);
const select = db.prepare<[string, number], Row>(
  'SELECT name, tag FROM plants WHERE user = ? ORDER BY position LIMIT ?',
);

type Command = { user: string; plant: NewPlant; result: PromiseWithResolvers<boolean> };
let batch: Command[] = [];

const create = (user: string, { id, name, tag }: NewPlant): boolean =>
  insert.run(user, id, name, tag ?? null).changes === 1;

function createInBatch(user: string, plant: NewPlant): Promise<boolean> {
  const result = Promise.withResolvers<boolean>();
  if (batch.push({ user, plant, result }) === 1) setImmediate(commitBatch);
  return result.promise;
}

const createAll = db.transaction((commands: Command[]) =>
  commands.map(({ user, plant }) => create(user, plant)),
);

function commitBatch(): void {
  const commands = batch;
  batch = [];
  try {
    const created = createAll(commands);
    for (const [i, { result }] of commands.entries()) result.resolve(created[i] === true);
  } catch (error) {
    for (const { result } of commands) result.reject(error);
  }
}

await serve({
  create: process.argv[2] === 'turn' ? createInBatch : create,
  list: (user, limit) => select.all(user, limit).map(plantOf),
});

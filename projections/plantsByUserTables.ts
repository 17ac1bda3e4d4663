import { existsSync, renameSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { Position } from '../src/eventStore/eventStore.ts';
import { failedWith, fileSize, marksOf, SQLITE } from '../src/sqliteDatabase.ts';

// The tables of the view, which nobody but the files plantsByUser… knows.

/** A file of another version is thrown away and built anew. */
const VERSION = 1;
/** 'PVie' in ASCII: marks a SQLite file as this view. */
const APPLICATION_ID = 0x50566965;

const SCHEMA = `
  CREATE TABLE plants (
    user     TEXT    NOT NULL,
    position INTEGER NOT NULL,
    plant    TEXT    NOT NULL,
    PRIMARY KEY (user, position)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE checkpoint (mark TEXT NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL) STRICT;
  INSERT INTO checkpoint VALUES ('', 0, '');
`;

/** How far the view has come: an event's position and id, in the log with this mark. */
export type Checkpoint = { mark: string; position: Position; eventId: string };
const BETWEEN =
  'SELECT position, plant FROM plants WHERE user = ? AND position BETWEEN ? AND ? ORDER BY position';
const CHECKPOINT = 'SELECT mark, position, event_id AS eventId FROM checkpoint';

export type Tables = ReturnType<typeof openTables>;

/** Opens the view's file for its one writer, and makes it where there is none. */
export function openTables(file: string) {
  const db = new DatabaseSync(file, { timeout: 1_000 });
  try {
    db.exec(
      'PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000',
    );
    if (db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) {
      db.exec(
        `BEGIN; ${SCHEMA}; PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`,
      );
    }
    mustBeView(db);
    const rows = 'FROM plants WHERE user = ? AND position > ? AND position <= ? ORDER BY position LIMIT ?';
    const statements = {
      checkpoint: db.prepare(CHECKPOINT),
      move: db.prepare('UPDATE checkpoint SET mark = ?, position = ?, event_id = ?'),
      insert: db.prepare('INSERT INTO plants (user, position, plant) VALUES (?, ?, ?)'),
      // The rows come ordered: a subquery with a LIMIT keeps its ORDER BY. An ORDER BY in group_concat sorts again.
      page: db.prepare(`
        SELECT group_concat(plant, ',') AS plants, count(*) AS count, max(position) AS last
        FROM (SELECT position, plant ${rows})`),
      next: db.prepare(`SELECT 1 ${rows}`),
    };
    for (const statement of Object.values(statements)) statement.setReadBigInts(true);
    db.exec('PRAGMA busy_timeout = 0'); // from here on a lock is waited for elsewhere: requests are served on this thread
    return { db, ...statements, empty: () => db.exec('DELETE FROM plants') };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The tables for reading only, also beside the server that writes them. */
export function openTablesForReading(file: string) {
  const db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    db.exec('PRAGMA cache_size = -65536'); // KiB: rows are looked up in log order, and lie in the order of users
    mustBeView(db);
    const statements = {
      checkpoint: db.prepare(CHECKPOINT),
      between: db.prepare(BETWEEN),
      linesBetween: db.prepare(
        `SELECT count(*) AS count, group_concat(position || plant, char(10)) AS lines FROM (${BETWEEN})`,
      ),
      count: db.prepare('SELECT count(*) AS rows FROM plants WHERE position <= ?'),
      upTo: db.prepare('SELECT user, position, plant FROM plants WHERE position <= ?'),
      beyond: db.prepare('SELECT user, position, plant FROM plants WHERE position > ?'),
    };
    for (const statement of Object.values(statements)) statement.setReadBigInts(true);
    return { db, ...statements };
  } catch (error) {
    db.close();
    throw error;
  }
}

function mustBeView(db: DatabaseSync): void {
  const { application, version } = marksOf(db);
  if (application !== APPLICATION_ID) throw new NotThisView('its file is no view of plants');
  if (version !== VERSION) throw new NotThisView(`it has version ${version}, not ${VERSION}`);
  const { count } = db.prepare('SELECT count(*) AS count FROM checkpoint').get() as { count: number };
  if (count !== 1) throw new NotThisView(`it has ${count} checkpoints`);
}

class NotThisView extends Error {}

/** Whether a new file is the cure. A failing disk or a lock is none. */
export function isDamage(error: unknown): boolean {
  return error instanceof NotThisView || failedWith(error, SQLITE.CORRUPT, SQLITE.NOTADB);
}

/**
 * Puts a view that is closed in the place of another: at any time there is one of them, whole, or none, where the old one was
 * not whole either. What the old one has beside itself goes first, or SQLite would take it for a part of the new one.
 */
export function replaceFile(file: string, draft: string): void {
  if (!isSettled(draft)) throw new Error('the new view cannot be written whole');
  if (existsSync(file) && !isSettled(file)) removeFile(file);
  for (const part of [`${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
  renameSync(draft, file);
}

/** Whether a view is whole without its write-ahead log, after an attempt to make it so. */
function isSettled(file: string): boolean {
  try {
    openTables(file).db.close(); // the last one to close it moves the log into the file
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
  return fileSize(`${file}-wal`) === 0;
}

/** Removes a view with all that belongs to it. */
export function removeFile(file: string): void {
  for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
}

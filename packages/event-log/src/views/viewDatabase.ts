import { existsSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { fsyncPath } from '../disk/fsyncPath.ts';
import {
  fileSize,
  hasSqliteCode,
  isDamage as isDamagedFile,
  openReadOnly,
  readHeader,
  SQLITE,
} from '../disk/sqlite.ts';
import type { Table } from './table.ts';
import type { ViewCheckpoint } from './view.ts';

// The SQLite file of a view: what every view needs, whatever its tables are.

/** A row as a format saves it: the values that its `insert` takes. */
export type SavedRow = readonly (string | bigint | Uint8Array | null)[];

/** What distinguishes the file of one view from others, and how to create, fill and empty it. */
export type ViewFormat = Pick<Table, 'applicationId' | 'version' | 'cacheKiB'> & {
  /** Creates the view's tables. */
  schema: string;
  /** Prepares what saves rows, in the order in which they were added. @throws DamagedView */
  insert: (db: DatabaseSync) => (rows: readonly SavedRow[]) => void;
  /** Empties the tables. */
  empty: string;
  /** Verifies all rows, in steps between which the file may be written. @throws DamagedView */
  check?: (db: DatabaseSync) => Iterable<void>;
};

/** The file does not have what was saved: it is damaged, not one of this view, or of another version. */
export class DamagedView extends Error {
  override readonly name = 'DamagedView';
}

/**
 * Whether a new file is the fix, unlike for a failing disk or a lock. SQLite reports an error of SQL if the format or a
 * table is not the one that was written, a violated constraint if a row is not, and a short read within a page.
 */
export function isDamage(error: unknown): boolean {
  return (
    error instanceof DamagedView ||
    isDamagedFile(error) ||
    hasSqliteCode(error, SQLITE.ERROR, SQLITE.CONSTRAINT, SQLITE.IOERR_SHORT_READ)
  );
}

/** The saved checkpoint. @throws DamagedView */
export function readCheckpoint(db: DatabaseSync): ViewCheckpoint {
  const rows = prepareArrays(db, 'SELECT log_id, position, event_id FROM checkpoint').all();
  if (rows.length !== 1) throw new DamagedView(`it has ${rows.length} checkpoints`);
  const [logId, position, eventId] = rows[0] as unknown as unknown[];
  if (typeof logId !== 'string' || typeof position !== 'bigint' || typeof eventId !== 'string')
    throw new DamagedView('its checkpoint is not one');
  return { logId, position, eventId };
}

/** Opens the file of a view for reading only, also beside its writer. */
export function openForReading(file: string, format: ViewFormat): DatabaseSync {
  using opening = new DisposableStack();
  const db = opening.use(openReadOnly(file));
  assertIsView(db, format);
  opening.move();
  return db;
}

/** Prepares a statement that reads rows as arrays, and integers as bigint. */
export function prepareArrays(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true); // half the cost of objects
  return statement;
}

/** @throws DamagedView */
export function assertIsView(db: DatabaseSync, format: ViewFormat): void {
  const { applicationId, version } = readHeader(db);
  if (applicationId !== format.applicationId) throw new DamagedView('the file is not this view');
  if (version !== format.version) throw new DamagedView(`it has version ${version}, not ${format.version}`);
  readCheckpoint(db);
}

/**
 * Replaces a view's file by a closed draft. At every moment there is one complete view, or none if the old one was
 * incomplete. The old file's write-ahead log is removed first, or SQLite would apply it to the new one.
 */
export function replaceViewFile(file: string, draft: string): void {
  if (!isComplete(draft)) throw new Error('the new view could not be written completely');
  if (existsSync(file) && !isComplete(file)) removeViewFile(file);
  for (const part of [`${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
  fsyncPath(dirname(file)); // else a power cut could bring them back beside the new file
  renameSync(draft, file);
}

/** Whether a view's file is complete without its write-ahead log, once SQLite has checkpointed it. */
function isComplete(file: string): boolean {
  if (fileSize(file) === 0) return false;
  try {
    using db = new DatabaseSync(file, { timeout: 1_000 });
    db.prepare('SELECT count(*) FROM sqlite_schema').get(); // closing the last connection checkpoints
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
  return fileSize(`${file}-wal`) === 0;
}

export function removeViewFile(file: string): void {
  for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part, { force: true });
}

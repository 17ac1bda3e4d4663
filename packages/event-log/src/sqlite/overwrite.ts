import type { DatabaseSync } from 'node:sqlite';
import { readHeader, writeVersion } from '../disk/header.ts';
import { EVENT_ERASED } from '../erasure/erasure.ts';
import type { Position } from '../eventStore.ts';
import { HAS_STUBS, NEVER_UPDATED } from './file.ts';

/** A stub: position, ID, stream, type, and data and metadata as JSON text. */
export type StubRow = [Position, string, string, string, string, string];

/** A log with more events has filled the first page of its table with the numbers of other pages. */
const SMALL_LOG_EVENTS = 50_000;
/** Of an erasure, beside the indexes that are written once as temporary files, and once to the write-ahead log. */
const MAX_WAL_BYTES = 128 * 1024 * 1024;

/**
 * Replaces events with stubs, in the open transaction of a connection with `secure_delete`. First all rows shrink: SQLite
 * then moves no row that is still to be overwritten, which would leave a copy. Streams are erased as a whole.
 * @throws Error if a position has no event or a stub, or if a stream has another event
 */
export function overwriteEvents(db: DatabaseSync, stubs: readonly StubRow[]): void {
  // No stub: other programs may have written other events of its type.
  const streamAt = db.prepare(`
    SELECT stream FROM main.events WHERE position = ?
      AND NOT (type = '${EVENT_ERASED}' AND stream LIKE '%erased-' || id AND stream NOT LIKE '%/%')`);
  const blank = db.prepare(`
    UPDATE main.events SET id = position, stream = '', revision = position, type = '', data = '', metadata = '',
      recorded_at = '' WHERE position = ?`);
  const write = db.prepare(`
    UPDATE main.events SET id = ?, stream = ?, revision = 0, type = ?, data = ?, metadata = ? WHERE position = ?`);
  const isLeft = db.prepare('SELECT 1 FROM main.events WHERE stream = ?');
  const streams = new Set<string>();
  for (const [position] of stubs) {
    const event = streamAt.get(position) as { stream: string } | undefined;
    if (!event) throw new Error(`position ${position} has no event to erase`);
    streams.add(event.stream);
  }
  db.exec('DROP TRIGGER main.events_are_never_updated');
  for (const [position] of stubs) blank.run(position);
  for (const [position, ...columns] of stubs) write.run(...columns, position);
  db.exec(NEVER_UPDATED);
  writeVersion(db, { version: HAS_STUBS, isUnscrubbed: true });
  for (const stream of streams)
    if (isLeft.get(stream)) throw new Error('a stream to erase has got another event; erase it again');
}

/** Call it in the transaction that appends a stub. */
export function keepFromEarlierPrograms(db: DatabaseSync): void {
  if (readHeader(db).version < HAS_STUBS) setScrubbed(db);
}

/** Call it when no file has bytes of erased events: the pages are rewritten, and no write-ahead log has the old ones. */
export function setScrubbed(db: DatabaseSync): void {
  writeVersion(db, { version: HAS_STUBS, isUnscrubbed: false });
}

/** The free space in bytes that rewriting a log of this size needs, with the write-ahead log of an erasure. */
export const spaceToRewrite = (events: number, logBytes: number): number =>
  events <= SMALL_LOG_EVENTS ? 2 * logBytes : logBytes + MAX_WAL_BYTES;

/**
 * Rewrites every page that may have bytes of an overwritten row: splitting a page of an index leaves copies of its
 * entries, which `secure_delete` does not clear. Rows of the table are only moved from its first page, whose place keeps them in
 * logs that were written without `secure_delete`, until the table has a few thousand rows: so a small log is rewritten.
 */
export function rewritePages(db: DatabaseSync): void {
  const { last } = db.prepare('SELECT max(position) AS last FROM main.events').get() as { last: number };
  db.exec(last <= SMALL_LOG_EVENTS ? 'VACUUM main' : 'REINDEX main.events');
}

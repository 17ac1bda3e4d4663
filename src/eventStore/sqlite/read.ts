import { isUtf8 } from 'node:buffer';
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileSize, isDamage, openReadOnly } from '../../disk/sqlite.ts';
import { sleep } from '../../time/sleep.ts';
import {
  type BackwardRange,
  type Batch,
  type EventLog,
  LogDamaged,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../eventStore.ts';
import { MAX_POSITION } from '../position.ts';
import { assertIsLog, assertWalFits, UnusableLog } from './file.ts';

/** A batch of a subscription has at most so many events. */
export const BATCH_SIZE = 500;
/** A backward read of streams with a prefix uses their index if they have at most so many events. */
export const MAX_INDEXED_EVENTS = 10_000;
/** How often a subscription of a reader polls the file for new events, in milliseconds. */
const POLL_INTERVAL_MS = 100;

export type ReadOptions = {
  /**
   * Read such that no byte of an event can change without another result: JSON that this store would have
   * written differently stays text, and text that is not UTF-8 becomes lone surrogates or bytes.
   */
  exact?: boolean;
};

export type LogReaderOptions = ReadOptions & {
  /** Whether this process has the store open, too, which has checked the file; false by default. */
  besideStore?: boolean;
};

export type QueryOptions = ReadOptions & {
  /** Called when the log turns out to be damaged, each time. */
  onDamage?: (error: LogDamaged) => void;
};

/**
 * The queries of the embedded log. Each reads the file, and throws StoreUnavailable if that fails, LogDamaged
 * if the file is the reason.
 */
export function logQueries(db: DatabaseSync, { exact = false, onDamage }: QueryOptions = {}) {
  const columns = 'position, id, stream, revision, type, data, metadata';
  const eventsAfter = db.prepare(
    `SELECT ${columns} FROM events WHERE position > ? ORDER BY position LIMIT ?`,
  );
  const eventsBefore = db.prepare(
    `SELECT ${columns} FROM events WHERE position <= ? ORDER BY position DESC LIMIT ?`,
  );
  // The unary + keeps SQLite from scanning by position (https://sqlite.org/optoverview.html).
  const eventsOfStreamsBefore = db.prepare(`
    SELECT ${columns} FROM events WHERE position IN (
      SELECT position FROM events WHERE stream >= ? AND stream < ? AND +position <= ?
      ORDER BY +position DESC LIMIT ?)
    ORDER BY position DESC`);
  const hasMoreThan = db.prepare('SELECT 1 FROM events WHERE stream >= ? AND stream < ? LIMIT 1 OFFSET ?');
  const eventsOfStream = db.prepare(
    `SELECT ${columns} FROM events WHERE stream = ? ORDER BY revision LIMIT ?`,
  );
  const eventAt = db.prepare(`SELECT ${columns} FROM events WHERE position = ?`);
  const lastPosition = db.prepare(`SELECT coalesce(max(position), ${START}) AS position FROM events`);
  for (const statement of [eventsAfter, eventsBefore, eventsOfStreamsBefore, eventsOfStream, eventAt]) {
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
  }
  lastPosition.setReadBigInts(true);
  const log = db.prepare('SELECT id FROM log').get() as { id: string } | undefined;
  if (!log) throw new Error('its log ID is missing');
  const run = <T>(query: () => T): T => {
    if (!db.isOpen) throw new StoreUnavailable('the log is closed');
    try {
      return query();
    } catch (error) {
      const { message } = error as Error;
      if (!isDamage(error) && !(error instanceof DamagedRow))
        throw new StoreUnavailable(message, { cause: error });
      const damaged = new LogDamaged(message, { cause: error });
      onDamage?.(damaged);
      throw damaged;
    }
  };
  const toEvent = exact ? exactEventParser(db) : (row: Row) => parseEvent(row, parseJson);
  const readLastPosition = () => run(() => lastPosition.get() as { position: Position }).position;
  return {
    logId: `s${log.id.replaceAll('-', '').slice(0, 12)}`,
    readAll({ after, limit }: { after: Position; limit: number }): Page {
      const rows = run(() => takePage(eventsAfter.iterate(after, limit)).rows);
      const events = rows.map(toEvent);
      const position = events.at(-1)?.position ?? after;
      return { events, position, isEnd: position >= readLastPosition() };
    },
    readBackwards({ before, limit, prefix = '' }: BackwardRange): Page {
      const last = before === undefined ? MAX_POSITION : before - 1n;
      const { rows, isCut } = run(() => {
        const streams = streamRange(prefix);
        const isIndexed = streams && !hasMoreThan.get(...streams, MAX_INDEXED_EVENTS);
        if (isIndexed) return takePage(eventsOfStreamsBefore.iterate(...streams, last, limit));
        return takePage(eventsBefore.iterate(last, limit));
      });
      const position = rows.at(-1)?.[0] ?? before ?? START;
      const events = rows.filter(([, , stream]) => stream.startsWith(prefix)).map(toEvent);
      return { events, position, isEnd: rows.length < limit && !isCut };
    },
    readStream: (stream: string, limit: number) =>
      run(() => eventsOfStream.all(stream, limit).map(assertIntact)).map(toEvent),
    readEvent: (position: Position) => run(() => eventAt.all(position).map(assertIntact)).map(toEvent)[0],
    lastPosition: readLastPosition,
  };
}

/**
 * Opens the embedded log for reading only, also while a server writes to it. It holds no lock between reads.
 * @throws UnusableLog
 */
export function openLogReader(file: string, options: LogReaderOptions = {}): EventLog {
  const closing = new AbortController();
  const { db, logId, lastPosition, readEvent, readStream, readAll, readBackwards } = openForReading(
    file,
    options,
  );

  async function* subscribe(options: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let position = options.after;
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const { events, isEnd } = readAll({ after: position, limit: BATCH_SIZE });
      position = events.at(-1)?.position ?? position;
      if (events.length > 0 || isFirst) yield { events, caughtUp: isEnd };
      if (isEnd) await sleep(POLL_INTERVAL_MS, signal);
      else await nextTurn();
    }
  }

  return {
    logId: async () => logId,
    lastPosition: async () => lastPosition(),
    readEvent: async (position) => readEvent(position),
    readStream: async (stream, limit) => readStream(stream, limit),
    readAll: async (range) => readAll(range),
    readBackwards: async (range) => readBackwards(range),
    subscribe,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      db.close();
    },
  };
}

function openForReading(file: string, { besideStore = false, ...options }: LogReaderOptions) {
  // A first start that was interrupted leaves an empty file.
  if (fileSize(file) === 0) throw new UnusableLog(`there is no log ${file}`);
  let db: DatabaseSync | undefined;
  try {
    if (!besideStore) assertWalFits(file); // it would end the locks of the store
    db = openReadOnly(file);
    assertIsLog(db);
    return { db, ...logQueries(db, options) };
  } catch (error) {
    db?.close();
    throw new UnusableLog(`cannot read the log ${file}: ${(error as Error).message}`, { cause: error });
  }
}

/** The columns of an event. Rows are arrays: they cost half of objects. */
type Row = [
  position: Position,
  id: string,
  stream: string,
  revision: bigint,
  type: string,
  data: string,
  metadata: string,
];

/**
 * A prefix, and the first text after all those that start with it, in the order of their UTF-8; undefined if
 * the prefix does not end in ASCII.
 */
function streamRange(prefix: string): [from: string, to: string] | undefined {
  const last = prefix.charCodeAt(prefix.length - 1);
  return last < 0x7f ? [prefix, prefix.slice(0, -1) + String.fromCharCode(last + 1)] : undefined;
}

/** The rows of a page: it is cut if they are large, so that a reader holds little of them. */
function takePage(found: Iterable<unknown>): { rows: Row[]; isCut: boolean } {
  const rows: Row[] = [];
  let length = 0;
  for (const value of found) {
    const row = assertIntact(value);
    rows.push(row);
    length += row[5].length + row[6].length;
    if (length >= PAGE_LENGTH) return { rows, isCut: true };
  }
  return { rows, isCut: false };
}

/** A row has a value that its column cannot have. */
class DamagedRow extends Error {}

/** In a damaged file a column may have any type. @throws DamagedRow */
function assertIntact(value: unknown): Row {
  const [position, id, stream, , type, data, metadata] = value as Row;
  if (!(isText(id) && isText(stream) && isText(type) && isText(data) && isText(metadata)))
    throw new DamagedRow(`the row at position ${position} is damaged`);
  return value as Row;
}

const isText = (value: unknown): value is string => typeof value === 'string';

function parseEvent(
  [position, id, stream, revision, type, data, metadata]: Row,
  parse: (text: string) => unknown,
): RecordedEvent {
  return { position, stream, revision, id, type, data: parse(data), metadata: parse(metadata) };
}

/** Parses rows such that rows with different bytes are different events. */
function exactEventParser(db: DatabaseSync): (row: Row) => RecordedEvent {
  const bytesAt = db.prepare(`
    SELECT CAST(id AS BLOB) AS id, CAST(stream AS BLOB) AS stream, CAST(type AS BLOB) AS type,
      CAST(data AS BLOB) AS data, CAST(metadata AS BLOB) AS metadata
    FROM events WHERE position = ?`);
  return (row) => {
    const event = parseEvent(row, parseExactly);
    const [position, ...values] = row;
    if (!values.some((value) => isText(value) && isReplaced(value))) return event;
    const bytes = bytesAt.get(position) as Record<'id' | 'stream' | 'type' | 'data' | 'metadata', Uint8Array>;
    const text = (column: 'id' | 'stream' | 'type'): string =>
      isUtf8(bytes[column]) ? event[column] : toLoneSurrogates(bytes[column]);
    const json = (column: 'data' | 'metadata'): unknown =>
      isUtf8(bytes[column]) ? event[column] : bytes[column];
    return {
      ...event,
      id: text('id'),
      stream: text('stream'),
      type: text('type'),
      data: json('data'),
      metadata: json('metadata'),
    };
  };
}

/** SQLite returns U+FFFD for itself, and for bytes that are not UTF-8. */
const isReplaced = (text: string): boolean => text.includes('\ufffd');

/** Bytes that are not UTF-8 as text that no UTF-8 decodes to: each byte as a lone surrogate. */
function toLoneSurrogates(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(0xdc00 + byte)).join('');
}

/** Text that is not JSON stays text, as in EventStoreDB's client. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * JSON that is not in the form in which this store writes it stays text; so do JSON strings, to differ from
 * such text.
 */
function parseExactly(text: string): unknown {
  const value = parseJson(text);
  return typeof value !== 'string' && JSON.stringify(value) === text ? value : text;
}

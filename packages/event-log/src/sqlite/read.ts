import { isUtf8 } from 'node:buffer';
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileSize, isDamage, openReadOnly } from '@event-sourced/node/files';
import { sleep } from '@event-sourced/node/time';
import { UUID } from '../eventId.ts';
import {
  type BackwardRange,
  type Batch,
  type EventLog,
  type ForwardRange,
  LogDamaged,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../eventStore.ts';
import { MAX_POSITION } from '../position.ts';
import { assertIsLog, assertReadable, assertWalFits, causeOf, UnusableLog } from './file.ts';

/** The maximum number of events in a batch of a subscription. */
export const BATCH_SIZE = 500;
/** If the streams of a read have more events, it reads by position, not by their index. */
const MAX_INDEXED_EVENTS = 10_000;
const POLL_INTERVAL_MS = 100;

export type LogReaderOptions = {
  /**
   * Return a different result if any byte of an event differs: JSON that this store would have written differently
   * stays text, and text that is not UTF-8 becomes unpaired surrogates or bytes.
   */
  forHashing?: boolean;
};

type ReadOptions = {
  forHashing?: boolean | undefined;
  /** Called each time a read finds damage; the read rejects with what it throws. */
  onDamage?: (error: LogDamaged) => void;
};

/** Reads reject with StoreUnavailable if the file cannot be read, with LogDamaged if it is damaged. */
export function prepareReads(db: DatabaseSync, { forHashing = false, onDamage }: ReadOptions) {
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
  const eventsOfStreamsAfter = db.prepare(`
    SELECT ${columns} FROM events WHERE position IN (
      SELECT position FROM events WHERE stream >= ? AND stream < ? AND +position > ?
      ORDER BY +position LIMIT ?)
    ORDER BY position`);
  const hasMoreThan = db.prepare('SELECT 1 FROM events WHERE stream >= ? AND stream < ? LIMIT 1 OFFSET ?');
  const eventsOfStream = db.prepare(
    `SELECT ${columns} FROM events WHERE stream = ? ORDER BY revision LIMIT ?`,
  );
  const eventAt = db.prepare(`SELECT ${columns} FROM events WHERE position = ?`);
  const lastPosition = db.prepare(`SELECT coalesce(max(position), ${START}) AS position FROM events`);
  const ofStreams = [eventsOfStreamsAfter, eventsOfStreamsBefore, eventsOfStream];
  for (const statement of [eventsAfter, eventsBefore, eventAt, ...ofStreams]) {
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
  }
  lastPosition.setReadBigInts(true);
  const log = db.prepare('SELECT id FROM log').get() as { id: string } | undefined;
  if (!log || !UUID.test(log.id)) throw new Error('its log ID is missing or altered');
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
  const toEvent = forHashing ? unalteredEventReader(db) : (row: Row) => parseEvent(row, parseJson);
  /** The range of stream names with a prefix, if the streams have few events. */
  const indexedStreams = (prefix: string): [from: string, to: string] | undefined => {
    const range = streamRange(prefix);
    return range && run(() => hasMoreThan.get(...range, MAX_INDEXED_EVENTS)) ? undefined : range;
  };
  const readLastPosition = () => run(() => lastPosition.get() as { position: Position }).position;
  return {
    logId: async () => run(() => `s${log.id.replaceAll('-', '').slice(0, 12)}`),
    lastPosition: async () => readLastPosition(),
    // Positions start at 1 and have no gaps.
    indexOf: (position: Position): number => Number(position - START) - 1,
    positionOf: (index: number): Position => START + BigInt(index) + 1n,
    async readEvent(position: Position): Promise<RecordedEvent | undefined> {
      return run(() => eventAt.all(position).map(assertIntact)).map(toEvent)[0];
    },
    async readStream(stream: string, limit: number): Promise<RecordedEvent[]> {
      return run(() => eventsOfStream.all(stream, limit).map(assertIntact)).map(toEvent);
    },
    async readAll({ after, limit, prefix = '' }: ForwardRange): Promise<Page> {
      const streams = indexedStreams(prefix);
      const end = readLastPosition(); // before the page, which may lack events that are appended meanwhile
      const { rows, isCut } = run(() =>
        takePage(
          streams
            ? eventsOfStreamsAfter.iterate(...streams, after, limit)
            : eventsAfter.iterate(after, limit),
        ),
      );
      const events = rows.map(toEvent);
      const last = events.at(-1)?.position ?? after;
      const position = streams && rows.length < limit && !isCut && end > last ? end : last;
      return { events, position, isEnd: position >= readLastPosition() };
    },
    async readBackwards({ before, limit, prefix = '' }: BackwardRange): Promise<Page> {
      const last = before === undefined ? MAX_POSITION : before - 1n;
      const { rows, isCut } = run(() => {
        const streams = indexedStreams(prefix);
        if (streams) return takePage(eventsOfStreamsBefore.iterate(...streams, last, limit));
        return takePage(eventsBefore.iterate(last, limit));
      });
      const position = rows.at(-1)?.[0] ?? before ?? START;
      const events = rows.filter(([, , stream]) => stream.startsWith(prefix)).map(toEvent);
      return { events, position, isEnd: rows.length < limit && !isCut };
    },
  };
}

/** Opens the log read-only; a server may be writing to it. Holds no lock between reads. @throws UnusableLog */
export function openLogReader(file: string, options: LogReaderOptions = {}): EventLog {
  const closing = new AbortController();
  const { db, reads } = openForReading(file, options);
  return {
    ...reads,
    subscribe: ({ after, signal }) =>
      follow(
        after,
        AbortSignal.any([signal, closing.signal]),
        (position) => reads.readAll({ after: position, limit: BATCH_SIZE }),
        (_, ended) => sleep(POLL_INTERVAL_MS, ended),
      ),
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      db.close();
    },
  };
}

/** A subscription. At the end of the log, `wait` waits for an event after a position. */
export async function* follow(
  after: Position,
  signal: AbortSignal,
  read: (after: Position) => Pick<Page, 'events' | 'isEnd'> | Promise<Page>,
  wait: (position: Position, signal: AbortSignal) => Promise<unknown>,
): AsyncGenerator<Batch> {
  let position = after;
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const { events, isEnd: caughtUp } = await read(position);
    position = events.at(-1)?.position ?? position;
    if (events.length > 0 || isFirst) yield { events, caughtUp };
    await (caughtUp ? wait(position, signal) : nextTurn()); // catching up must not starve requests
  }
}

function openForReading(file: string, { forHashing }: LogReaderOptions) {
  // A first start that was interrupted leaves an empty file.
  if (fileSize(file) === 0) throw new UnusableLog(`there is no log ${file}`);
  let db: DatabaseSync | undefined;
  try {
    assertWalFits(file);
    db = openReadOnly(file);
    assertIsLog(db);
    return { db, reads: prepareReads(db, { forHashing, onDamage: () => assertReadable(file) }) };
  } catch (error) {
    db?.close();
    throw new UnusableLog(`cannot read the log ${file}: ${causeOf(error, file).message}`, { cause: error });
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

/** A prefix, and the first text in UTF-8 order after all texts with the prefix; undefined unless it ends in ASCII. */
function streamRange(prefix: string): [from: string, to: string] | undefined {
  const last = prefix.charCodeAt(prefix.length - 1);
  return last < 0x7f ? [prefix, prefix.slice(0, -1) + String.fromCharCode(last + 1)] : undefined;
}

/** The rows of a page, which is cut at PAGE_LENGTH to bound the memory of a reader. */
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

/** Reads rows so that different bytes give different events. */
function unalteredEventReader(db: DatabaseSync): (row: Row) => RecordedEvent {
  const bytesAt = db.prepare(`
    SELECT CAST(id AS BLOB) AS id, CAST(stream AS BLOB) AS stream, CAST(type AS BLOB) AS type,
      CAST(data AS BLOB) AS data, CAST(metadata AS BLOB) AS metadata
    FROM events WHERE position = ?`);
  return (row) => {
    const event = parseEvent(row, parseWritten);
    // SQLite returns U+FFFD for itself, and for bytes that are not UTF-8.
    if (!row.some((value) => typeof value === 'string' && value.includes('\ufffd'))) return event;
    const bytes = Object.entries(bytesAt.get(event.position) as Record<string, Uint8Array>);
    const changed = bytes.filter(([, value]) => !isUtf8(value));
    const isText = (name: string): boolean => name !== 'data' && name !== 'metadata';
    return {
      ...event,
      ...Object.fromEntries(
        changed.map(([name, value]) => [name, isText(name) ? toLoneSurrogates(value) : value]),
      ),
    };
  };
}

/** Converts bytes that are not UTF-8 to text that no UTF-8 decodes to: each byte becomes an unpaired surrogate. */
function toLoneSurrogates(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(0xdc00 + byte)).join('');
}

/** Text that is not JSON stays text, like in EventStoreDB's client. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** JSON that this store would write differently stays text. JSON strings stay text too, to differ from that text. */
function parseWritten(text: string): unknown {
  const value = parseJson(text);
  return typeof value !== 'string' && JSON.stringify(value) === text ? value : text;
}

import { isUtf8 } from 'node:buffer';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { sleep } from '../sleep.ts';
import { fileSize } from '../sqliteDatabase.ts';
import {
  type Batch,
  type EventLog,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from './eventStore.ts';
import { mustBeLog, UnusableLog } from './sqliteFile.ts';

/** Events read from the file at a time, fewer where they have more characters of data than this. */
const BATCH = 500;
const BATCH_LENGTH = 256 * 1024;
/** How often somebody who waits at the end of the log looks for more, in milliseconds. */
const LOOK_EVERY = 100;

export type Reading = {
  /** Whether no byte of an event can change unseen: JSON that is not written as this store writes it stays text. */
  exact?: boolean;
};

/** What can be asked of the embedded log. Each question reads the file, and throws `StoreUnavailable` where that fails. */
export function questionsTo(db: DatabaseSync, { exact = false }: Reading = {}) {
  const columns = 'position, id, stream, revision, type, data, metadata';
  const after = db.prepare(
    `SELECT ${columns} FROM events WHERE position > ? ORDER BY position LIMIT ${BATCH}`,
  );
  const ofStream = db.prepare(`SELECT ${columns} FROM events WHERE stream = ? ORDER BY revision LIMIT ?`);
  const at = db.prepare(`SELECT ${columns} FROM events WHERE position = ?`);
  const last = db.prepare(`SELECT coalesce(max(position), ${START}) AS position FROM events`);
  for (const statement of [after, ofStream, at, last]) statement.setReadBigInts(true);
  const found = db.prepare('SELECT id FROM log').get() as { id: string } | undefined;
  if (!found) throw new Error('it has lost its mark');
  const toEvent = exact ? exactly(db) : eventOf;
  return {
    mark: `s${found.id.replaceAll('-', '').slice(0, 12)}`,
    /** The events after a position, as many as make a batch. */
    after: (position: Position) => read(() => someOf(after.iterate(position))).map(toEvent),
    ofStream: (stream: string, maxCount: number) => read(() => ofStream.all(stream, maxCount)).map(toEvent),
    at: (position: Position) => read(() => at.all(position)).map(toEvent)[0],
    last: () => read(() => last.get() as { position: Position }).position,
  };
}

/**
 * The embedded log for reading only, also beside the server that writes it. Nothing is locked between reads.
 * @throws UnusableLog
 */
export function openSqliteLog(file: string, reading: Reading = {}): EventLog {
  const closing = new AbortController();
  const { db, mark, after, ofStream, at, last } = openForReading(file, reading);

  async function* subscribe(options: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let position = options.after;
    for (let first = true; !signal.aborted; first = false) {
      const events = after(position);
      position = events.at(-1)?.position ?? position;
      const caughtUp = position >= last();
      if (events.length > 0 || first) yield { events, caughtUp };
      if (caughtUp) await sleep(LOOK_EVERY, signal);
      else await nextTurn();
    }
  }

  return {
    mark: async () => mark,
    readStream: async (stream, maxCount) => ofStream(stream, maxCount),
    eventAt: async (position) => at(position),
    end: async () => last(),
    subscribe,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      db.close();
    },
  };
}

function openForReading(file: string, reading: Reading) {
  // One without anything in it is what a first start that was cut short has left.
  if (fileSize(file) === 0) throw new UnusableLog(`there is no log ${file}`);
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    mustBeLog(db);
    return { db, ...questionsTo(db, reading) };
  } catch (error) {
    db?.close();
    throw new UnusableLog(`the log ${file} cannot be read: ${(error as Error).message}`);
  }
}

type Row = Omit<RecordedEvent, 'data' | 'metadata'> & { data: string; metadata: string };

/** The first rows, as far as they make a batch: however large they are, a reader holds little of them. */
function someOf(rows: Iterable<unknown>): Row[] {
  const some: Row[] = [];
  let length = 0;
  for (const row of rows) {
    length += mustBeWhole(row as Row).data.length;
    some.push(row as Row);
    if (length >= BATCH_LENGTH) break;
  }
  return some;
}

/** In a damaged file a column may hold anything. @throws Error */
function mustBeWhole(row: Row): Row {
  for (const part of TEXTS)
    if (typeof row[part] !== 'string') throw new Error(`the row at position ${row.position} is damaged`);
  return row;
}

const TEXTS = ['id', 'stream', 'type', 'data', 'metadata'] as const;

function eventOf(row: unknown): RecordedEvent {
  const { data, metadata, ...rest } = row as Row;
  return { ...rest, data: parsed(data), metadata: parsed(metadata) };
}

/** Rows as events, so that any other bytes in a row give another event. */
function exactly(db: DatabaseSync): (row: unknown) => RecordedEvent {
  const bytesAt = db.prepare(`
    SELECT CAST(id AS BLOB) AS id, CAST(stream AS BLOB) AS stream, CAST(type AS BLOB) AS type,
      CAST(data AS BLOB) AS data, CAST(metadata AS BLOB) AS metadata
    FROM events WHERE position = ?`);
  return (found) => {
    const row = found as Row;
    const { position, stream, revision, id, type } = row;
    const [data, metadata] = [parsedExactly(row.data), parsedExactly(row.metadata)];
    const event = { position, stream, revision, id, type, data, metadata };
    if (!TEXTS.some((part) => row[part].includes('\ufffd'))) return event;
    // SQLite gives U+FFFD for itself, and for whatever is no UTF-8.
    const bytes = bytesAt.get(position) as Record<keyof typeof event, Uint8Array>;
    const text = (part: 'id' | 'stream' | 'type'): string =>
      isUtf8(bytes[part]) ? row[part] : noText(bytes[part]);
    const content = (part: 'data' | 'metadata'): unknown => (isUtf8(bytes[part]) ? event[part] : bytes[part]);
    return {
      position,
      revision,
      id: text('id'),
      stream: text('stream'),
      type: text('type'),
      data: content('data'),
      metadata: content('metadata'),
    };
  };
}

/** Bytes that are no UTF-8 as what no UTF-8 gives: each as half a surrogate pair. */
function noText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(0xdc00 + byte)).join('');
}

/** Text that is no JSON (of another writer) stays text, as it does in EventStoreDB's client. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

/** JSON text that this store has not written stays text; so does a JSON string, or it could not be told from such a text. */
function parsedExactly(json: string): unknown {
  const value = parsed(json);
  return typeof value !== 'string' && JSON.stringify(value) === json ? value : json;
}

function read<T>(query: () => T): T {
  try {
    return query();
  } catch (error) {
    throw new StoreUnavailable((error as Error).message);
  }
}

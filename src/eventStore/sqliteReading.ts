import { isUtf8 } from 'node:buffer';
import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import {
  type Batch,
  type EventLog,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from './eventStore.ts';
import { mustBeLog, UnusableLog } from './sqliteFile.ts';

/** Events read from the file at a time. */
const BATCH = 500;
/** How often somebody who waits at the end of the log looks for more, in milliseconds. */
const LOOK_EVERY = 100;

export type Reading = {
  /** Whether no byte of an event can change unseen: JSON that is not written as this store writes it stays text. */
  exact?: boolean;
};

/** What can be asked of the embedded log; each question reads the file and rejects nothing: it throws `StoreUnavailable`. */
export function questionsTo(db: DatabaseSync, { exact = false }: Reading = {}) {
  const columns = 'position, id, stream, revision, type, data, metadata';
  const after = db.prepare(
    `SELECT ${columns} FROM events WHERE position > ? ORDER BY position LIMIT ${BATCH}`,
  );
  const ofStream = db.prepare(`SELECT ${columns} FROM events WHERE stream = ? ORDER BY revision LIMIT ?`);
  const at = db.prepare(`SELECT ${columns} FROM events WHERE position = ?`);
  const last = db.prepare(`SELECT coalesce(max(position), ${START}) AS position FROM events`);
  for (const statement of [after, ofStream, at, last]) statement.setReadBigInts(true);
  const { id } = db.prepare('SELECT id FROM log').get() as { id: string };
  const toEvent = exact ? exactly(db) : eventOf;
  return {
    mark: `s${id.replaceAll('-', '').slice(0, 12)}`,
    /** The events after a position, at most `BATCH`. */
    after: (position: Position) => read(() => after.all(position)).map(toEvent),
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
    for (let isTold = false; !signal.aborted; ) {
      const events = after(position);
      position = events.at(-1)?.position ?? position;
      const caughtUp = events.length < BATCH;
      if (events.length > 0 || !isTold) yield { events, caughtUp };
      isTold = caughtUp;
      if (caughtUp) await pause(LOOK_EVERY, undefined, { signal }).catch(() => {});
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
  if (!existsSync(file)) throw new UnusableLog(`there is no log ${file}`);
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
    const { position, revision, id, stream, type, data, metadata } = row;
    const event = { ...row, data: parsedExactly(data), metadata: parsedExactly(metadata) };
    if (!`${id}${stream}${type}${data}${metadata}`.includes('\ufffd')) return event;
    // SQLite gives U+FFFD for itself, and for whatever is no UTF-8.
    const bytes = bytesAt.get(position) as Record<keyof typeof event, Uint8Array>;
    const text = (part: 'id' | 'stream' | 'type'): string =>
      isUtf8(bytes[part]) ? row[part] : Buffer.from(bytes[part]).toString('latin1');
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

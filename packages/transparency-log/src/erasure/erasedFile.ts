import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type ErasableStore,
  type Position,
  type RecordedEvent,
  readToEnd,
  START,
  type Stub,
} from '@event-sourced/event-log';
import { EVENTS_ERASED, parseRecord, recordStreams } from '@event-sourced/event-log/erasure';
import { syncDirectory } from '@event-sourced/node/files';
import { digestOf, entryOf, eventEntry, stubDigest, stubOf } from '../digest/eventEntry.ts';
import { recordsOf } from './eraseStreams.ts';

/** An event by its index in the tree and its entry, in hexadecimal. The entry is that of no other event. */
type Place = readonly [index: number, entry: string];
/** A line of the file: a record, and the events that it names. */
type Line = { record: Place; erased: readonly Place[] };

/**
 * What was repeated: the number of events, and the indices of the records in the tree. `others`: the number of places in which
 * the log has another event, which was not erased.
 */
export type Repeated = { events: number; records: number[]; others: number };

/**
 * The file beside a log that names what was erased, in the order of the records, without content. It survives a restore of
 * the log, which would bring erased events back.
 */
export class ErasedFile {
  readonly #file: string;
  readonly #prefix: string;
  /** The file has every record up to this position; undefined if the file must be read. */
  #position: Position | undefined;

  /** `prefix`: that of the streams of stubs and records. */
  constructor(file: string, prefix: string) {
    this.#file = file;
    this.#prefix = prefix;
  }

  /**
   * Erases again what the file names and a restored log has, with a new record. The log need not extend what was signed:
   * an event is erased if it has the entry in the file, and no other one. Call it before anything is appended.
   * @throws Error; then nothing is erased
   */
  async repeat(store: ErasableStore, now: () => Date): Promise<Repeated> {
    const stubs = new Map<number, Stub>();
    const matched = new Set<number>();
    const others = new Set<number>();
    for (const { erased } of (await this.#read(store)).lacking) {
      await nextTurn();
      for (const [index, entry] of erased) {
        const position = store.positionOf(index);
        const event = await store.forHashing.readEvent(position);
        if (!event) continue; // it was appended after the backup
        if (eventEntry(event) !== entry || event.type === EVENTS_ERASED) {
          others.add(index);
          continue;
        }
        matched.add(index);
        if (!stubDigest(event)) stubs.set(index, { position, ...stubOf(digestOf(event), this.#prefix) });
      }
    }
    const indices = [...stubs.keys()].sort((a, b) => a - b);
    const records = recordsOf(indices, this.#prefix, now);
    const positions = indices.length > 0 ? await store.erase([...stubs.values()], records) : [];
    return {
      events: indices.length,
      records: positions.map(store.indexOf),
      others: others.difference(matched).size,
    };
  }

  /** Adds, durably, the records that the log has and the file lacks. @throws Error, such as of a full disk */
  async update(store: ErasableStore): Promise<void> {
    try {
      this.#position ??= await this.#recover(store);
      const range = { after: this.#position, prefix: recordStreams(this.#prefix) };
      for await (const { events, position } of readToEnd(store, range)) {
        for (const event of events)
          if (event.type === EVENTS_ERASED) await this.#append(event.position, store);
        this.#position = position;
      }
    } catch (error) {
      this.#position = undefined;
      throw new Error(`cannot use ${this.#file}: ${(error as Error).message}`, { cause: error });
    }
  }

  async #append(position: Position, { forHashing, ...store }: ErasableStore): Promise<void> {
    const record = (await forHashing.readEvent(position)) as RecordedEvent;
    const erased: Place[] = [];
    for (const index of parseRecord(record.data) ?? []) {
      const event = await forHashing.readEvent(store.positionOf(index));
      const digest = event && stubDigest(event); // another program may have written the record
      if (digest) erased.push([index, entryOf(digest)]);
    }
    const line: Line = { record: [store.indexOf(position), eventEntry(record)], erased };
    // Fails without the file: a new one must have every line.
    await using handle = await open(this.#file, constants.O_WRONLY | constants.O_APPEND);
    await handle.writeFile(`${JSON.stringify(line)}\n`);
    await handle.sync();
    await nextTurn();
  }

  /** Removes a line that was cut. Resolves with the position of the last record in the file that the log has. */
  async #recover(store: ErasableStore): Promise<Position> {
    const { bytes, position } = await this.#read(store);
    await using handle = await open(this.#file, 'a', 0o600);
    await handle.truncate(bytes);
    await syncDirectory(dirname(this.#file));
    return position;
  }

  /**
   * The lines after the last one whose record the log has, latest first: a start has repeated what is before it. A line
   * without end was cut by a kill or a full disk: the log has its record. `bytes`: the length of the lines with an end.
   */
  async #read(store: ErasableStore): Promise<{ lacking: Line[]; position: Position; bytes: number }> {
    const lacking: Line[] = [];
    const content = await readIfExists(this.#file);
    const bytes = content.lastIndexOf(LINE_FEED) + 1;
    for (let end = bytes; end > 0; ) {
      const start = end < 2 ? 0 : content.lastIndexOf(LINE_FEED, end - 2) + 1;
      const line = parseLine(content.toString('latin1', start, end));
      const position = store.positionOf(line.record[0]);
      const record = await store.forHashing.readEvent(position);
      if (record && eventEntry(record) === line.record[1]) return { lacking, position, bytes };
      lacking.push(line);
      end = start;
    }
    return { lacking, position: START, bytes };
  }
}

const LINE_FEED = 0x0a;

async function readIfExists(file: string): Promise<Buffer> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK); // a FIFO would wait for its writer
    if (!(await handle.stat()).isFile()) throw new Error('it is not a regular file');
    return await handle.readFile();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

/** @throws Error that does not quote it */
function parseLine(text: string): Line {
  try {
    const { record, erased } = JSON.parse(text) as Line;
    if ([record, ...erased].every(isPlace)) return { record, erased };
  } catch {}
  throw new Error(
    'a line names no erased events; put a copy in its place, or, if the log was not restored, move the file away: it is written again',
  );
}

function isPlace(value: unknown): value is Place {
  if (!Array.isArray(value) || value.length !== 2) return false;
  const [index, entry] = value;
  return (
    Number.isSafeInteger(index) && index >= 0 && typeof entry === 'string' && /^[\da-f]{64}$/.test(entry)
  );
}

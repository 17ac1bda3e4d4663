import type { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { prepareArrays } from '@event-sourced/node/files';
import { EVENTS_ERASED, isStub, parseRecord } from '../erasure/erasure.ts';
import {
  InvalidEvent,
  NO_LOG_ID,
  type Position,
  type Problem,
  type RecordedEvent,
  START,
} from '../eventStore.ts';
import type { View } from './view.ts';
import {
  type Bookmark,
  type Difference,
  isOtherFile,
  openForReading,
  type Row,
  readBookmark,
  type ViewDefinition,
} from './viewFile.ts';

/** The number of events per commit of a draft: a larger commit writes fewer pages. */
const DRAFT_BATCH = 30_000;

/** A view in a file; `open` opens it in a draft. */
export type ComparedView = { name: string; file: string; open: (draftFile: string) => View };

type Options = ComparedView & {
  logId: string;
  /** The path of the draft; it must not exist. */
  draftFile: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
};

/**
 * Compares the view in a file with a draft, which is folded from the log up to the view's bookmark. The comparison
 * uses a snapshot: it does not see later writes of a server.
 */
export class ViewComparison implements Disposable {
  /** The view's bookmark in the snapshot. */
  readonly bookmark: Bookmark;
  /** Whether the file was found damaged. */
  isDamaged = false;
  readonly #options: Options;
  /** Whether the view belongs to this log, or to no log yet. */
  readonly #followsLog: boolean;
  readonly #draft: View;
  /** The connection with the snapshot of the view. */
  readonly #db: DatabaseSync;
  readonly #resources: DisposableStack;
  #events = 0;
  #last: { position: Position; id: string; isStub: boolean } = { position: START, id: '', isStub: false };
  /** The stubs that no record before the bookmark names, by index: the view may have rows of their events. */
  readonly #stubs = new Map<number, Position>();

  /** @throws Error if the file cannot be read */
  constructor(options: Options) {
    const { file, open, draftFile, logId } = options;
    using opening = new DisposableStack();
    this.#options = options;
    this.#draft = opening.adopt(open(draftFile), (draft) => draft.close());
    this.#draft.bind(logId);
    this.#db = opening.use(openForReading(file, this.#draft.definition));
    this.#db.prepare('ATTACH ? AS draft').run(draftFile);
    this.#db.exec('BEGIN');
    this.bookmark = readBookmark(this.#db);
    const { logId: viewLogId, position } = this.bookmark;
    this.#followsLog = viewLogId === logId || (viewLogId === NO_LOG_ID && position === START);
    this.#resources = opening.move();
  }

  /** Takes the events in log order. */
  apply(event: RecordedEvent): void {
    const isNext = event.position > this.#last.position && event.position <= this.bookmark.position;
    if (!this.#followsLog || !isNext) return;
    const { position, id, type, data } = event;
    this.#last = { position, id, isStub: isStub(event) };
    if (this.#last.isStub) this.#stubs.set(this.#events, position);
    if (type === EVENTS_ERASED) for (const index of parseRecord(data) ?? []) this.#stubs.delete(index);
    try {
      this.#draft.apply([event], this.#options.skip);
    } catch (error) {
      if (!(error instanceof InvalidEvent)) throw error; // reported elsewhere; an invalid event has no row
    }
    if (++this.#events % DRAFT_BATCH === 0) this.#draft.save();
  }

  /** Yields every difference; call it after the last event. */
  *problems(): Generator<Problem & Difference> {
    const { name, file } = this.#options;
    if (!this.#followsLog) {
      yield { problem: `the view ${name} belongs to another log: the next start rebuilds it` };
      return;
    }
    this.#draft.save();
    const { position, eventId } = this.bookmark;
    const hasEvent = this.#last.id === eventId || this.#last.isStub;
    if (this.#last.position !== position || !hasEvent)
      yield {
        position,
        problem: `the bookmark of the view ${name} names an event that the log does not have`,
      };
    try {
      const { table, describe, onErasure } = this.#draft.definition;
      // Events were erased after the bookmark: the view will be rebuilt.
      if (this.#stubs.size > 0 && onErasure === undefined) return;
      const erased = new Set(this.#stubs.values());
      for (const difference of differences(this.#db, table, describe))
        if (difference.position === undefined || !erased.has(difference.position))
          yield { ...difference, problem: `the view ${name} ${difference.problem}` };
    } catch (error) {
      if (!isOtherFile(error)) throw error;
      this.isDamaged = true;
      yield { problem: `the view ${file} is damaged: ${(error as Error).message}` };
    }
  }

  [Symbol.dispose](): void {
    this.#resources.dispose();
  }
}

type Values = readonly unknown[];

/** Yields the rows that differ, or that only the draft or only the view has. */
function* differences(
  db: DatabaseSync,
  table: string,
  describe: ViewDefinition['describe'],
): Generator<Problem & Difference> {
  const found = db.prepare("SELECT name, pk FROM pragma_table_info(?, 'draft')").all(table);
  const columns = found.map(({ name }) => String(name));
  const allOf = (row: string): string => columns.map((name) => `${row}.${name}`).join();
  const isSameKey = found
    .flatMap(({ name, pk }) => (pk === 0 ? [] : [`log.${name} = view.${name}`]))
    .join(' AND ');
  const sql = `
    SELECT ${allOf('log')}, ${allOf('view')} FROM draft.${table} AS log LEFT JOIN main.${table} AS view ON ${isSameKey}
    WHERE (${allOf('log')}) IS NOT (${allOf('view')})
    UNION ALL
    SELECT ${columns.map(() => 'NULL')}, ${allOf('view')} FROM main.${table} AS view
    WHERE NOT EXISTS (SELECT 1 FROM draft.${table} AS log WHERE ${isSameKey})`;
  const at = columns.indexOf('position');
  for (const both of prepareArrays(db, sql).iterate() as Iterable<unknown> as Iterable<Values>) {
    const expected = both.slice(0, columns.length);
    const actual = both.slice(columns.length);
    if (describe) return void (yield describe(toRow(columns, expected), toRow(columns, actual)));
    const position = actual[at] ?? expected[at];
    const problem = difference(columns, expected, actual);
    yield typeof position === 'bigint' ? { position, problem } : { problem };
  }
}

/** Undefined if all values are null, as of a missing row. */
function toRow(columns: readonly string[], values: Values): Row | undefined {
  const isMissing = values.every((value) => value === null);
  return isMissing ? undefined : Object.fromEntries(columns.map((name, i) => [name, values[i]]));
}

function difference(columns: readonly string[], expected: Values, found: Values): string {
  const text = (row: Values, isShown = (_: number): boolean => true): string =>
    columns.flatMap((name, i) => (isShown(i) ? [`${name} ${valueText(row[i])}`] : [])).join(', ');
  if (found.every((value) => value === null))
    return `lacks a row that follows from the log: ${text(expected)}`;
  if (expected.every((value) => value === null))
    return `has a row that does not follow from the log: ${text(found)}`;
  const differing = text(expected, (i) => !isDeepStrictEqual(expected[i], found[i]));
  return `has a wrong row: ${text(found)}; according to the log, it has ${differing}`;
}

const MAX_CHARACTERS = 1_000;
const SHOWN_BYTES = 8;

function valueText(value: unknown): string {
  if (value instanceof Uint8Array)
    return `${Buffer.from(value.subarray(0, SHOWN_BYTES)).toString('hex')}… (${value.length} bytes)`;
  const text = String(value);
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}

import type { DatabaseSync } from 'node:sqlite';
import { isDeepStrictEqual } from 'node:util';
import { openReadOnly, readHeader } from '../disk/sqlite.ts';
import { InvalidEvent, NO_LOG_ID, type RecordedEvent, START } from '../eventStore.ts';
import { CHECKSUM_MISMATCH } from './tableReader.ts';
import type { ViewCheckpoint } from './view.ts';
import { DamagedView, isDamage, readCheckpoint } from './viewDatabase.ts';
import { type OpenView, ViewDraft } from './viewDraft.ts';

/** A contradiction, at a position of the log if it has one. */
export type Problem = { position?: bigint; problem: string };

type Options = {
  /** The view, as it is called in messages. */
  name: string;
  file: string;
  open: OpenView;
  /** The log to compare the view with. */
  logId: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
  /** The file of the draft, which is removed at the end. */
  draftFile: string;
};

/**
 * Compares the view in a file with a draft, folded from its log up to the checkpoint that the view had at the
 * beginning. What a server writes to the file meanwhile is not seen.
 */
export class ViewComparison implements AsyncDisposable {
  /** The view's checkpoint at the beginning. */
  readonly checkpoint: ViewCheckpoint;
  /** Whether the view follows this log, or has not followed any yet. */
  readonly isOfLog: boolean;
  /** Whether the file was found damaged. */
  isDamaged = false;
  readonly #options: Options;
  readonly #draft: ViewDraft;
  /** Has the snapshot of the view, and the draft attached. */
  readonly #db: DatabaseSync;
  readonly #skip: Set<string>;

  /** @throws Error if the file cannot be read */
  static async open(options: Options): Promise<ViewComparison> {
    const { open, draftFile, logId } = options;
    const draft = await ViewDraft.open(open, draftFile, logId);
    try {
      return new ViewComparison(options, draft);
    } catch (error) {
      await draft[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(options: Options, draft: ViewDraft) {
    this.#options = options;
    this.#draft = draft;
    this.#skip = new Set(options.skip);
    ({ db: this.#db, checkpoint: this.checkpoint } = openSnapshot(options.file, options.draftFile));
    const { logId, position } = this.checkpoint;
    this.isOfLog = logId === options.logId || (logId === NO_LOG_ID && position === START);
  }

  /** Takes the events in log order. */
  async apply(events: readonly RecordedEvent[]): Promise<void> {
    if (!this.isOfLog) return;
    const { position } = this.checkpoint;
    const isNext = (event: RecordedEvent): boolean =>
      event.position > this.#draft.view.applied.position && event.position <= position;
    for (let left = events.filter(isNext); left.length > 0; left = left.filter(isNext)) {
      try {
        await this.#draft.apply(left, this.#skip);
        return;
      } catch (error) {
        if (!(error instanceof InvalidEvent)) throw error;
        this.#skip.add(error.eventId); // reported elsewhere; here it has no row
      }
    }
  }

  /** After the last event: every difference. */
  async *problems(): AsyncGenerator<Problem> {
    const { name, file } = this.#options;
    if (!this.isOfLog) {
      yield { problem: `the view ${name} belongs to another log: the next start rebuilds it` };
      return;
    }
    await this.#draft.close();
    const { position, eventId } = this.checkpoint;
    const { applied } = this.#draft.view;
    if (applied.position !== position || applied.eventId !== eventId)
      yield {
        position,
        problem: `the checkpoint of the view ${name} names an event that the log does not have`,
      };
    try {
      let isSame = true;
      let hasOtherChecksums = false;
      for (const table of tablesOf(this.#db))
        for (const difference of differences(this.#db, table)) {
          if (difference === undefined) hasOtherChecksums = true;
          else {
            isSame = false;
            yield { ...difference, problem: `the view ${name} ${difference.problem}` };
          }
        }
      if (isSame && hasOtherChecksums) throw new DamagedView(CHECKSUM_MISMATCH);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.isDamaged = true;
      yield { problem: `the view ${file} is damaged: ${(error as Error).message}` };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#db.isOpen) this.#db.close();
    await this.#draft[Symbol.asyncDispose]();
  }
}

/** Opens a view in one snapshot, with its draft attached, of which a snapshot is taken when it is read. */
function openSnapshot(file: string, draftFile: string): { db: DatabaseSync; checkpoint: ViewCheckpoint } {
  const db = openReadOnly(file);
  try {
    const [found, expected] = [readHeader(db), headerOf(draftFile)];
    if (found.applicationId !== expected.applicationId) throw new DamagedView('the file is not this view');
    if (found.version !== expected.version)
      throw new DamagedView(`it has version ${found.version}, not ${expected.version}`);
    db.prepare('ATTACH ? AS draft').run(draftFile);
    db.exec('BEGIN');
    return { db, checkpoint: readCheckpoint(db) };
  } catch (error) {
    db.close();
    throw error;
  }
}

function headerOf(file: string): ReturnType<typeof readHeader> {
  using db = openReadOnly(file);
  return readHeader(db);
}

/** These columns follow from the others, also those of other rows. */
const CHECKSUMS = ['checksum', 'link'];

type TableColumns = { table: string; columns: string[]; keys: string[] };

/** The tables of a draft, except for those that say how far it has come. */
function tablesOf(db: DatabaseSync): TableColumns[] {
  const tables = db.prepare(
    "SELECT name FROM draft.sqlite_schema WHERE type = 'table' AND name NOT IN ('checkpoint', 'read_to')",
  );
  const columnsOf = db.prepare("SELECT name, pk FROM pragma_table_info(?, 'draft')");
  return tables.all().map(({ name }) => {
    const found = columnsOf.all(name as string) as { name: string; pk: number }[];
    const keys = found.filter(({ pk }) => pk > 0).map((column) => column.name);
    const columns = found.map((column) => column.name).sort((a, b) => isChecksum(a) - isChecksum(b));
    return { table: String(name), columns, keys: keys.length > 0 ? keys : ['rowid'] };
  });
}

const isChecksum = (name: string): number => Number(CHECKSUMS.includes(name));

type Values = readonly unknown[];

/** The rows that only the draft or only the view has, and those that differ; undefined if only checksums do. */
function* differences(db: DatabaseSync, table: TableColumns): Generator<Problem | undefined> {
  const { columns, keys } = table;
  const of = (row: string): string => columns.map((name) => `${row}.${name}`).join();
  const isSameKey = keys.map((name) => `log.${name} = view.${name}`).join(' AND ');
  const statement = db.prepare(`
    SELECT ${of('log')}, ${of('view')} FROM draft.${table.table} AS log LEFT JOIN main.${table.table} AS view ON ${isSameKey}
    WHERE (${of('log')}) IS NOT (${of('view')})
    UNION ALL
    SELECT ${columns.map(() => 'NULL')}, ${of('view')} FROM main.${table.table} AS view
    WHERE NOT EXISTS (SELECT 1 FROM draft.${table.table} AS log WHERE ${isSameKey})`);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  const values = columns.filter((name) => !isChecksum(name));
  for (const both of statement.iterate() as Iterable<unknown> as Iterable<Values>) {
    const expected = both.slice(0, values.length);
    const found = both.slice(columns.length, columns.length + values.length);
    const at = values.indexOf('position');
    const position = found[at] ?? expected[at];
    const problem = isDeepStrictEqual(expected, found) ? undefined : difference(values, expected, found);
    if (problem === undefined) yield undefined;
    else yield typeof position === 'bigint' ? { position, problem } : { problem };
  }
}

function difference(columns: readonly string[], expected: Values, found: Values): string {
  const text = (row: Values, isShown = (_: number): boolean => true): string =>
    columns.flatMap((name, i) => (isShown(i) ? [`${name} ${valueText(row[i])}`] : [])).join(', ');
  if (found.every((value) => value === null)) return `lacks a row that the log has: ${text(expected)}`;
  if (expected.every((value) => value === null))
    return `has a row that the log does not have: ${text(found)}`;
  const differing = text(expected, (i) => !isDeepStrictEqual(expected[i], found[i]));
  return `has another row than the log: ${text(found)}; by the log it has ${differing}`;
}

const MAX_CHARACTERS = 1_000;
const SHOWN_BYTES = 8;

/** A value for messages. */
function valueText(value: unknown): string {
  if (value instanceof Uint8Array)
    return `${Buffer.from(value.subarray(0, SHOWN_BYTES)).toString('hex')}… (${value.length} bytes)`;
  const text = String(value);
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}

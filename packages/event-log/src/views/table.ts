import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DamagedFile } from '../disk/sqlite.ts';

/** A view as data: its table, and the identification of its file. */
export type Table = Readonly<{
  /** The name of the view in logs and messages. */
  name: string;
  /** The application ID in the header of its file. */
  applicationId: number;
  /** If the file has a different version, it is replaced and the view is rebuilt. */
  version: number;
  columns: Readonly<Record<string, 'TEXT' | 'INTEGER'>>;
  /** The number of leading columns in the primary key. Rows with the same first column are read together. */
  keyColumns: number;
  /** Columns of a secondary index. */
  lookup?: readonly string[];
  /** The page cache; scattered rows need a larger one. */
  cacheKiB: number;
}>;

export type Value = string | bigint;
/** The values of a row in the order of the columns; the first values are its key. */
export type Row = readonly Value[];
export type Key = readonly Value[];

/** The rows of a view, which its fold reads and changes. */
export type Rows<R extends Row> = {
  get(...key: Key): R | undefined;
  /** A row with these values in the `lookup` columns. */
  find(...values: Value[]): R | undefined;
  /** Adds a row, or replaces the one with its key. */
  put(row: R): void;
  delete(...key: Key): void;
};

/** The rows after a key that share its first value, or only their keys; `limit` is the expected number of rows. */
export type Scan = { after: Key; columns?: 'all' | 'key'; limit?: number | undefined };

/** The maximum number of rows per read. */
const CHUNK_SIZE = 128;
/** Longer texts are read one by one, to keep chunks small. */
const SHORT_TEXT_BYTES = 1_024;

/** The SQL schema of a table. Each row has a checksum, to detect damage that SQLite does not detect. */
export function tableSchema({ columns, keyColumns, lookup }: Table): string {
  const names = Object.keys(columns);
  return `
    CREATE TABLE rows (
      ${names.map((name) => `${name} ${columns[name]} NOT NULL,`).join(' ')} checksum INTEGER NOT NULL,
      PRIMARY KEY (${names.slice(0, keyColumns)})
    ) STRICT, WITHOUT ROWID;
    ${lookup ? `CREATE INDEX rows_by_lookup ON rows (${lookup});` : ''}`;
}

/** The rows of a table in a database. A read throws DamagedFile if a row differs from what was written. */
export class TableRows<R extends Row> implements Rows<R> {
  readonly #keyColumns: number;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(db: DatabaseSync, table: Table) {
    this.#keyColumns = table.keyColumns;
    this.#statements = prepare(db, table);
  }

  get(...key: Key): R | undefined {
    return this.#row(this.#statements.get.get(...storable(key)));
  }

  find(...values: Value[]): R | undefined {
    return this.#row(this.#statements.find?.get(...storable(values)));
  }

  put(row: R): void {
    const stored = storable(row);
    this.#statements.put.run(...stored, rowChecksum(stored));
  }

  delete(...key: Key): void {
    this.#statements.remove.run(...storable(key));
  }

  /** Calls `visit` with rows in key order until it returns false. Keys are not verified. */
  scan({ after, columns = 'all', limit = CHUNK_SIZE }: Scan, visit: (row: R) => boolean): void {
    const size = Math.min(Math.max(limit, 1), CHUNK_SIZE);
    const [partition] = after;
    for (let key = storable(after); ; ) {
      // Not an iterator, which costs more: while it is open, SQLite cannot move the write-ahead log.
      const found = this.#statements[columns].all(...key, size) as unknown as Value[][];
      for (const values of found) {
        values[0] = partition as Value; // all rows have it, so the query omits it
        const row = columns === 'key' ? (values as Row as R) : this.#verified(values);
        if (!visit(row)) return;
        key = values.slice(0, this.#keyColumns);
      }
      if (found.length < size) return;
    }
  }

  #row(found: unknown): R | undefined {
    return found === undefined ? undefined : this.#verified(found as Value[]);
  }

  /** Removes and verifies the checksum of a row. In a chunk, NULL stands for a long text. */
  #verified(values: Value[]): R {
    if (values.includes(null as never)) {
      const row = this.#row(this.#statements.get.get(...values.slice(0, this.#keyColumns)));
      if (!row) throw new DamagedFile('a row is not found by its key');
      return row;
    }
    const checksum = values.pop();
    if (BigInt(rowChecksum(values)) !== checksum) throw new DamagedFile('a row has a wrong checksum');
    return values as Row as R;
  }
}

function prepare(db: DatabaseSync, { columns, keyColumns, lookup }: Table) {
  const names = Object.keys(columns);
  const [partition, ...rest] = names.slice(0, keyColumns);
  const isEach = (keys: readonly string[]): string => keys.map((name) => `${name} = ?`).join(' AND ');
  const short = names
    .slice(keyColumns)
    .map((name) =>
      columns[name] === 'INTEGER'
        ? name
        : `CASE WHEN octet_length(${name}) <= ${SHORT_TEXT_BYTES} THEN ${name} END`,
    );
  const isAfter = rest.length > 0 ? `AND (${rest}) > (${rest.map(() => '?')})` : '';
  const inPartition = `FROM rows WHERE ${partition} = ? ${isAfter} ORDER BY ${[partition, ...rest]} LIMIT ?`;
  const whole = `SELECT ${names}, checksum FROM rows WHERE`;
  // The index is named, since SQLite prefers to search all rows of a partition.
  const inLookup = `SELECT ${names}, checksum FROM rows INDEXED BY rows_by_lookup WHERE`;
  const hasKey = isEach(names.slice(0, keyColumns));
  return {
    get: prepareArrays(db, `${whole} ${hasKey}`),
    find: lookup && prepareArrays(db, `${inLookup} ${isEach(lookup)}`),
    all: prepareArrays(db, `SELECT ${["''", ...rest, ...short]}, checksum ${inPartition}`),
    key: prepareArrays(db, `SELECT ${["''", ...rest]} ${inPartition}`),
    put: db.prepare(`INSERT OR REPLACE INTO rows VALUES (${names.map(() => '?')}, ?)`),
    remove: db.prepare(`DELETE FROM rows WHERE ${hasKey}`),
  };
}

/** Prepares a statement that reads rows as arrays, and integers as bigint. */
export function prepareArrays(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true); // half the cost of objects
  return statement;
}

/** The values that SQLite will return: it replaces unpaired surrogates. */
const storable = (values: readonly Value[]): Value[] =>
  values.map((value) => (typeof value === 'string' ? value.toWellFormed() : value));

const FNV_OFFSET = 0x811c9dc5 | 0;
const FNV_PRIME = 0x01000193;
/** Separates values; it is not a UTF-16 code unit. */
const SEPARATOR = 0x10000;

/** FNV-1a with 32 bits over UTF-16 code units and halves of integers. In JavaScript, since a native call costs more. */
function rowChecksum(row: Row): number {
  let sum = FNV_OFFSET;
  for (const value of row) {
    const number = typeof value === 'bigint' ? Number(value) : Number.NaN;
    if (Number.isSafeInteger(number)) {
      sum = Math.imul(sum ^ number, FNV_PRIME);
      sum = Math.imul(sum ^ Math.floor(number / 2 ** 32), FNV_PRIME);
    } else {
      const text = String(value);
      for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), FNV_PRIME);
    }
    sum = Math.imul(sum ^ SEPARATOR, FNV_PRIME);
  }
  return sum;
}

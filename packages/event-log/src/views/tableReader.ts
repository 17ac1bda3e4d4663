import type { DatabaseSync } from 'node:sqlite';
import { checksumOf, compareKeys, type Key, linkOf, type Row, type Table, type Value } from './table.ts';
import { DamagedView, prepareArrays } from './viewDatabase.ts';

export const CHECKSUM_MISMATCH = 'its rows do not have the checksums that were saved with them';

/** A row as it is linked: its key, its checksum, and the key that follows; no key is the head before all rows. */
export type Link = { key: Key; checksum: number; next: Key | undefined };

/** After a key: the rows with the same first value, only their keys, or the rest of the table; about `limit` rows. */
type Scan = { after: Key; of: 'rows' | 'keys' | 'table'; limit?: number | undefined };

/** Rows that are read together at most. */
const CHUNK_SIZE = 128;
/** Longer texts are read one by one, so that a chunk is small. */
const SHORT_TEXT_BYTES = 1_024;
/** Rows are checked in steps, between which the file is written. */
const CHECKED_ROWS = 1_000;
const CHECKED_CHARACTERS = 1024 * 1024;

/**
 * The rows of a table in a file, sorted by key. Each is linked to the next one by a checksum, the first one to the
 * head, so that what is read, and what is not there, is as it was saved, or a DamagedView is thrown.
 */
export class TableReader {
  readonly #db: DatabaseSync;
  readonly #keyColumns: number;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(db: DatabaseSync, table: Table) {
    this.#db = db;
    this.#keyColumns = table.keyColumns;
    this.#statements = prepare(db, table);
  }

  snapshot<T>(read: () => T): T {
    this.#statements.begin.get();
    try {
      return read();
    } finally {
      if (this.#db.isTransaction) this.#statements.commit.get();
    }
  }

  /** The last row up to a key, or before it. @throws DamagedView */
  floor(key: Key, { isBefore = false } = {}): Link {
    const { upTo, before, head, first, next } = this.#statements;
    const found = key.length > 0 ? arrayOf((isBefore ? before : upTo).get(...key)) : undefined;
    const at = found?.slice(0, this.#keyColumns) ?? [];
    const [checksum, link] = found?.slice(this.#keyColumns) ?? [0n, arrayOf(head.get())?.[0]];
    const following = arrayOf(at.length > 0 ? next.get(...at) : first.get());
    this.#check({ key: at, checksum: Number(checksum), next: following }, link);
    return { key: at, checksum: Number(checksum), next: following };
  }

  /** The row with a key. @throws DamagedView */
  get(key: Key): Row | undefined {
    const found = this.floor(key);
    if (found.key.length === 0 || compareKeys(found.key, key, this.#keyColumns) !== 0) return undefined;
    const row = this.#row(key);
    if (checksumOf(row, this.#keyColumns) !== found.checksum) throw new DamagedView(CHECKSUM_MISMATCH);
    return row;
  }

  /** The rows with these values in the columns of `lookup`. */
  find(values: readonly Value[]): Row[] {
    const keys = (this.#statements.find?.all(...values) ?? []) as unknown as Value[][];
    return keys.map((key) => this.get(key)).filter((row) => row !== undefined);
  }

  /** Calls `visit` with rows in key order until it returns false; then returns false. @throws DamagedView */
  scan({ after, of, limit = CHUNK_SIZE }: Scan, visit: (row: Row) => boolean): boolean {
    const [partition] = after;
    const size = Math.min(Math.max(limit, 1), CHUNK_SIZE);
    let { next } = this.floor(after);
    while (next && (of === 'table' || next[0] === partition)) {
      const rows = this.#statements[of].all(...next, size) as unknown as Value[][];
      if (of !== 'table') for (const row of rows) row[0] = partition as Value;
      if (!rows[0] || compareKeys(rows[0], next, this.#keyColumns) !== 0)
        throw new DamagedView(CHECKSUM_MISMATCH);
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i] as Value[];
        next = rows[i + 1] ?? arrayOf(this.#statements.next.get(...row.slice(0, this.#keyColumns)));
        if (!visit(this.#verified(row, next, of))) return false;
      }
    }
    return true;
  }

  /** Verifies all rows, in steps between which the file may be written. @throws DamagedView */
  *check(): Generator<void> {
    let key: Key = [];
    for (let isEnd = false; !isEnd; ) {
      let count = 0;
      let characters = 0;
      isEnd = this.scan({ after: key, of: 'table' }, (row) => {
        key = row.slice(0, this.#keyColumns);
        for (const value of row) characters += typeof value === 'string' ? value.length : 0;
        return ++count < CHECKED_ROWS && characters < CHECKED_CHARACTERS;
      });
      yield;
    }
  }

  /** A row of a scan, without its checksums. */
  #verified(read: Value[], next: Key | undefined, of: Scan['of']): Row {
    const link = read.pop();
    const saved = of === 'rows' ? undefined : Number(read.pop());
    const row = read.includes(null as never) ? this.#row(read.slice(0, this.#keyColumns)) : read;
    const checksum = of === 'keys' ? Number(saved) : checksumOf(row, this.#keyColumns);
    if (saved !== undefined && saved !== checksum) throw new DamagedView(CHECKSUM_MISMATCH);
    this.#check({ key: row, checksum, next }, link);
    return row;
  }

  #row(key: Key): Row {
    const row = arrayOf(this.#statements.row.get(...key));
    if (!row) throw new DamagedView(CHECKSUM_MISMATCH);
    return row;
  }

  #check({ key, checksum, next }: Link, link: unknown): void {
    if (linkOf(key, checksum, next, this.#keyColumns) !== Number(link))
      throw new DamagedView(CHECKSUM_MISMATCH);
  }
}

const arrayOf = (row: unknown): Value[] | undefined => row as Value[] | undefined;

function prepare(db: DatabaseSync, { columns, keyColumns, lookup }: Table) {
  const names = Object.keys(columns);
  const keyNames = names.slice(0, keyColumns);
  const key = keyNames.join();
  const given = keyNames.map(() => '?').join();
  const descending = keyNames.map((name) => `${name} DESC`).join();
  const [partition, ...rest] = keyNames;
  const short = names.map((name, i) =>
    i < keyColumns || columns[name] === 'INTEGER'
      ? name
      : `CASE WHEN octet_length(${name}) <= ${SHORT_TEXT_BYTES} THEN ${name} END`,
  );
  const inPartition = `FROM rows WHERE ${partition} = ? ${rest.length > 0 ? `AND (${rest}) >= (${rest.map(() => '?')})` : ''} ORDER BY ${key} LIMIT ?`;
  const select = (sql: string) => prepareArrays(db, `SELECT ${sql}`);
  return {
    begin: db.prepare('BEGIN'),
    commit: db.prepare('COMMIT'),
    upTo: select(
      `${key}, checksum, link FROM rows WHERE (${key}) <= (${given}) ORDER BY ${descending} LIMIT 1`,
    ),
    before: select(
      `${key}, checksum, link FROM rows WHERE (${key}) < (${given}) ORDER BY ${descending} LIMIT 1`,
    ),
    next: select(`${key} FROM rows WHERE (${key}) > (${given}) ORDER BY ${key} LIMIT 1`),
    first: select(`${key} FROM rows ORDER BY ${key} LIMIT 1`),
    head: select('link FROM head'),
    row: select(`${names} FROM rows WHERE (${key}) = (${given})`),
    find: lookup && select(`${key} FROM rows WHERE ${lookup.map((name) => `${name} = ?`).join(' AND ')}`),
    // The first value is that of all rows: it is not read again.
    rows: select(`${['NULL', ...short.slice(1)]}, link ${inPartition}`),
    keys: select(`${['NULL', ...rest]}, checksum, link ${inPartition}`),
    table: select(`${short}, checksum, link FROM rows WHERE (${key}) >= (${given}) ORDER BY ${key} LIMIT ?`),
  };
}

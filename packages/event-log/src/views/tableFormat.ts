import type { DatabaseSync } from 'node:sqlite';
import { checksumOf, compareKeys, type Key, linkOf, type Row, type Table } from './table.ts';
import { type Link, TableReader } from './tableReader.ts';
import type { SavedRow, ViewFormat } from './viewDatabase.ts';

/** What deletes the row with a key, in place of a row. */
export const deletionOf = (key: Key): SavedRow => [...key, null];

const isDeletion = (change: SavedRow): boolean => change.at(-1) === null;

/** The SQL of a table, whose rows may have other columns, too. */
export function rowsSchema({ columns, keyColumns, lookup }: Table, others = ''): string {
  const names = Object.keys(columns);
  return `
    CREATE TABLE rows (
      ${names.map((name) => `${name} ${columns[name]} NOT NULL,`).join(' ')} ${others}
      PRIMARY KEY (${names.slice(0, keyColumns)})
    ) STRICT, WITHOUT ROWID;
    ${lookup ? `CREATE INDEX rows_by_lookup ON rows (${lookup});` : ''}`;
}

export function tableFormat(table: Table): ViewFormat {
  const empty = linkOf([], 0, undefined, table.keyColumns);
  return {
    ...table,
    schema: `
      ${rowsSchema(table, 'checksum INTEGER NOT NULL, link INTEGER NOT NULL,')}
      CREATE TABLE head (link INTEGER NOT NULL) STRICT;
      INSERT INTO head VALUES (${empty});`,
    empty: `DELETE FROM rows; UPDATE head SET link = ${empty}`,
    insert: (db) => {
      const writes = new TableWrites(db, table);
      return (changes) => writes.apply(changes);
    },
    check: (db) => new TableReader(db, table).check(),
  };
}

/** A row that is linked anew: with `row`, it is written as a whole. */
type Changed = Link & { row?: Row; isRelinked?: boolean };

/** Changes rows in key order, so that adjacent ones are looked up, and linked, once. */
class TableWrites {
  readonly #reader: TableReader;
  readonly #keyColumns: number;
  readonly #statements;
  /** The last row before the next change, or the head. */
  #at: Changed | undefined;

  constructor(db: DatabaseSync, table: Table) {
    const { columns, keyColumns } = table;
    const names = Object.keys(columns);
    const given = (count: number): string => Array(count).fill('?').join();
    const hasKey = `(${names.slice(0, keyColumns)}) = (${given(keyColumns)})`;
    this.#keyColumns = keyColumns;
    this.#reader = new TableReader(db, table);
    this.#statements = {
      put: db.prepare(`INSERT OR REPLACE INTO rows VALUES (${given(names.length + 2)})`),
      relink: db.prepare(`UPDATE rows SET link = ? WHERE ${hasKey}`),
      relinkHead: db.prepare('UPDATE head SET link = ?'),
      remove: db.prepare(`DELETE FROM rows WHERE ${hasKey}`),
    };
  }

  /** Of several changes of a row, the last one counts. @throws DamagedView */
  apply(changes: readonly SavedRow[]): void {
    this.#at = undefined; // the file may be another one
    const sorted = (changes as Row[]).toSorted((one, other) => this.#compare(one, other));
    for (const change of sorted) {
      const at = this.#moveTo(change);
      const exists = at.key.length > 0 && this.#compare(at.key, change) === 0;
      if (!isDeletion(change)) this.#put(change, exists, at);
      else if (exists) this.#delete(at);
    }
    this.#flush();
  }

  #compare(one: Key, other: Key): number {
    return compareKeys(one, other, this.#keyColumns);
  }

  /** The row with this key, or else the last one before it. */
  #moveTo(key: Key): Changed {
    const at = this.#at;
    const isAfter = at && (at.key.length === 0 || this.#compare(at.key, key) <= 0);
    if (isAfter && (!at.next || this.#compare(key, at.next) < 0)) return at;
    this.#flush();
    this.#at = this.#reader.floor(key.slice(0, this.#keyColumns));
    return this.#at;
  }

  #put(row: Row, exists: boolean, at: Changed): void {
    const key = row.slice(0, this.#keyColumns);
    const { next } = at;
    if (!exists) {
      at.next = key;
      at.isRelinked = true;
      this.#flush();
    }
    this.#at = { key, checksum: checksumOf(row, this.#keyColumns), next, row };
  }

  #delete(at: Changed): void {
    this.#flush();
    const before: Changed = this.#reader.floor(at.key, { isBefore: true });
    this.#statements.remove.run(...at.key);
    this.#at = { ...before, next: at.next, isRelinked: true };
  }

  #flush(): void {
    if (!this.#at) return;
    const { key, checksum, next, row, isRelinked } = this.#at;
    const link = linkOf(key, checksum, next, this.#keyColumns);
    if (row) this.#statements.put.run(...row, checksum, link);
    else if (isRelinked && key.length > 0) this.#statements.relink.run(link, ...key);
    else if (isRelinked) this.#statements.relinkHead.run(link);
    this.#at = { key, checksum, next };
  }
}

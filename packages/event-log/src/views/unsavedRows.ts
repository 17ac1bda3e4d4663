import {
  compareKeys,
  type Key,
  lookupOf,
  type Row,
  type Rows,
  type Table,
  textOf,
  type Value,
} from './table.ts';

/** A row that was put or, without `row`, deleted, before the save with this number. */
export type Change<R extends Row> = Readonly<{ key: Key; row: R | undefined; save: number }>;

/** The rows of a view that have changed since its file was saved; of a view without a file, all of them. */
export class UnsavedRows<R extends Row> implements Rows<R> {
  readonly #table: Table;
  /** By the first value of their keys, and by their keys. */
  readonly #changes = new Map<Value, Map<string, Change<R>>>();
  /** The number of the next save. */
  #save = 0;
  /** All changes with the same first value, in key order, as far as they were read since the last one. */
  readonly #sorted = new Map<Value, readonly Change<R>[]>();
  /** Keys of rows that were put, by their values in the columns of `lookup`. */
  readonly #lookup = new Map<string, Key>();

  constructor(table: Table) {
    this.#table = table;
  }

  get(...key: Key): R | undefined {
    return this.change(key)?.row;
  }

  find(...values: Value[]): R | undefined {
    const key = this.#lookup.get(textOf(values));
    const row = key && this.change(key)?.row;
    return row && textOf(lookupOf(this.#table, row)) === textOf(values) ? row : undefined;
  }

  put(row: R): void {
    const key = row.slice(0, this.#table.keyColumns);
    this.#set(key, row);
    if (this.#table.lookup) this.#lookup.set(textOf(lookupOf(this.#table, row)), key);
  }

  delete(...key: Key): void {
    this.#set(key, undefined);
  }

  change(key: Key): Change<R> | undefined {
    return this.#changes.get(key[0] as Value)?.get(textOf(key));
  }

  /** The changes with the same first value, after a key, in key order. */
  after(key: Key): readonly Change<R>[] {
    const partition = key[0] as Value;
    const sorted = this.#sorted.get(partition) ?? this.#sort(partition);
    const first = sorted.findIndex((change) => this.#compare(change.key, key) > 0);
    return first < 0 ? [] : sorted.slice(first);
  }

  /** From now on these changes are being saved, with those whose save has failed. */
  startSave(): void {
    this.#save++;
  }

  /** The last save that was started has succeeded. */
  endSave(): void {
    for (const [partition, changes] of this.#changes) {
      for (const [text, { save }] of changes) if (save < this.#save) changes.delete(text);
      if (changes.size === 0) this.#changes.delete(partition);
    }
    this.#sorted.clear();
    if (this.#changes.size === 0) this.#lookup.clear();
  }

  clear(): void {
    this.#changes.clear();
    this.endSave();
  }

  #set(key: Key, row: R | undefined): void {
    const partition = key[0] as Value;
    const changes = this.#changes.get(partition) ?? new Map<string, Change<R>>();
    this.#changes.set(partition, changes.set(textOf(key), { key, row, save: this.#save }));
    this.#sorted.delete(partition);
  }

  #sort(partition: Value): readonly Change<R>[] {
    const changes = [...(this.#changes.get(partition)?.values() ?? [])];
    const sorted = changes.sort((one, other) => this.#compare(one.key, other.key));
    this.#sorted.set(partition, sorted);
    return sorted;
  }

  #compare(one: Key, other: Key): number {
    return compareKeys(one, other, this.#table.keyColumns);
  }
}

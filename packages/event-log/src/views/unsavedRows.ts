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

/** A row that was put or, without `row`, deleted. */
export type Change<R extends Row> = Readonly<{ key: Key; row: R | undefined }>;

/** By the first value of their keys, and by their keys. */
type Changes<R extends Row> = Map<Value, Map<string, Change<R>>>;

/** The rows of a view that have changed since its file was saved; of a view without a file, all of them. */
export class UnsavedRows<R extends Row> implements Rows<R> {
  readonly #table: Table;
  /** Those since the last save, and before them those that are being saved. */
  #changes: Changes<R> = new Map();
  #inSave: Changes<R> = new Map();
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
    this.#set({ key, row });
    if (this.#table.lookup) this.#lookup.set(textOf(lookupOf(this.#table, row)), key);
  }

  delete(...key: Key): void {
    this.#set({ key, row: undefined });
  }

  change(key: Key): Change<R> | undefined {
    const [partition, text] = [key[0] as Value, textOf(key)];
    return this.#changes.get(partition)?.get(text) ?? this.#inSave.get(partition)?.get(text);
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
    if (this.#inSave.size === 0) this.#inSave = this.#changes;
    else
      for (const [partition, changes] of this.#changes)
        this.#inSave.set(partition, new Map([...(this.#inSave.get(partition) ?? []), ...changes]));
    this.#changes = new Map();
  }

  endSave(): void {
    this.#inSave = new Map();
    this.#sorted.clear();
    if (this.#changes.size === 0) this.#lookup.clear();
  }

  clear(): void {
    this.#changes = new Map();
    this.endSave();
  }

  #set(change: Change<R>): void {
    const partition = change.key[0] as Value;
    const changes = this.#changes.get(partition) ?? new Map<string, Change<R>>();
    this.#changes.set(partition, changes.set(textOf(change.key), change));
    this.#sorted.delete(partition);
  }

  #sort(partition: Value): readonly Change<R>[] {
    const [saving, changes] = [this.#inSave.get(partition), this.#changes.get(partition)];
    const all = saving && changes ? new Map([...saving, ...changes]) : (changes ?? saving);
    const sorted = [...(all?.values() ?? [])].sort((one, other) => this.#compare(one.key, other.key));
    this.#sorted.set(partition, sorted);
    return sorted;
  }

  #compare(one: Key, other: Key): number {
    return compareKeys(one, other, this.#table.keyColumns);
  }
}

import { compareKeys, type Key, lookupOf, type Row, type Table, textOf, type Value } from './table.ts';

/** A row that was put or, without `row`, deleted. */
export type Change<R extends Row> = Readonly<{ key: Key; row: R | undefined }>;

/** By the first value of their keys, and by their keys. */
type Changes<R extends Row> = Map<Value, Map<string, Change<R>>>;

/** The rows of a view that have changed since its file was saved. */
export class UnsavedRows<R extends Row> {
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

  set(key: Key, row: R | undefined): void {
    const partition = key[0] as Value;
    const changes = this.#changes.get(partition) ?? new Map<string, Change<R>>();
    this.#changes.set(partition, changes.set(textOf(key), { key, row }));
    this.#sorted.delete(partition);
    if (row && this.#table.lookup) this.#lookup.set(textOf(lookupOf(this.#table, row)), key);
  }

  get(key: Key): Change<R> | undefined {
    const [partition, text] = [key[0] as Value, textOf(key)];
    return this.#changes.get(partition)?.get(text) ?? this.#inSave.get(partition)?.get(text);
  }

  /** The row with these values in the columns of `lookup`. */
  find(values: readonly Value[]): R | undefined {
    const key = this.#lookup.get(textOf(values));
    const row = key && this.get(key)?.row;
    return row && textOf(lookupOf(this.#table, row)) === textOf(values) ? row : undefined;
  }

  /** The changes with the same first value, from a key on, in key order. */
  from(key: Key): readonly Change<R>[] {
    const partition = key[0] as Value;
    const sorted = this.#sorted.get(partition) ?? this.#sort(partition);
    const first = sorted.findIndex((change) => compareKeys(change.key, key, this.#table.keyColumns) >= 0);
    return first < 0 ? [] : sorted.slice(first);
  }

  /** From now on these changes are being saved, with those whose save has failed. */
  startSave(): void {
    for (const [partition, changes] of this.#inSave.size === 0 ? [] : this.#changes) {
      const earlier = this.#inSave.get(partition) ?? new Map<string, Change<R>>();
      for (const [text, change] of changes) earlier.set(text, change);
      this.#inSave.set(partition, earlier);
    }
    if (this.#inSave.size === 0) this.#inSave = this.#changes;
    this.#changes = new Map();
  }

  endSave(): void {
    this.#inSave = new Map();
    this.#sorted.clear();
    if (this.#changes.size === 0) this.#lookup.clear();
  }

  clear(): void {
    this.#changes.clear();
    this.#lookup.clear();
    this.endSave();
  }

  #sort(partition: Value): readonly Change<R>[] {
    const saving = this.#inSave.get(partition);
    const changes = this.#changes.get(partition);
    const all = saving && changes ? new Map([...saving, ...changes]) : (changes ?? saving ?? new Map());
    const sorted = [...all.values()].sort((one, other) =>
      compareKeys(one.key, other.key, this.#table.keyColumns),
    );
    this.#sorted.set(partition, sorted);
    return sorted;
  }
}

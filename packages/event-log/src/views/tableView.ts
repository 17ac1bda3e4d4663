import type { ReadTo, RecordedEvent } from '../eventStore.ts';
import { compareKeys, type Fold, type Key, type Row, type Rows, type Table, type Value } from './table.ts';
import { deletionOf } from './tableFormat.ts';
import { UnsavedRows } from './unsavedRows.ts';
import type { View, ViewCheckpoint } from './view.ts';
import type { SavedRow } from './viewDatabase.ts';
import { ViewFile } from './viewFile.ts';

/** A view: its table, what is folded into it, and how it is called in messages for clients. */
export type ViewDefinition<R extends Row> = { table: Table; fold: Fold<R>; title: string };

/**
 * A view that is a table in a file. Changed rows stay in memory, where queries see them, until they are saved
 * together with the checkpoint. A subclass has its definition, as a static member, and the queries.
 */
export abstract class TableView<R extends Row> implements View {
  readonly name: string;
  readonly title: string;
  onDamage = () => {};
  readTo: ReadTo | undefined;
  #savedReadTo: ReadTo | undefined;
  readonly #table: Table;
  readonly #fold: Fold<R>;
  readonly #file: ViewFile;
  readonly #unsavedRows: UnsavedRows<R>;
  readonly #rows: Rows<R>;
  applied: ViewCheckpoint;
  #unsaved = 0;
  #unsavedCharacters = 0;
  #lastSave = Promise.resolve();
  #closed: Promise<void> | undefined;

  /** Opens the view in a file. @throws Error with a message for the operator */
  static async open<R extends Row, V>(
    this: { definition: ViewDefinition<R>; new (file: ViewFile, definition: ViewDefinition<R>): V },
    file: string,
  ): Promise<V> {
    // biome-ignore lint/complexity/noThisInStatic: it is the subclass, which has the definition
    const { definition } = this;
    return new this(await ViewFile.open(file, definition.table), definition);
  }

  constructor(file: ViewFile, { table, fold, title }: ViewDefinition<R>) {
    this.name = table.name;
    this.title = title;
    this.#table = table;
    this.#fold = fold;
    this.#file = file;
    this.#unsavedRows = new UnsavedRows(table);
    this.#rows = {
      get: (...key) => this.get(...storable(key)),
      find: (...values) => this.find(...storable(values)),
      put: (row) => {
        const stored = storable(row);
        this.#unsavedRows.put(stored);
        this.#changed(stored);
        for (const value of row) if (typeof value === 'string') this.#unsavedCharacters += value.length;
      },
      delete: (...key) => {
        this.#unsavedRows.delete(...storable(key));
        this.#changed(deletionOf(storable(key)));
      },
    };
    this.applied = file.checkpoint;
    this.readTo = this.#savedReadTo = file.readTo;
    file.onDamage = () => {
      this.#clear();
      this.onDamage();
    };
  }

  get unsaved(): number {
    return this.#unsaved;
  }

  get unsavedCharacters(): number {
    return this.#unsavedCharacters;
  }

  get replaced(): string | undefined {
    return this.#file.replaced;
  }

  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void {
    for (const event of events) {
      if (!skip.has(event.id)) this.#fold(event, this.#rows);
      this.applied = { logId: this.applied.logId, position: event.position, eventId: event.id };
      this.#unsaved++;
    }
  }

  save(): Promise<void> {
    this.#lastSave = this.#lastSave.catch(() => {}).then(() => this.#save());
    return this.#lastSave;
  }

  async reset(logId: string): Promise<void> {
    await this.#lastSave.catch(() => {});
    const reset = this.#file.reset(logId);
    this.#clear();
    await reset;
    this.applied = this.#file.checkpoint;
  }

  close(): Promise<void> {
    this.#closed ??= this.save().finally(() => this.#file.close());
    return this.#closed;
  }

  /** Called when rows with this first value have changed, or any rows. */
  protected onChange(_first?: Value): void {}

  /** The row with a key. @throws ViewDamaged */
  protected get(...key: Key): R | undefined {
    const change = this.#unsavedRows.change(key);
    return change ? change.row : (this.#file.read((rows) => rows.get(key)) as R | undefined);
  }

  /** A row with these values in the columns of `lookup`. @throws ViewDamaged */
  protected find(...values: Value[]): R | undefined {
    const unsaved = this.#unsavedRows.find(...values);
    if (unsaved) return unsaved;
    const saved = this.#file.read((rows) => rows.find(values)) as R[];
    return saved.find((row) => !this.#unsavedRows.change(row.slice(0, this.#table.keyColumns)));
  }

  /**
   * Calls `visit` with the rows after a key that have its first value, in key order, until it returns false; or only
   * with their keys. About `limit` rows are expected. @throws ViewDamaged
   */
  protected scan(
    after: Key,
    visit: (row: R) => boolean,
    { of = 'rows', limit }: { of?: 'rows' | 'keys'; limit?: number } = {},
  ): void {
    const { keyColumns } = this.#table;
    const unsaved = this.#unsavedRows.after(after);
    let i = 0;
    /** Rows in memory before a key, or all that are left. */
    const visitUnsaved = (key?: Key): boolean => {
      for (let change = unsaved[i]; change; change = unsaved[++i]) {
        if (key && compareKeys(change.key, key, keyColumns) >= 0) break;
        if (change.row && !visit(change.row)) return false;
      }
      return true;
    };
    const isEnd = this.#file.read((rows) =>
      rows.scan({ after, of, limit }, (row) => {
        if (!visitUnsaved(row)) return false;
        const change = unsaved[i];
        if (!change || compareKeys(change.key, row, keyColumns) !== 0) return visit(row as Row as R);
        i++;
        return !change.row || visit(change.row);
      }),
    );
    if (isEnd) visitUnsaved();
  }

  async #save(): Promise<void> {
    const { readTo } = this;
    if (this.#unsaved === 0 && readTo === this.#savedReadTo) return;
    const [checkpoint, events, characters] = [this.applied, this.#unsaved, this.#unsavedCharacters];
    this.#unsavedRows.startSave();
    await this.#file.save(checkpoint, readTo);
    this.#unsavedRows.endSave();
    this.#savedReadTo = readTo;
    this.#unsaved -= events;
    this.#unsavedCharacters -= characters;
  }

  #changed(row: SavedRow): void {
    this.#file.add(row);
    this.onChange(row[0] as Value);
  }

  #clear(): void {
    this.applied = this.#file.checkpoint;
    this.#unsavedRows.clear();
    this.#unsaved = 0;
    this.#unsavedCharacters = 0;
    this.readTo = undefined;
    this.onChange();
  }
}

/** Values as SQLite returns them: it replaces unpaired surrogates. */
const storable = <V extends readonly Value[]>(values: V): V =>
  values.map((value) =>
    typeof value === 'string' ? value.toWellFormed() : value,
  ) as Value[] as readonly Value[] as V;

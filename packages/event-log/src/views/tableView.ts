import type { DatabaseSync } from 'node:sqlite';
import type { RecordedEvent } from '../eventStore.ts';
import {
  type Key,
  type Row,
  type Rows,
  type Scan,
  type Table,
  TableRows,
  tableSchema,
  type Value,
} from './table.ts';
import { View } from './view.ts';
import type { Checkpointer } from './viewFile.ts';

/** Applies an event to rows. It reads only its arguments, and no clock. @throws InvalidEvent, before any change */
export type Fold<R extends Row> = (event: RecordedEvent, rows: Rows<R>) => void;

/** A view: its table, its fold, and its title in messages for clients. */
export type ViewDefinition<R extends Row> = { table: Table; fold: Fold<R>; title: string };

/** A view with one table. A subclass has the definition, as a static member, and the queries. */
export abstract class TableView<R extends Row> extends View {
  readonly #definition: ViewDefinition<R>;
  /** The rows of the open file, including uncommitted changes. */
  #rows!: TableRows<R>;
  #changing!: Rows<R>;

  /** Opens the view in a file, or ':memory:'. @throws Error with a message for the operator */
  static open<R extends Row, V extends TableView<R>>(
    this: { definition: ViewDefinition<R>; new (...args: ConstructorParameters<typeof TableView<R>>): V },
    file: string,
    checkpointer?: Checkpointer,
  ): V {
    // biome-ignore lint/complexity/noThisInStatic: `this` is the subclass with the definition
    return new this(file, this.definition, checkpointer).open();
  }

  constructor(file: string, definition: ViewDefinition<R>, checkpointer?: Checkpointer) {
    const { table, title } = definition;
    super(file, { name: table.name, title, format: { ...table, schema: tableSchema(table) } }, checkpointer);
    this.#definition = definition;
  }

  /** Called with the first key value of each changed row, or without a value if all rows may have changed. */
  protected onChange(_first?: Value): void {}

  /** The row with a key. @throws ViewBehind */
  protected get(...key: Key): R | undefined {
    return this.use(() => this.#rows.get(...key));
  }

  /** A row with these values in the `lookup` columns. @throws ViewBehind */
  protected find(...values: Value[]): R | undefined {
    return this.use(() => this.#rows.find(...values));
  }

  /** Calls `visit` with each row of a scan, in key order, until it returns false. @throws ViewBehind */
  protected scan(scan: Scan, visit: (row: R) => boolean): void {
    this.use(() => this.#rows.scan(scan, visit));
  }

  protected override load(db: DatabaseSync): void {
    const rows = new TableRows<R>(db, this.#definition.table);
    this.#rows = rows;
    this.#changing = {
      get: (...key) => rows.get(...key),
      find: (...values) => rows.find(...values),
      put: (row) => {
        rows.put(row);
        this.onChange(row[0]);
      },
      delete: (...key) => {
        rows.delete(...key);
        this.onChange(key[0]);
      },
    };
    this.onChange();
  }

  protected override fold(event: RecordedEvent): void {
    this.#definition.fold(event, this.#changing);
  }
}

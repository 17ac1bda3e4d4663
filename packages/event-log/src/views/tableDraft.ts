import type { DatabaseSync } from 'node:sqlite';
import type { Row, Rows, Table } from './table.ts';
import { rowsSchema, tableFormat } from './tableFormat.ts';
import type { ViewDefinition } from './tableView.ts';
import type { ComparedFormat } from './viewComparison.ts';
import { prepareArrays } from './viewDatabase.ts';

/** How the file of a view is compared with its log: in a draft whose rows need no checksums. */
export function comparedTable<R extends Row>(
  { table, fold }: Pick<ViewDefinition<R>, 'table' | 'fold'>,
  skip: ReadonlySet<string>,
): ComparedFormat {
  return {
    ...tableFormat(table),
    draft: (db) => {
      const rows = createRows<R>(db, table);
      return {
        table: 'rows',
        apply: (event) => {
          if (!skip.has(event.id)) fold(event, rows);
        },
      };
    },
  };
}

function createRows<R extends Row>(db: DatabaseSync, table: Table): Rows<R> {
  db.exec(rowsSchema(table));
  const names = Object.keys(table.columns);
  const isEach = (columns: readonly string[]): string => columns.map((name) => `${name} = ?`).join(' AND ');
  const hasKey = isEach(names.slice(0, table.keyColumns));
  const select = (where: string) => prepareArrays(db, `SELECT ${names} FROM rows WHERE ${where}`);
  const get = select(hasKey);
  const find = table.lookup && select(isEach(table.lookup));
  const put = db.prepare(`INSERT OR REPLACE INTO rows VALUES (${names.map(() => '?')})`);
  const remove = db.prepare(`DELETE FROM rows WHERE ${hasKey}`);
  return {
    get: (...key) => get.get(...key) as R | undefined,
    find: (...values) => find?.get(...values) as R | undefined,
    put: (row) => void put.run(...row),
    delete: (...key) => void remove.run(...key),
  };
}

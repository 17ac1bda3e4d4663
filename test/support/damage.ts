import { readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** Fills the first page of a table or an index with garbage, as a failing disk does. */
export function damagePage(file: string, name: string): void {
  const { rootpage, size } = pageOf(file, name);
  fill(file, rootpage, size);
}

/** The same for the first page of rows of a table with many rows: a start does not read this page. */
export function damageFirstRows(file: string, table: string): void {
  using db = new DatabaseSync(file, { readOnly: true });
  const leaves = db.prepare("SELECT pageno, pgsize FROM dbstat WHERE name = ? AND pagetype = 'leaf' LIMIT 1");
  const { pageno, pgsize } = leaves.get(table) as { pageno: number; pgsize: number };
  fill(file, pageno, pgsize);
}

function fill(file: string, page: number, size: number): void {
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, (page - 1) * size, page * size));
}

/** The number of the first page of a table or an index, and the size of a page in bytes. */
export function pageOf(file: string, name: string): { rootpage: number; size: number } {
  using db = new DatabaseSync(file, { readOnly: true });
  const sql = 'SELECT rootpage, page_size AS size FROM sqlite_schema, pragma_page_size WHERE name = ?';
  return db.prepare(sql).get(name) as { rootpage: number; size: number };
}

/** Changes a table, and not its indexes, as a failing disk does. */
export function changeOnlyTable(file: string, sql: string): void {
  using db = new DatabaseSync(file, { timeout: 60_000, defensive: false });
  db.exec(`
    PRAGMA writable_schema = ON;
    CREATE TEMP TABLE indexes AS SELECT * FROM main.sqlite_schema WHERE type = 'index' AND sql IS NOT NULL;
    DELETE FROM main.sqlite_schema WHERE name IN (SELECT name FROM indexes);
    PRAGMA writable_schema = RESET`);
  db.exec(sql);
  db.exec('PRAGMA writable_schema = ON; INSERT INTO main.sqlite_schema SELECT * FROM indexes');
}

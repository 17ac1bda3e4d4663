import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { PLANTS_BY_USER } from '../../projections/plantsByUser.ts';
import { tableFormat } from '../../projections/tableFormat.ts';
import { openSqliteStore } from '../../src/eventStore/sqlite/store.ts';
import type { Bench } from './setUp.ts';
import { buildView } from './view.ts';

const ROUNDS = 3;

/** Measures a rebuild of the view, and a bare loop that inserts the same rows into the same table. */
export async function measureRebuild({ dir, results, fullLog }: Bench): Promise<void> {
  const file = join(await fullLog(), 'log.db');
  const pairs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const bare = insertLoop(file, join(dir, `bare-${round}.db`));
    const store = await openSqliteStore({ file, now: () => new Date(), onFatal: console.error });
    const rebuilt = await buildView(store, join(dir, `view-${round}.db`));
    await store.close();
    console.log(`rebuild ${Math.round(rebuilt)} ms, bare loop ${Math.round(bare)} ms`);
    pairs.push(bare / rebuilt);
  }
  results.addFigure('rebuilding the view / bare insert loop', '≥ 0.5', pairs);
}

function insertLoop(log: string, file: string): number {
  using source = new DatabaseSync(log, { readOnly: true });
  const rows = source
    .prepare('SELECT position, data FROM events ORDER BY position')
    .all()
    .map(({ position, data }) => {
      const { user, name, tag } = JSON.parse(String(data));
      return [user, position as number, JSON.stringify({ name, tag })] as const;
    });
  using db = new DatabaseSync(file);
  db.exec(`PRAGMA journal_mode = WAL; ${tableFormat(PLANTS_BY_USER).schema}`);
  db.exec('PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536');
  const insert = db.prepare('INSERT INTO rows VALUES (?, ?, ?, 0, 0)');
  const BATCH = 500;
  const started = performance.now();
  for (let i = 0; i < rows.length; i += BATCH) {
    db.exec('BEGIN');
    for (const row of rows.slice(i, i + BATCH)) insert.run(...row);
    db.exec('COMMIT');
  }
  return performance.now() - started;
}

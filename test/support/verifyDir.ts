import { join } from 'node:path';
import { ViewComparison } from '../../projections/viewComparison.ts';
import { type Verdict, verifyLog } from '../../src/audit/verify.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';

/** Verifies the log and the view of a data directory, which a server may be using. */
export async function verifyDir(dir: string): Promise<Verdict> {
  const skip = new Set<string>();
  const view = ViewComparison.open(join(dir, 'view.db'), skip);
  const log = openSqliteLog(join(dir, 'log.db'), { exact: true });
  try {
    return await verifyLog({ log, gapless: true, view, skip, signal: new AbortController().signal });
  } finally {
    view?.close();
    await log.close();
  }
}

import { ViewComparison } from '../../projections/viewComparison.ts';
import { VIEWS } from '../../projections/views.ts';
import { type Verification, verifyLog } from '../../src/audit/verify.ts';
import { logFile } from '../../src/disk/dataDir.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';

/** Verifies the log and the view in a data directory, which a server may be using. */
export async function verifyDir(dir: string): Promise<Verification> {
  const skip = new Set<string>();
  const log = openLogReader(logFile(dir), { raw: true });
  const view = ViewComparison.open(log, VIEWS.plantsByUser.file(dir), skip);
  try {
    return await verifyLog({ log, gapless: true, view, skip, signal: new AbortController().signal });
  } finally {
    view?.close();
    await log.close();
  }
}

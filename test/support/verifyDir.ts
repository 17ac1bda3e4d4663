import { tempDir } from '@event-sourced/testing/tempDir';
import { logFile } from '../../packages/event-log/src/disk/dataDir.ts';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { type Verification, verifyLog } from '../../packages/transparency-log/src/entries/verify.ts';
import { isKnownType, plantEventProblem } from '../../src/plants/events.ts';
import { VIEWS } from '../../src/views.ts';

/** Verifies the log and the view in a data directory, which a server may be using. */
export async function verifyDir(dir: string): Promise<Verification & { view: bigint | undefined }> {
  const log = openLogReader(logFile(dir), { forHashing: true });
  try {
    const { file, open } = VIEWS.plantsByUser;
    const view = { name: 'plantsByUser', file: file(dir), open };
    const verification = await verifyLog({
      log,
      gapless: true,
      views: [view],
      dataDir: tempDir(),
      isKnown: isKnownType,
      findProblem: plantEventProblem,
      skip: new Set(),
      signal: new AbortController().signal,
    });
    return { ...verification, view: verification.views.plantsByUser?.upTo };
  } finally {
    await log.close();
  }
}

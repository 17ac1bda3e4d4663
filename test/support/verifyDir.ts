import { tempDir } from '@event-sourced/testing/tempDir';
import { logFile } from '../../packages/event-log/src/disk/dataDir.ts';
import type { EventLog } from '../../packages/event-log/src/eventStore.ts';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { type Verification, verifyLog } from '../../packages/transparency-log/src/entries/verify.ts';
import { VIEWS } from '../../projections/views.ts';
import { isKnownType, plantEventProblem } from '../../src/plants/events.ts';

/** Verifies a log with events of plants; by default one without gaps and without views. */
export const verifyEvents = (log: EventLog, options: Partial<Parameters<typeof verifyLog>[0]> = {}) =>
  verifyLog({
    log,
    gapless: true,
    isKnown: isKnownType,
    problemOf: plantEventProblem,
    skip: new Set(),
    signal: new AbortController().signal,
    ...options,
  });

/** Verifies the log and the view in a data directory, which a server may be using. */
export async function verifyDir(dir: string): Promise<Verification & { view: bigint | undefined }> {
  const log = openLogReader(logFile(dir), { raw: true });
  try {
    const { file, view: plants } = VIEWS.plantsByUser;
    const open = (draft: string) => plants.open(draft);
    const view = { name: 'plantsByUser', file: file(dir), table: 'rows', open };
    const verification = await verifyEvents(log, { views: [view], draftDir: tempDir() });
    return { ...verification, view: verification.views.plantsByUser?.upTo };
  } finally {
    await log.close();
  }
}

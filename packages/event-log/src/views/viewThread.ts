import { setTimeout } from 'node:timers/promises';
import type { ReadTo } from '../eventStore.ts';
import { serve, threadData } from '../threads/thread.ts';
import type { Table } from './table.ts';
import { tableFormat } from './tableFormat.ts';
import type { ViewCheckpoint } from './view.ts';
import { isDamage, type SavedRow } from './viewDatabase.ts';
import { ViewWriter } from './viewWriter.ts';

// The file of a view with a table is written on its own thread, so that no request waits for a page or an fsync. The
// thread also verifies the file that it has found, between requests.

export type ViewThreadData = { file: string; table: Table };

export type ViewOperations = {
  add: (rows: readonly SavedRow[]) => void;
  /** As those of ViewWriter: return why the file was damaged, and is removed; undefined if it was not. */
  save: (at: { checkpoint: ViewCheckpoint; readTo: ReadTo | undefined }) => string | undefined;
  reset: (logId: string) => string | undefined;
  discard: () => void;
};

/** What the file had when it was opened. */
export type OpenedView = Pick<ViewWriter, 'checkpoint' | 'readTo' | 'replaced'>;

/** After each step of the check, which takes about as long: requests need the processor, too. */
const CHECK_PAUSE_MS = 10;

const { file, table } = threadData<ViewThreadData>();
const writer = new ViewWriter(file, tableFormat(table));
const { checkpoint, readTo, replaced } = writer;
/** Reports why the file that was opened is damaged; it is not removed yet. */
const report = serve<ViewOperations, OpenedView, string>(
  {
    add: (rows) => writer.add(rows),
    save: (at) => writer.save(at.checkpoint, at.readTo),
    reset: (logId) => writer.reset(logId),
    discard: () => writer.discard(),
    close: () => writer.close(),
  },
  { checkpoint, readTo, replaced },
);
try {
  for (const _ of writer.check()) await setTimeout(CHECK_PAUSE_MS);
} catch (error) {
  // What cannot be read now is verified when it is.
  if (isDamage(error)) report((error as Error).message);
}

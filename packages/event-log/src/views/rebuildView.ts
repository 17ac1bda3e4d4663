import { renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { fsyncPath } from '../disk/fsyncPath.ts';
import { fileSize } from '../disk/sqlite.ts';
import type { EventLog } from '../eventStore.ts';
import { readToEnd } from '../readEvents.ts';
import type { Progress } from './follow.ts';
import type { View } from './view.ts';
import { removeViewFile } from './viewFile.ts';

type Options = {
  log: EventLog;
  open: (file: string) => View;
  /** The file of the view; no server may have it open. */
  file: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
  signal: AbortSignal;
  onProgress: (progress: Progress) => void;
};

/** The number of events per commit of a draft: a larger commit writes fewer pages. */
export const DRAFT_BATCH = 30_000;

const draftOf = (file: string): string => `${file}.new`;

/** Removes what a killed `rebuildView` has left. */
export const removeViewDraft = (file: string): void => removeViewFile(draftOf(file));

/** Rebuilds a view in a draft, which then replaces the view's file. @throws InvalidEvent, StoreUnavailable */
export async function rebuildView(options: Options): Promise<{ events: number }> {
  const { log, open, file, skip, signal, onProgress } = options;
  const draftFile = draftOf(file);
  removeViewFile(draftFile);
  using resources = new DisposableStack();
  resources.defer(() => removeViewFile(draftFile));
  const view = resources.adopt(open(draftFile), (draft) => draft.close());
  view.reset(await log.logId());
  const end = await log.lastPosition();
  let events = 0;
  let saved = 0;
  for await (const batch of readToEnd(log, { end, signal })) {
    view.apply(batch.events, skip);
    events += batch.events.length;
    if (events - saved >= DRAFT_BATCH) {
      view.save();
      saved = events;
    }
    const { position } = view.progress;
    onProgress({ events, position, end: end > position ? end : position });
  }
  signal.throwIfAborted();
  view.save();
  view.close();
  replaceViewFile(file, draftFile);
  return { events };
}

/**
 * Replaces a view's file by a closed draft. A crash leaves the old view, the new one, or none. The old file's
 * write-ahead log is removed before: SQLite would apply it to the new file.
 */
function replaceViewFile(file: string, draft: string): void {
  if (fileSize(`${draft}-wal`) > 0) throw new Error('the new view could not be written completely');
  removeViewFile(file);
  fsyncPath(dirname(file)); // otherwise a power cut could restore the write-ahead log beside the new file
  renameSync(draft, file);
}

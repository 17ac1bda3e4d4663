import type { EventLog } from '../eventStore.ts';
import { readToEnd } from '../readEvents.ts';
import type { Progress } from './follow.ts';
import { replaceViewFile } from './viewDatabase.ts';
import { type OpenView, ViewDraft } from './viewDraft.ts';

type Options = {
  log: EventLog;
  open: OpenView;
  /** The file of the view, which no server may have open. */
  file: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
  signal: AbortSignal;
  onProgress: (progress: Progress) => void;
};

/**
 * Rebuilds a view from its log in a draft, which then replaces the view's file. Until then the old view stays
 * as it is.
 * @throws InvalidEvent, StoreUnavailable
 */
export async function rebuildView(options: Options): Promise<{ events: number }> {
  const { log, open, file, skip, signal, onProgress } = options;
  const draftFile = `${file}.new`;
  await using draft = await ViewDraft.open(open, draftFile, await log.logId());
  const end = await log.lastPosition();
  let events = 0;
  for await (const batch of readToEnd(log, { end, signal })) {
    await draft.apply(batch.events, skip);
    events += batch.events.length;
    const { position } = draft.view.applied;
    onProgress({ events, position, end: end > position ? end : position });
  }
  signal.throwIfAborted();
  await draft.close();
  replaceViewFile(file, draftFile);
  return { events };
}

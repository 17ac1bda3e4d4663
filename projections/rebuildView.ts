import type { EventLog, Position } from '../src/eventStore/eventStore.ts';
import { readToEnd } from '../src/eventStore/readEvents.ts';
import type { View } from './view.ts';
import { removeViewFile, replaceViewFile } from './viewDatabase.ts';

type Options = {
  log: EventLog;
  /** Opens a view in a file. */
  open: (file: string) => Promise<View>;
  /** The file of the view, which no server may have open. */
  file: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
  signal: AbortSignal;
  onProgress: (progress: { events: number; position: Position; end: Position }) => void;
};

/** Events per save, or the length of their JSON: they share pages and a transaction. */
const SAVE_BATCH = 100_000;
const SAVE_BATCH_CHARACTERS = 64 * 1024 * 1024;

/**
 * Rebuilds a view from its log in a draft, which then replaces the view's file. Until then the old view stays
 * as it is.
 * @throws InvalidEvent, StoreUnavailable
 */
export async function rebuildView({
  log,
  open,
  file,
  skip,
  signal,
  onProgress,
}: Options): Promise<{ events: number }> {
  const draft = `${file}.new`;
  removeViewFile(draft);
  const view = await open(draft);
  let events = 0;
  try {
    await view.reset(await log.logId());
    const end = await log.lastPosition();
    for await (const batch of readToEnd(log, { signal })) {
      view.apply(batch.events, skip);
      events += batch.events.length;
      if (view.unsaved >= SAVE_BATCH || view.unsavedCharacters >= SAVE_BATCH_CHARACTERS) await view.save();
      const { position } = view.applied;
      onProgress({ events, position, end: end > position ? end : position });
    }
    signal.throwIfAborted();
    await view.close();
    replaceViewFile(file, draft);
    return { events };
  } finally {
    await view.close().catch(() => {}); // where it failed before
    removeViewFile(draft);
  }
}

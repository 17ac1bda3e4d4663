import type { EventLog } from '../eventStore.ts';
import { readToEnd } from '../readEvents.ts';
import type { Progress } from './follow.ts';
import type { View } from './view.ts';
import { removeViewFile, replaceViewFile } from './viewDatabase.ts';

type Options = {
  log: EventLog;
  open: (file: string) => Promise<View>;
  /** The file of the view, which no server may have open. */
  file: string;
  /** IDs of events to skip. */
  skip: ReadonlySet<string>;
  signal: AbortSignal;
  onProgress: (progress: Progress) => void;
};

/** Events per save, or the length of their JSON: they share pages and a transaction. */
const SAVE_BATCH = 30_000;
const SAVE_BATCH_CHARACTERS = 8 * 1024 * 1024;
/** One is being saved while the next one is read. */
const MAX_UNSAVED_BATCHES = 2;

/** Rebuilds a view in a draft, which then replaces the view's file. @throws InvalidEvent, StoreUnavailable */
export async function rebuildView(options: Options): Promise<{ events: number }> {
  const { log, open, file, skip, signal, onProgress } = options;
  const draftFile = `${file}.new`;
  removeViewFile(draftFile);
  await using resources = new AsyncDisposableStack();
  resources.defer(() => removeViewFile(draftFile));
  const view = await open(draftFile);
  resources.defer(() => view.close().catch(() => {})); // where it failed before
  await view.reset(await log.logId());
  const end = await log.lastPosition();
  let events = 0;
  /** The save under way, or one that has failed. */
  let saving: Promise<void> | undefined;
  for await (const batch of readToEnd(log, { end, signal })) {
    view.apply(batch.events, skip);
    if (unsavedBatches(view) >= MAX_UNSAVED_BATCHES) await saving;
    if (!saving && unsavedBatches(view) >= 1) {
      saving = view.save().then(() => {
        saving = undefined;
      });
      saving.catch(() => {}); // thrown when it is awaited
    }
    events += batch.events.length;
    const { position } = view.applied;
    onProgress({ events, position, end: end > position ? end : position });
  }
  signal.throwIfAborted();
  await saving;
  await view.close();
  replaceViewFile(file, draftFile);
  return { events };
}

function unsavedBatches({ unsaved, unsavedCharacters }: View): number {
  return Math.max(unsaved / SAVE_BATCH, unsavedCharacters / SAVE_BATCH_CHARACTERS);
}

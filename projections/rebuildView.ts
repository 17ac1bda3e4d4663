import { type EventLog, type Position, START } from '../src/eventStore/eventStore.ts';
import { readLog } from '../src/eventStore/readLog.ts';
import { PlantsByUser } from './plantsByUser.ts';
import { removeFile, replaceFile } from './plantsByUserTables.ts';

type Options = {
  log: EventLog;
  /** Of the view; nobody else may have it open. */
  file: string;
  /** Ids of events that an operator has decided to pass over. */
  skip: ReadonlySet<string>;
  signal: AbortSignal;
  onProgress: (progress: { events: number; position: Position; end: Position }) => void;
};

/** Rows share pages and a transaction: so many events are saved at a time. */
const SAVE_AFTER = 100_000;

/**
 * Builds the view anew beside the old one, which it then replaces: whatever ends this before, the old one is there.
 * @throws MalformedPlantCreated, StoreUnavailable
 */
export async function rebuildView({
  log,
  file,
  skip,
  signal,
  onProgress,
}: Options): Promise<{ events: number }> {
  const draft = `${file}.new`;
  removeFile(draft);
  const view = new PlantsByUser(draft);
  let events = 0;
  try {
    view.reset(await log.mark());
    const end = await log.end();
    for await (const batch of readLog(log, { after: START, signal })) {
      view.apply(batch.events, skip);
      events += batch.events.length;
      if (view.unsaved >= SAVE_AFTER) view.save();
      onProgress({ events, position: view.position, end: end > view.position ? end : view.position });
    }
    signal.throwIfAborted();
    view.close();
    replaceFile(file, draft);
    return { events };
  } finally {
    view.close();
    removeFile(draft);
  }
}

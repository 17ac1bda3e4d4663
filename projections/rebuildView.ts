import type { EventLog } from '../src/eventStore/eventStore.ts';
import { readToEnd } from '../src/eventStore/readEvents.ts';
import type { Progress } from './follow.ts';
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
  onProgress: (progress: Progress) => void;
};

/**
 * Events per save, or the length of their JSON: they share pages and a transaction. Twice as many are in
 * memory, since the next ones are read during a save.
 */
const SAVE_BATCH = 100_000;
const SAVE_BATCH_CHARACTERS = 32 * 1024 * 1024;

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
  const saves = new Saves(view);
  try {
    await view.reset(await log.logId());
    const end = await log.lastPosition();
    for await (const batch of readToEnd(log, { end, signal })) {
      view.apply(batch.events, skip);
      events += batch.events.length;
      await saves.next();
      const { position } = view.applied;
      onProgress({ events, position, end: end > position ? end : position });
    }
    signal.throwIfAborted();
    await saves.done();
    await view.close();
    replaceViewFile(file, draft);
    return { events };
  } finally {
    await view.close().catch(() => {}); // where it failed before
    removeViewFile(draft);
  }
}

/** Saves a view, batch after batch, while events of the next batch are applied. */
class Saves {
  readonly #view: View;
  #last = Promise.resolve();
  /** Of the events applied, those whose save has started. */
  #inSave = { events: 0, characters: 0 };

  constructor(view: View) {
    this.#view = view;
  }

  /** Starts the next save if it is due, once the last one is done. @throws what the last one has thrown */
  async next(): Promise<void> {
    const { unsaved: events, unsavedCharacters: characters } = this.#view;
    const isDue =
      events - this.#inSave.events >= SAVE_BATCH ||
      characters - this.#inSave.characters >= SAVE_BATCH_CHARACTERS;
    if (!isDue) return;
    await this.#last;
    this.#inSave = { events: this.#view.unsaved, characters: this.#view.unsavedCharacters };
    this.#last = this.#view.save().finally(() => {
      this.#inSave = { events: 0, characters: 0 };
    });
    this.#last.catch(() => {}); // thrown by the next call
  }

  /** Resolves once the last save is done. @throws what it has thrown */
  done(): Promise<void> {
    return this.#last;
  }
}

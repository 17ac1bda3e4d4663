import type { RecordedEvent } from '../eventStore.ts';
import type { View } from './view.ts';
import { removeViewFile } from './viewDatabase.ts';

/** Opens a view in a file. */
export type OpenView = (file: string) => Promise<View>;

/**
 * Events per save, or the length of their JSON: they share pages and a transaction. Twice as many are in
 * memory, since the next ones are read during a save.
 */
const SAVE_BATCH = 30_000;
const SAVE_BATCH_CHARACTERS = 8 * 1024 * 1024;

/** A view in a new file, into which a whole log is folded; it is saved batch after batch. */
export class ViewDraft implements AsyncDisposable {
  readonly view: View;
  readonly #file: string;
  #lastSave = Promise.resolve();
  /** Of the events applied, those whose save has started. */
  #inSave = { events: 0, characters: 0 };

  static async open(open: OpenView, file: string, logId: string): Promise<ViewDraft> {
    removeViewFile(file);
    const draft = new ViewDraft(await open(file), file);
    try {
      await draft.view.reset(logId);
      return draft;
    } catch (error) {
      await draft[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(view: View, file: string) {
    this.view = view;
    this.#file = file;
  }

  /** Applies events; a save that is due starts once the last one is done. @throws InvalidEvent, what a save has thrown */
  async apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): Promise<void> {
    this.view.apply(events, skip);
    const { unsaved, unsavedCharacters } = this.view;
    const isDue =
      unsaved - this.#inSave.events >= SAVE_BATCH ||
      unsavedCharacters - this.#inSave.characters >= SAVE_BATCH_CHARACTERS;
    if (!isDue) return;
    await this.#lastSave;
    this.#inSave = { events: this.view.unsaved, characters: this.view.unsavedCharacters };
    this.#lastSave = this.view.save().finally(() => {
      this.#inSave = { events: 0, characters: 0 };
    });
    this.#lastSave.catch(() => {}); // thrown by the next call
  }

  /** Saves what is left, and closes the file. @throws what a save has thrown */
  async close(): Promise<void> {
    await this.#lastSave;
    await this.view.close();
  }

  /** Closes the file, and removes it if it was not moved. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.view.close().catch(() => {}); // where it failed before
    removeViewFile(this.#file);
  }
}

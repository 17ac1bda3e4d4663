import { backOff } from '@event-sourced/node/time';
import type { Logger } from '../logger.ts';
import type { View } from './view.ts';
import { ViewBehind } from './waiting.ts';

export const SAVE_INTERVAL_MS = 1_000;
/** Applied events are committed after SAVE_INTERVAL_MS, or at this number: rows of ten thousand users take about 25 ms. */
export const SAVE_BATCH = 4_000;
/** While the view catches up, no reader waits, and larger commits write fewer pages. */
const CATCH_UP_SAVE_BATCH = 10_000;
const MAX_RETRY_DELAY_MS = 2_000;

/** Commits what a view has applied, and retries a commit that has failed. */
export class Saver {
  /** Incremented when a commit fails, before it is retried. */
  failures = 0;
  readonly #view: View;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  /** The number of events since the last commit. */
  #unsaved = 0;
  /** The number of failures since the last commit. */
  #failedInARow = 0;

  constructor(view: View, logger: Logger) {
    this.#view = view;
    this.#logger = logger;
  }

  /** Call it after events were applied. */
  applied(events: number, isLive: boolean): void {
    this.#unsaved += events;
    const isDue = this.#unsaved >= (isLive ? SAVE_BATCH : CATCH_UP_SAVE_BATCH);
    if (isDue && this.#failedInARow === 0) this.#save();
    else this.#schedule();
  }

  /** Commits now. @throws ViewBehind if that fails, or has failed and is not yet retried */
  save(): void {
    if (this.#failedInARow === 0) this.#save();
    if (this.#failedInARow > 0) throw new ViewBehind(`The ${this.#view.title} cannot be saved; retry.`);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    const delayMs =
      this.#failedInARow === 0 ? SAVE_INTERVAL_MS : backOff(this.#failedInARow, MAX_RETRY_DELAY_MS);
    this.#timer ??= setTimeout(() => this.#save(), delayMs).unref();
  }

  /** After a failure the view is at its last bookmark: lost events are applied again, and saved later. */
  #save(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#unsaved = 0;
    try {
      this.#view.save();
      this.#failedInARow = 0;
    } catch (error) {
      if (error instanceof ViewBehind) return;
      this.#logger.error({ view: this.#view.name, err: error }, 'saving the view failed; retrying');
      this.failures++;
      this.#failedInARow++;
      this.#schedule();
    }
  }
}

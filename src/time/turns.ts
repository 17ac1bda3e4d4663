import { setImmediate as nextTurn } from 'node:timers/promises';

/** Turns of the event loop, one for each caller, so that their work does not add up to one long pause. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves in a turn of its own, after those that were requested before. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => nextTurn());
    return this.#last;
  }
}

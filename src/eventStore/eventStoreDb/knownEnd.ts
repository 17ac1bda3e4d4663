import { type Position, START, StoreUnavailable } from '../eventStore.ts';

/** A node that is behind for so long has another log, as after a restore, in milliseconds. */
const BEHIND_TIMEOUT_MS = 5_000;

/**
 * How far the log goes at least, as far as this process knows. A node that was the leader and was paused, or cut off from
 * the others, responds as the leader until it learns better, and then does not have the last events.
 */
export class KnownEnd {
  #position = START;
  #behindSince: number | undefined;

  get position(): Position {
    return this.#position;
  }

  advance(position: Position): void {
    if (position > this.#position) this.#position = position;
  }

  /** Takes the last position of a node. @throws StoreUnavailable if it is behind, until that has lasted */
  check(last: Position): void {
    const now = performance.now();
    if (last < this.#position) {
      this.#behindSince ??= now;
      if (now - this.#behindSince < BEHIND_TIMEOUT_MS)
        throw new StoreUnavailable('the node does not have the last events: it was the leader before');
    }
    this.#behindSince = undefined;
    this.#position = last;
  }
}

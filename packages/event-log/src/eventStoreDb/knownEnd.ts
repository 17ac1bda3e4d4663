import { type Position, START } from '../eventStore.ts';

/** A node that is behind for longer has another log, as after a restore. */
const BEHIND_TIMEOUT_MS = 5_000;

/**
 * How far the log goes at least, as far as this process knows. A node that was the leader and was paused, or cut off from
 * the others, responds as the leader until it learns better, and then does not have the last events.
 */
export class KnownEnd {
  position = START;
  #behindSince: number | undefined;

  advance(position: Position): void {
    if (position <= this.position) return;
    this.position = position;
    this.#behindSince = undefined;
  }

  /** Whether a node may have this last position, if `known` was known when it was asked; or it has lasted. */
  accepts(last: Position, known: Position): boolean {
    const now = performance.now();
    if (last >= known) {
      this.#behindSince = undefined;
      this.advance(last);
      return true;
    }
    this.#behindSince ??= now;
    if (now - this.#behindSince < BEHIND_TIMEOUT_MS) return false;
    this.#behindSince = undefined;
    this.position = last;
    return true;
  }
}

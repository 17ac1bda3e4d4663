import type { Follower } from '../../projections/follow.ts';
import { ViewBehind } from '../../projections/waiting.ts';
import type { Position } from '../../src/eventStore/eventStore.ts';

/** Resolves when a view has reached a position, without a timeout. */
export async function caughtUp(follower: Follower, position: Position): Promise<void> {
  for (;;) {
    try {
      return await follower.reached(position);
    } catch (error) {
      if (!(error instanceof ViewBehind)) throw error;
    }
  }
}

import { type Position, START } from '../src/eventStore/eventStore.ts';
import type { Follower } from './follow.ts';
import type { View } from './view.ts';

/**
 * A write that a client knows of. It does not count once the view has been reset: its position may be gone
 * from the log.
 */
type Acknowledged = { logId: string; position: Position; resets: number };

/**
 * Read your writes: a read waits until its view has reached what this instance has acknowledged, and what the
 * client names. Without either, reads are monotonic on an instance: a view never goes back.
 */
export class ReadYourWrites {
  readonly #followers: ReadonlyMap<View, Follower>;
  /** The last acknowledged write, per view. */
  readonly #acknowledged = new Map<View, Acknowledged>();

  constructor(followers: readonly Follower[]) {
    this.#followers = new Map(followers.map((follower) => [follower.view, follower]));
  }

  /** Records a write whose position a client gets. */
  acknowledge(logId: string, position: Position): void {
    for (const [view, follower] of this.#followers) {
      follower.wake();
      const { resets } = follower;
      const last = this.#lastAcknowledged(view);
      if (last?.logId !== logId || position > last.position)
        this.#acknowledged.set(view, { logId, position, resets });
    }
  }

  /**
   * Resolves when a view can be read: it has caught up with the log that this instance writes to. @throws
   * ViewBehind
   */
  async ready(view: View): Promise<void> {
    const follower = this.#followerOf(view);
    const last = this.#lastAcknowledged(view);
    const isOther = last !== undefined && last.logId !== view.applied.logId;
    if (isOther || follower.notReady !== undefined) await follower.reached(START, last?.logId);
  }

  /**
   * Resolves with a view's position once it has reached `named`, in the log with this ID, and every
   * acknowledged write. @throws ViewBehind
   */
  async upTo(view: View, logId: string, named: Position): Promise<Position> {
    const acknowledged = this.#lastAcknowledged(view)?.position ?? START;
    await this.#followerOf(view).reached(named > acknowledged ? named : acknowledged, logId);
    return view.applied.position;
  }

  #lastAcknowledged(view: View): Acknowledged | undefined {
    const last = this.#acknowledged.get(view);
    return last?.resets === this.#followerOf(view).resets ? last : undefined;
  }

  #followerOf(view: View): Follower {
    return this.#followers.get(view) as Follower;
  }
}

import { type Position, START } from '../eventStore.ts';
import type { Follower } from './follow.ts';
import type { View } from './view.ts';
import { REACHED_TIMEOUT_MS } from './waiting.ts';

/** An acknowledged write. After a reset of the view it is ignored: its position may no longer exist. */
type Acknowledged = { logId: string; position: Position; resets: number };

/** The number of users whose writes are tracked per view; beyond it, all users wait for the oldest untracked write. */
const MAX_USERS = 100_000;

/**
 * Read your writes: a read waits until its view has reached every write that this instance has acknowledged to the
 * user, and the position that the client names. Reads are monotonic on each instance: a view never goes back.
 */
export class ReadYourWrites {
  readonly #writes: ReadonlyMap<View, UserWrites>;

  constructor(followers: readonly Follower[], maxUsers = MAX_USERS) {
    this.#writes = new Map(followers.map((follower) => [follower.view, new UserWrites(follower, maxUsers)]));
  }

  /** Records a write before its position is returned to the user. */
  acknowledge(user: string, logId: string, position: Position): void {
    for (const writes of this.#writes.values()) writes.add(user, logId, position);
  }

  /** Resolves once a view has caught up with the log to which the user has written here. @throws ViewBehind */
  async caughtUp(view: View, user: string): Promise<void> {
    const { follower, last } = this.#lookUp(view, user);
    const isOther = last !== undefined && last.logId !== view.progress.logId;
    if (isOther || follower.notReady !== undefined)
      await follower.reached(START, last?.logId, REACHED_TIMEOUT_MS);
  }

  /**
   * Resolves with a view's position once it has reached `named`, in the log with this ID, and every write
   * acknowledged to the user. @throws ViewBehind
   */
  async upTo(view: View, user: string, logId: string, named: Position): Promise<Position> {
    const { follower, last } = this.#lookUp(view, user);
    const acknowledged = last?.position ?? START;
    await follower.reached(named > acknowledged ? named : acknowledged, logId, REACHED_TIMEOUT_MS);
    return follower.readable.progress.position; // it may have lost events meanwhile
  }

  #lookUp(view: View, user: string): { follower: Follower; last: Acknowledged | undefined } {
    const writes = this.#writes.get(view) as UserWrites;
    return { follower: writes.follower, last: writes.last(user) };
  }
}

/** The last write acknowledged to each user that a view may not have reached yet. */
class UserWrites {
  readonly follower: Follower;
  readonly #maxUsers: number;
  /** In the order of acknowledgement. */
  readonly #last = new Map<string, Acknowledged>();
  /** The last write that is no longer tracked for its user. */
  #untracked: Acknowledged | undefined;

  constructor(follower: Follower, maxUsers: number) {
    this.follower = follower;
    this.#maxUsers = maxUsers;
  }

  add(user: string, logId: string, position: Position): void {
    const last = this.#last.get(user);
    if (last && this.#counts(last) && last.logId === logId && last.position >= position) return;
    this.#last.delete(user);
    this.#last.set(user, { logId, position, resets: this.follower.resets });
    this.#forget();
  }

  last(user: string): Acknowledged | undefined {
    const last = this.#last.get(user);
    return [last, this.#untracked].find((write) => write && this.#counts(write));
  }

  /** Removes the writes that the view has reached, and the oldest writes above the limit. */
  #forget(): void {
    for (const [user, write] of this.#last) {
      const isReached = !this.#counts(write) || this.#isReached(write);
      if (!isReached && this.#last.size <= this.#maxUsers) return;
      this.#last.delete(user);
      if (!isReached) this.#untracked = write;
    }
  }

  #counts({ resets }: Acknowledged): boolean {
    return resets === this.follower.resets;
  }

  #isReached({ logId, position }: Acknowledged): boolean {
    const { progress } = this.follower.view;
    return progress.logId === logId && progress.position >= position;
  }
}

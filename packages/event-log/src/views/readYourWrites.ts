import { type Position, START } from '../eventStore.ts';
import type { Follower } from './follow.ts';
import type { View } from './view.ts';

/** A write that a client knows of. After a reset of the view it does not count: its position may no longer exist. */
type Acknowledged = { logId: string; position: Position; resets: number };

/** Users whose acknowledged writes are tracked, per view; beyond that, every user waits for the oldest untracked write. */
const MAX_USERS = 100_000;

/**
 * Read your writes: a read waits until its view has reached what this instance has acknowledged to its user, and
 * what the client names. Without either, reads are monotonic on an instance: a view never goes back.
 */
export class ReadYourWrites {
  readonly #writes: ReadonlyMap<View, UserWrites>;

  constructor(followers: readonly Follower[], maxUsers = MAX_USERS) {
    this.#writes = new Map(followers.map((follower) => [follower.view, new UserWrites(follower, maxUsers)]));
  }

  /** Records a write whose position its user gets. */
  acknowledge(user: string, logId: string, position: Position): void {
    for (const writes of this.#writes.values()) writes.add(user, logId, position);
  }

  /** Resolves once a view has caught up with the log that the user has written to here. @throws ViewBehind */
  async ready(view: View, user: string): Promise<void> {
    const { follower, last } = this.#of(view, user);
    const isOther = last !== undefined && last.logId !== view.applied.logId;
    if (isOther || follower.notReady !== undefined) await follower.reached(START, last?.logId);
  }

  /**
   * Resolves with a view's position once it has reached `named`, in the log with this ID, and every write
   * acknowledged to the user. @throws ViewBehind
   */
  async upTo(view: View, user: string, logId: string, named: Position): Promise<Position> {
    const { follower, last } = this.#of(view, user);
    const acknowledged = last?.position ?? START;
    await follower.reached(named > acknowledged ? named : acknowledged, logId);
    return follower.ready.applied.position; // it may have lost events meanwhile
  }

  #of(view: View, user: string): { follower: Follower; last: Acknowledged | undefined } {
    const writes = this.#writes.get(view) as UserWrites;
    return { follower: writes.follower, last: writes.lastOf(user) };
  }
}

/** The last write acknowledged to each user that a view may not have reached yet. */
class UserWrites {
  readonly follower: Follower;
  readonly #maxUsers: number;
  /** In the order in which they were acknowledged. */
  readonly #last = new Map<string, Acknowledged>();
  /** The last write that is not kept for its user any more. */
  #ofOthers: Acknowledged | undefined;

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

  lastOf(user: string): Acknowledged | undefined {
    const last = this.#last.get(user);
    return [last, this.#ofOthers].find((write) => write && this.#counts(write));
  }

  /** Writes that the view has reached need not be kept, nor more than the limit. */
  #forget(): void {
    for (const [user, write] of this.#last) {
      const isReached = !this.#counts(write) || this.#isReached(write);
      if (!isReached && this.#last.size <= this.#maxUsers) return;
      this.#last.delete(user);
      if (!isReached) this.#ofOthers = write;
    }
  }

  #counts({ resets }: Acknowledged): boolean {
    return resets === this.follower.resets;
  }

  #isReached({ logId, position }: Acknowledged): boolean {
    const { applied } = this.follower.view;
    return applied.logId === logId && applied.position >= position;
  }
}

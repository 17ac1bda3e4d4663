/** Resolves in another turn of the event loop; `share` is the part of it that the work takes, all by default. */
export type Turn = (share?: number) => Promise<void>;

/** Gives turns of the event loop, so that work does not add up to one long pause. Users take them in rotation. */
export class FairQueue {
  /** The callers of each user, in the order in which users take their next turn. */
  readonly #waiting = new Map<string, Caller[]>();

  /** Resolves in a turn after the user's earlier calls; those that take a small `share` of one have it together. */
  next(user: string, share = 1): Promise<void> {
    return new Promise((resolve) => {
      const caller = { share, resolve };
      const callers = this.#waiting.get(user);
      if (callers) return void callers.push(caller);
      if (this.#waiting.size === 0) setImmediate(() => this.#take());
      this.#waiting.set(user, [caller]);
    });
  }

  #take(): void {
    const taken: Caller[] = [];
    for (let left = 1; left > 0; ) {
      const caller = this.#shift();
      if (!caller) break;
      taken.push(caller);
      left -= caller.share;
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#take());
    for (const { resolve } of taken) resolve();
  }

  /** The next caller; its user is the last one from now on. */
  #shift(): Caller | undefined {
    const [first] = this.#waiting;
    if (!first) return undefined;
    const [user, callers] = first;
    const caller = callers.shift();
    this.#waiting.delete(user);
    if (callers.length > 0) this.#waiting.set(user, callers);
    return caller;
  }
}

type Caller = { share: number; resolve: () => void };

/** Limits what is done in one turn of the event loop by callers that do not wait for a turn of their own. */
export class TurnBudget {
  readonly #limit: number;
  #spent = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isSpent(): boolean {
    return this.#spent >= this.#limit;
  }

  spend(cost: number): void {
    if (this.#spent === 0)
      setImmediate(() => {
        this.#spent = 0;
      });
    this.#spent += cost;
  }
}

/** Resolves in a later turn of the event loop; `share` is the part of the turn that the work takes, by default all. */
export type NextTurn = (share?: number) => Promise<void>;

/** Spreads work over turns of the event loop, to avoid long pauses. Users take turns in rotation. */
export class FairQueue {
  /** The waiting callers of each user; users are in the order of their next turns. */
  readonly #waiting = new Map<string, Caller[]>();

  /** Resolves in a turn, after the user's earlier calls. Calls with small shares have a turn together. */
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

  /** Removes the next caller, and moves its user to the end of the rotation. */
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

/** Limits the work of one turn of the event loop, for callers that do not wait for a turn of a FairQueue. */
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

/**
 * Turns of the event loop, one for each caller, so that their work does not add up to one long pause. Users take
 * them in rotation, however many callers each has.
 */
export class Turns {
  /** The callers of each user, in the order in which users take their next turn. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Resolves in a turn of its own, after those that the user requested before. */
  next(user: string): Promise<void> {
    return new Promise((resolve) => {
      const callers = this.#waiting.get(user);
      if (callers) return void callers.push(resolve);
      if (this.#waiting.size === 0) setImmediate(() => this.#take());
      this.#waiting.set(user, [resolve]);
    });
  }

  #take(): void {
    const [first] = this.#waiting;
    if (!first) return;
    const [user, callers] = first;
    const resolve = callers.shift();
    this.#waiting.delete(user);
    if (callers.length > 0) this.#waiting.set(user, callers);
    if (this.#waiting.size > 0) setImmediate(() => this.#take());
    resolve?.();
  }
}

/** Limits what is done in one turn of the event loop by callers that do not wait for a turn of their own. */
export class TurnBudget {
  readonly #limit: number;
  #spent = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Whether the rest has to wait for another turn. */
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

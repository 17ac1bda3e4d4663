import type { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';

/** The user has too many responses of a kind in flight. */
export class TooManyInFlight extends Error {
  override readonly name = 'TooManyInFlight';
  constructor(kind: string, max: number) {
    super(
      `You have ${max} ${kind} in flight. Wait for them and read them, or close their connections, and retry.`,
    );
  }
}

type Countable = Pick<ServerResponse, 'closed'> & Pick<EventEmitter, 'once'>;

/** Limits the responses of a kind that a user may have in flight. */
export class InFlight {
  readonly kind: string;
  readonly max: number;
  readonly #responses = new Map<string, number>();
  #total = 0;

  constructor(kind: string, max: number) {
    this.kind = kind;
    this.max = max;
  }

  /** The number of responses of all users. */
  get total(): number {
    return this.#total;
  }

  /** Counts a response until it is closed. Returns false if the client has disconnected. @throws TooManyInFlight */
  add(user: string, response: Countable): boolean {
    if (response.closed) return false;
    const responses = this.#responses.get(user) ?? 0;
    if (responses >= this.max) throw new TooManyInFlight(this.kind, this.max);
    this.#responses.set(user, responses + 1);
    this.#total++;
    response.once('close', () => this.#remove(user));
    return true;
  }

  #remove(user: string): void {
    this.#total--;
    const responses = this.#responses.get(user) ?? 0;
    if (responses > 1) this.#responses.set(user, responses - 1);
    else this.#responses.delete(user);
  }
}

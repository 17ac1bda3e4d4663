import type { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';

/**
 * How many responses of a kind a user may have in flight. All but tiles and receipts hold about a page in memory
 * until their client has read it; all but tiles occupy the event loop for milliseconds. `monitor` reads four
 * tiles and bundles at once.
 */
export const MAX_IN_FLIGHT = {
  lists: 100,
  tiles: 100,
  'bundles of entries': 8,
  receipts: 8,
  replays: 8,
  'pages of events': 8,
  'event streams': 20,
} as const;
export type Kind = keyof typeof MAX_IN_FLIGHT;

/** The user has too many responses of this kind in flight. */
export class TooManyInFlight extends Error {
  override readonly name = 'TooManyInFlight';
  constructor(kind: Kind) {
    super(
      `You have ${MAX_IN_FLIGHT[kind]} ${kind} in flight. Wait for them and read them, or close their connections, and retry.`,
    );
  }
}

type Countable = Pick<ServerResponse, 'closed'> & Pick<EventEmitter, 'once'>;

/** Counts the responses of a kind that are in flight, by user. */
export class InFlight {
  readonly #kind: Kind;
  readonly #responses = new Map<string, number>();
  #total = 0;

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  /** The responses of all users. */
  get total(): number {
    return this.#total;
  }

  /** Counts a response until it is closed. Returns false if the client has disconnected. @throws TooManyInFlight */
  add(user: string, response: Countable): boolean {
    if (response.closed) return false;
    const responses = this.#responses.get(user) ?? 0;
    if (responses >= MAX_IN_FLIGHT[this.#kind]) throw new TooManyInFlight(this.#kind);
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

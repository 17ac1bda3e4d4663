import type { ServerResponse } from 'node:http';

/**
 * The lists of a user that may be in flight: each holds about a page in memory until its client has read it.
 */
export const MAX_LISTS_IN_FLIGHT = 100;

/** The user has too many lists in flight. */
export class TooManyLists extends Error {
  override readonly name = 'TooManyLists';
  constructor() {
    super(
      `You have ${MAX_LISTS_IN_FLIGHT} lists in flight. Read them, or close their connections, and retry.`,
    );
  }
}

/** Counts the lists of each user that are in flight. */
export class ListsInFlight {
  readonly #lists = new Map<string, number>();

  /** Counts a list until its response is closed. @throws TooManyLists */
  add(user: string, response: ServerResponse): void {
    if (response.closed) return; // the client has disconnected
    const lists = this.#lists.get(user) ?? 0;
    if (lists >= MAX_LISTS_IN_FLIGHT) throw new TooManyLists();
    this.#lists.set(user, lists + 1);
    response.once('close', () => this.#remove(user));
  }

  #remove(user: string): void {
    const lists = this.#lists.get(user) ?? 0;
    if (lists > 1) this.#lists.set(user, lists - 1);
    else this.#lists.delete(user);
  }
}

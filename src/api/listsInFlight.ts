import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

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

type Release = () => void;
type Exchange = {
  request: Pick<IncomingMessage, 'socket'>;
  response: Pick<ServerResponse, 'closed'> & Pick<EventEmitter, 'once'>;
};

/** Counts the lists of each user that are in flight. */
export class ListsInFlight {
  readonly #lists = new Map<string, number>();
  #total = 0;
  readonly #ofConnection = new WeakMap<Socket, Set<Release>>();

  /** The lists of all users. */
  get total(): number {
    return this.#total;
  }

  /** Counts a list until its response, or its connection, is closed. @throws TooManyLists */
  add(user: string, { request: { socket }, response }: Exchange): void {
    if (response.closed || socket.destroyed) return; // the client has disconnected
    const lists = this.#lists.get(user) ?? 0;
    if (lists >= MAX_LISTS_IN_FLIGHT) throw new TooManyLists();
    this.#lists.set(user, lists + 1);
    this.#total++;
    const inFlight = this.#releasesOf(socket);
    const release: Release = () => {
      if (inFlight.delete(release)) this.#remove(user);
    };
    inFlight.add(release);
    response.once('close', release);
  }

  /** With a connection, Node 24 does not close the responses that wait behind another one. */
  #releasesOf(socket: Socket): Set<Release> {
    let releases = this.#ofConnection.get(socket);
    if (!releases) {
      const all = new Set<Release>();
      socket.once('close', () => {
        for (const release of all) release();
      });
      this.#ofConnection.set(socket, all);
      releases = all;
    }
    return releases;
  }

  #remove(user: string): void {
    this.#total--;
    const lists = this.#lists.get(user) ?? 0;
    if (lists > 1) this.#lists.set(user, lists - 1);
    else this.#lists.delete(user);
  }
}

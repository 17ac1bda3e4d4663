import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

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

type Release = () => void;
type Exchange = {
  request: Pick<IncomingMessage, 'socket'>;
  response: Pick<ServerResponse, 'closed'> & Pick<EventEmitter, 'once'>;
};

/** Counts the responses of a kind that are in flight, by user. */
export class InFlight {
  readonly #kind: Kind;
  readonly #responses = new Map<string, number>();
  #total = 0;
  readonly #ofConnection = new WeakMap<Socket, Set<Release>>();

  constructor(kind: Kind) {
    this.#kind = kind;
  }

  /** The responses of all users. */
  get total(): number {
    return this.#total;
  }

  /**
   * Counts a response until it, or its connection, is closed. Returns false if the client has disconnected.
   * @throws TooManyInFlight
   */
  add(user: string, { request: { socket }, response }: Exchange): boolean {
    if (response.closed || socket.destroyed) return false;
    const responses = this.#responses.get(user) ?? 0;
    if (responses >= MAX_IN_FLIGHT[this.#kind]) throw new TooManyInFlight(this.#kind);
    this.#responses.set(user, responses + 1);
    this.#total++;
    const inFlight = this.#releasesOf(socket);
    const release: Release = () => {
      if (inFlight.delete(release)) this.#remove(user);
    };
    inFlight.add(release);
    response.once('close', release);
    return true;
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
    const responses = this.#responses.get(user) ?? 0;
    if (responses > 1) this.#responses.set(user, responses - 1);
    else this.#responses.delete(user);
  }
}

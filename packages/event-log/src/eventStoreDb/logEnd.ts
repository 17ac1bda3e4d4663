import { type Page, type Position, START, StoreUnavailable } from '../eventStore.ts';
import { sleep, unlessLater } from '../time/sleep.ts';
import type { Client } from './client.ts';

/** A node that is behind for longer has another log, as after a restore. */
const BEHIND_TIMEOUT_MS = 5_000;
/** The wait between reads from a node that does not have the last events, in milliseconds. */
const BEHIND_DELAY_MS = 100;
const PAGE_SIZE = 500;
/** How long a search is retried when it fails. */
const SEARCH_TIMEOUT_MS = 10_000;

/**
 * The last event of the streams with a prefix, as far as this process knows. A node that was the leader and was paused, or
 * cut off from the others, responds as the leader until it learns better, and then does not have the last events.
 */
export class LogEnd {
  /** The position of the last event that is known. */
  position = START;
  /** No other event of these streams follows it up to here. */
  #searchedTo = START;
  #behindSince: number | undefined;
  #searching: Promise<void> | undefined;
  readonly #client: Client;
  readonly #prefix: string;

  constructor(client: Client, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /** The log has an event of these streams here. */
  advance(position: Position): void {
    if (position > this.position) this.position = position;
    this.searched(position);
  }

  /** All of their events up to here are known. */
  searched(position: Position): void {
    if (position <= this.#searchedTo) return;
    this.#searchedTo = position;
    this.#behindSince = undefined;
  }

  /** Reads it: the last event of the log, and what precedes it only if that is new and of other streams. */
  async read(timeoutMs: number): Promise<Position> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const known = this.#searchedTo;
      const last = await this.#client.call('readEdge', 'last', deadline - performance.now());
      const end = last?.position ?? START;
      if (this.#accepts(end, known)) {
        if (last?.stream.startsWith(this.#prefix)) this.advance(end);
        while (this.#searchedTo < end) await this.#search(end, deadline);
        return this.position;
      }
      if (performance.now() + BEHIND_DELAY_MS > deadline)
        throw new StoreUnavailable('the node does not have the last events: it was the leader before');
      await sleep(BEHIND_DELAY_MS, this.#client.closed);
    }
  }

  /** Whether a log may end here, if it was known to go further when it was asked for: it does if that has lasted. */
  #accepts(end: Position, known: Position): boolean {
    const now = performance.now();
    if (end < known) {
      this.#behindSince ??= now;
      if (now - this.#behindSince < BEHIND_TIMEOUT_MS) return false;
      this.position = this.#searchedTo = START;
    }
    this.#behindSince = undefined;
    return true;
  }

  /** Waits for one search, which all callers share, and which goes on if it takes longer than they wait. */
  async #search(end: Position, deadline: number): Promise<void> {
    this.#searching ??= this.#searchTo(end).finally(() => {
      this.#searching = undefined;
    });
    this.#searching.catch(() => {}); // no one may wait any more
    const isDone = await unlessLater(
      deadline - performance.now(),
      this.#searching.then(() => true),
    );
    if (!isDone) throw new StoreUnavailable('searching the log for its last event takes longer');
  }

  /** Forwards from where the last search has ended, or else backwards. */
  async #searchTo(end: Position): Promise<void> {
    const prefix = this.#prefix;
    for (let isEnd = false; !isEnd; ) {
      const range = { after: this.#searchedTo, limit: PAGE_SIZE, prefix };
      let page: Page | undefined;
      if (range.after > START) page = await this.#client.call('readPage', range, SEARCH_TIMEOUT_MS);
      isEnd = page?.isEnd ?? true;
      page ??= await this.#client.call('readPageBackwards', { limit: 1, prefix }, SEARCH_TIMEOUT_MS);
      this.advance(page?.events.at(-1)?.position ?? START);
    }
    this.searched(end);
  }
}

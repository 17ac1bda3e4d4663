import { type Page, type Position, START } from '@event-sourced/event-log';
import { unlessLater } from '@event-sourced/node/time';
import type { Client } from './client.ts';
import type { Connection } from './connection.ts';
import { CallFailed } from './protocol.ts';

/** A node that stays behind for longer has a different log, for example after a restore. */
const BEHIND_TIMEOUT_MS = 5_000;
const PAGE_SIZE = 500;
const SEARCH_TIMEOUT_MS = 10_000;

/**
 * Tracks the last event of the streams with a prefix. A former leader that was paused, or cut off from the cluster,
 * still responds as the leader for a while, without the last events: so its results are compared with known positions.
 */
export class LogEnd {
  /** The position of the last known event. */
  position = START;
  /** Between `position` and here, the log has no event of these streams. */
  #searchedTo = START;
  #behindSince: number | undefined;
  #searching: Promise<void> | undefined;
  readonly #client: Client;
  readonly #prefix: string;

  constructor(client: Client, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  /** Records that the log has an event of these streams at this position. */
  advance(position: Position): void {
    if (position > this.position) this.position = position;
    this.searched(position);
  }

  /** Records that all events of these streams up to this position are known. */
  searched(position: Position): void {
    if (position <= this.#searchedTo) return;
    this.#searchedTo = position;
    this.#behindSince = undefined;
  }

  /** Call it if the log has no event at `position`: it was replaced. */
  forget(): void {
    this.position = this.#searchedTo = START;
  }

  /** The position of the last event of these streams. @throws StoreUnavailable */
  read(deadline: number): Promise<Position> {
    return this.#client.retry((connection, timeoutMs) => this.attempt(connection, timeoutMs), deadline);
  }

  /**
   * Reads the last event of the log. If it belongs to another stream, also searches the new events before it.
   * @throws CallFailed
   */
  async attempt(connection: Connection, timeoutMs: number): Promise<Position> {
    const startedAt = performance.now();
    const known = this.#searchedTo;
    const last = await connection.call('readEdge', 'last', timeoutMs).catch((error) => {
      if (error.kind !== 'unreadable') throw error;
      return undefined;
    });
    if (last === undefined) return this.#readOwn(connection, timeoutMs);
    const end = last.position;
    this.#accept(end, known);
    if (last.stream.startsWith(this.#prefix)) this.advance(end);
    while (this.#searchedTo < end) await this.#search(end, startedAt + timeoutMs);
    return this.position;
  }

  /** The log is empty, or its last event cannot be read. If another program has written it, it is skipped. */
  async #readOwn(connection: Connection, timeoutMs: number): Promise<Position> {
    const known = this.position;
    const range = { limit: 1, prefix: this.#prefix };
    const page = await connection.call('readPageBackwards', range, timeoutMs);
    const end = page?.events[0]?.position ?? START;
    this.#accept(end, known);
    this.advance(end);
    return this.position;
  }

  /**
   * Accepts an end; after BEHIND_TIMEOUT_MS also one before the known end: then the log was replaced.
   * @throws CallFailed
   */
  #accept(end: Position, known: Position): void {
    const now = performance.now();
    if (end < known) {
      this.#behindSince ??= now;
      if (now - this.#behindSince < BEHIND_TIMEOUT_MS)
        throw new CallFailed('transient', 'the node lacks the last events: it is no longer the leader');
      this.forget();
    }
    this.#behindSince = undefined;
  }

  /** Waits for the search that all callers share. The search continues after the deadline of a caller. */
  async #search(end: Position, deadline: number): Promise<void> {
    this.#searching ??= this.#searchTo(end).finally(() => {
      this.#searching = undefined;
    });
    this.#searching.catch(() => {}); // all callers may have stopped waiting
    const isDone = await unlessLater(
      deadline - performance.now(),
      this.#searching.then(() => true),
    );
    if (!isDone) throw new CallFailed('transient', 'the search for the last event takes longer');
  }

  /** Searches forwards from the end of the last search, or else backwards. */
  async #searchTo(end: Position): Promise<void> {
    const prefix = this.#prefix;
    const deadline = (): number => performance.now() + SEARCH_TIMEOUT_MS;
    for (let isEnd = false; !isEnd; ) {
      const range = { after: this.#searchedTo, limit: PAGE_SIZE, prefix };
      let page: Page | undefined;
      if (range.after > START) page = await this.#client.call('readPage', range, deadline());
      isEnd = page?.isEnd ?? true;
      page ??= await this.#client.call('readPageBackwards', { limit: 1, prefix }, deadline());
      this.advance(page?.events.at(-1)?.position ?? START);
    }
    this.searched(end);
  }
}

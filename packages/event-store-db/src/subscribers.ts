import {
  type Batch,
  EventUnreadable,
  type ForwardRange,
  LogReplaced,
  NO_LOG_ID,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '@event-sourced/event-log';
import { sleep, unlessAborted } from '@event-sourced/node/time';
import type { LogEnd } from './logEnd.ts';
import type { PageAfter } from './read.ts';
import type { Tail } from './tail.ts';

/** A subscriber may need few events: its first page has this number, and each next one twice as many. */
const FIRST_PAGE_SIZE = 16;
const MAX_PAGE_SIZE = 512;
/** Views that catch up at about the same pace share this number of pages, so that the log is read once. */
const SHARED_PAGES = 4;
/** Before another page is read, after one whose retries have failed. */
const UNAVAILABLE_DELAY_MS = 1_000;

type Log = { logId(): Promise<string>; readAll(range: ForwardRange): Promise<PageAfter> };

/** Where a subscription continues: after an event, or at the start of the log with this ID. */
type Cursor = { position: Position; eventId: string | undefined; logId: string; pageSize: number };

/** The subscribers of a log. Each one reads pages of the log up to its newest events, which the tail has. */
export class Subscribers {
  readonly #log: Log;
  readonly #tail: Tail;
  readonly #end: Pick<LogEnd, 'position'>;
  /** The last pages, by their start, until the tail is reset. */
  readonly #pages = new Map<Position, Promise<PageAfter>>();
  #resets = 0;

  constructor(log: Log, tail: Tail, end: Pick<LogEnd, 'position'>) {
    this.#log = log;
    this.#tail = tail;
    this.#end = end;
  }

  /** Yields every event after a position of the log with this ID once, in order. @throws LogReplaced, EventUnreadable */
  async *subscribe(position: Position, logId: string, signal: AbortSignal): AsyncGenerator<Batch> {
    const cursor: Cursor = { position, eventId: undefined, logId, pageSize: FIRST_PAGE_SIZE };
    let hasCaughtUp = false;
    while (!signal.aborted) {
      const { changed } = this.#tail;
      try {
        const events = await unlessAborted(this.#next(cursor), signal);
        if (signal.aborted) return;
        const last = events?.at(-1);
        if (last) Object.assign(cursor, { position: last.position, eventId: last.id });
        const caughtUp = this.#isAtEnd(cursor);
        if (events?.length || (caughtUp && !hasCaughtUp)) yield { events: events ?? [], caughtUp };
        else await unlessAborted(changed, signal);
        hasCaughtUp ||= caughtUp;
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || error instanceof EventUnreadable) throw error;
        await sleep(UNAVAILABLE_DELAY_MS, signal);
      }
    }
  }

  #isAtEnd({ position }: Cursor): boolean {
    const { head } = this.#tail;
    return head !== undefined && position >= head && position >= this.#end.position;
  }

  /** The next events up to the newest one; undefined while the newest ones are unknown. */
  async #next(cursor: Cursor): Promise<readonly RecordedEvent[] | undefined> {
    const { head, isBlocked } = this.#tail;
    if (head === undefined && !isBlocked) return undefined;
    const newest = this.#tail.after(cursor.position, cursor.eventId);
    if (newest) return newest;
    const logId = await this.#log.logId();
    if (cursor.logId === NO_LOG_ID) cursor.logId = logId;
    if (cursor.logId !== logId)
      throw new LogReplaced('the log is not the one that the subscription started with');
    const page = await this.#page(cursor, head);
    if (page.afterId !== (cursor.eventId ?? page.afterId))
      throw new LogReplaced(`the log no longer has the event at position ${cursor.position}`);
    cursor.eventId = page.afterId;
    return head === undefined ? page.events : page.events.filter(({ position }) => position <= head);
  }

  /** The next page. In a long catch-up, the page after it is read ahead. */
  async #page(cursor: Cursor, head: Position = START): Promise<PageAfter> {
    const limit = cursor.pageSize;
    let page = await this.#shared(cursor.position, limit);
    // Another subscriber has started this read before the event at `head` arrived.
    if (page.isEnd && page.position < head) page = await this.#shared(cursor.position, limit);
    if (!page.isEnd && limit === MAX_PAGE_SIZE) this.#shared(page.position, limit).catch(() => {});
    cursor.pageSize = Math.min(2 * limit, MAX_PAGE_SIZE);
    return page;
  }

  #shared(after: Position, limit: number): Promise<PageAfter> {
    if (this.#resets !== this.#tail.resets) this.#pages.clear();
    this.#resets = this.#tail.resets;
    const reading = this.#pages.get(after);
    if (reading) return reading;
    const page = this.#log.readAll({ after, limit });
    this.#pages.set(after, page);
    const [oldest = after] = this.#pages.keys();
    if (this.#pages.size > SHARED_PAGES) this.#pages.delete(oldest);
    const remove = (): void => void this.#pages.delete(after);
    page.then(({ isEnd }) => isEnd && remove(), remove);
    return page;
  }
}

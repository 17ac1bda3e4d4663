import type { EventLog, Position, RecordedEvent } from '../eventStore.ts';
import { parseRfc3339 } from '../time/rfc3339.ts';

/**
 * How far a view is behind its log: the events that it lacks, and the seconds since the first of them occurred, unless
 * that is unknown. A log without `countAfter` is read for that, and the count is of one page.
 */
type Lag = { events: number; seconds: number | undefined };

const PAGE_SIZE = 100;

/** Measures how far one view is behind its log. */
export class ViewLag {
  readonly #log: EventLog;
  readonly #now: () => Date;
  /** No event of the log follows the view's position `from` up to `to`. */
  #searched: { from: Position; to: Position } | undefined;

  constructor(log: EventLog, now: () => Date) {
    this.#log = log;
    this.#now = now;
  }

  /**
   * The lag of a view at a position; undefined if the signal aborts before an event or the end of the log is found.
   * @throws StoreUnavailable, LogReplaced
   */
  async at(position: Position, signal: AbortSignal): Promise<Lag | undefined> {
    const searched = this.#searched?.from === position ? this.#searched.to : position;
    this.#searched = undefined; // the log may have been replaced
    const limit = this.#log.countAfter ? 1 : PAGE_SIZE;
    for (let after = searched; ; ) {
      const page = await this.#log.readAll({ after, limit });
      const [first] = page.events;
      if (first) {
        const events = this.#log.countAfter?.(position) ?? page.events.length;
        return { events, seconds: this.#secondsSince(first) };
      }
      after = page.position;
      this.#searched = { from: position, to: after };
      if (page.isEnd) return { events: 0, seconds: 0 };
      if (signal.aborted) return undefined;
    }
  }

  #secondsSince({ metadata }: RecordedEvent): number | undefined {
    const time = parseRfc3339((metadata as { occurredAt?: unknown } | undefined)?.occurredAt);
    return time === undefined ? undefined : Math.max(0, (this.#now().getTime() - time) / 1_000);
  }
}

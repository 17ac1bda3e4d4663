import type { EventLog, Position, RecordedEvent } from '../eventStore.ts';
import { parseRfc3339 } from '../time/rfc3339.ts';

/**
 * How far a view is behind its log: the events that it lacks, and the seconds since the first of them occurred, unless
 * that is unknown. A log without `countAfter` is read for that, and the count is of one page. If reading takes too
 * long, these are bounds: no event was found, and one that is missing was written after those that were read.
 */
type Lag = { events: number; seconds: number | undefined };

const PAGE_SIZE = 500;

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
   * The lag of a view at a position. Once the signal has aborted, no further page is read.
   * @throws StoreUnavailable, LogReplaced
   */
  async at(position: Position, signal: AbortSignal): Promise<Lag> {
    const { from, to } = this.#searched ?? { from: position, to: position };
    this.#searched = undefined; // the log may have been replaced
    const limit = this.#log.countAfter ? 1 : PAGE_SIZE;
    for (let after = from <= position && position < to ? to : position; ; ) {
      const page = await this.#log.readAll({ after, limit });
      const [first] = page.events;
      if (first) {
        const events = this.#log.countAfter?.(position) ?? page.events.length;
        return { events, seconds: this.#secondsSince(occurredAt(first)) };
      }
      after = page.position;
      this.#searched = { from: position, to: after };
      if (page.isEnd) return { events: 0, seconds: 0 };
      if (signal.aborted) return { events: 0, seconds: this.#secondsSince(page.writtenAt?.getTime()) };
    }
  }

  #secondsSince(time: number | undefined): number | undefined {
    return time === undefined ? undefined : Math.max(0, (this.#now().getTime() - time) / 1_000);
  }
}

function occurredAt({ metadata }: RecordedEvent): number | undefined {
  return parseRfc3339((metadata as { occurredAt?: unknown } | undefined)?.occurredAt);
}

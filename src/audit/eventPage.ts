import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { plantStream } from '../plants/stream.ts';
import { unlessAborted } from '../time/sleep.ts';
import type { Turn } from '../time/turns.ts';
import { type EventFilter, matches } from './eventFilter.ts';

/** Events per read. */
const READ_SIZE = 500;
/** A page ends after so many reads, so a rare match may be several pages away. */
const MAX_READS = 20;
/** A page ends when its lines have so many characters, however few events that is. */
const MAX_PAGE_LENGTH = 1024 * 1024;

type Options = {
  /** Only events before the position of an event, or START. */
  before?: Position | undefined;
  /** Only events up to this position. */
  end: Position;
  limit: number;
  toLine: (event: RecordedEvent) => string;
  /** Awaited before each read. */
  turn: Turn;
  signal: AbortSignal;
};

/** The lines of a page; `next` is the `before` of the next one, which may be empty; undefined at the end. */
type EventPage = { lines: string[]; next: Position | undefined };

/**
 * The events that match a filter, newest first, as lines: at most `limit`, and fewer, or none, if few of the
 * events that were read match. Undefined if the signal aborts.
 * @throws StoreUnavailable, LogReplaced
 */
export async function readEventPage(
  log: EventLog,
  filter: EventFilter,
  { before, end, limit, toLine, turn, signal }: Options,
): Promise<EventPage | undefined> {
  const lines: string[] = [];
  if (limit === 0 || before === START) return { lines, next: undefined };
  const prefix = filter.user === undefined ? undefined : plantStream(filter.user, filter.id ?? '');
  let length = 0;
  let position = before;
  // Without a filter the first read is the page.
  for (let [reads, size] = [0, Math.min(limit, READ_SIZE)]; reads < MAX_READS; reads++, size = READ_SIZE) {
    await turn();
    const range = { before: position, limit: size, prefix };
    const read = await unlessAborted(log.readBackwards(range), signal);
    if (!read) return undefined;
    const matching = read.events.filter((event) => event.position <= end && matches(filter, event));
    for (const [i, event] of matching.entries()) {
      const line = toLine(event);
      lines.push(line);
      length += line.length;
      const isLast = read.isEnd && i === matching.length - 1;
      if (lines.length === limit || length >= MAX_PAGE_LENGTH)
        return { lines, next: isLast ? undefined : event.position };
    }
    if (read.isEnd) return { lines, next: undefined };
    position = read.position;
  }
  return { lines, next: position };
}

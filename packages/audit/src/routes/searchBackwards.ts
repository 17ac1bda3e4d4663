import { type EventLog, type Position, parsePosition, type RecordedEvent } from '@event-sourced/event-log';
import {
  assertKnownUser,
  assertReadable,
  type EventFilter,
  formatLogPosition,
  parseLogPosition,
} from '@event-sourced/event-log/replay';
import { type NextTurn, unlessAborted } from '@event-sourced/node/time';

const EVENTS_PER_READ = 500;
/** The next match may be several reads away. */
const MAX_READS = 20;

type Options = {
  /** A log position, or the cursor of an earlier search. */
  before: string | undefined;
  /** The maximum number of events of the first read; 0 reads nothing. */
  limit?: number;
  /** Awaited before each read. */
  nextTurn: NextTurn;
  signal: AbortSignal;
};

/** The matching events of a read; the search goes on before `position`, unless it is at the start of the log. */
type Found = { events: RecordedEvent[]; position: Position; isEnd: boolean };

/**
 * Searches the log backwards, with a limited number of reads: the end of the log, its ID, and what each read has found.
 * A search ends early if the signal aborts. @throws BadPosition, UnknownUser, StoreUnavailable, LogReplaced
 */
export async function searchBackwards(log: EventLog, filter: EventFilter, options: Options) {
  const { before, limit = EVENTS_PER_READ, nextTurn, signal } = options;
  const logId = await log.logId();
  const end = await log.lastPosition();
  // A cursor names its log; the position of an event does not.
  const parse = before?.includes('.') ? parseLogPosition.bind(null, logId) : parsePosition;
  const start = before === undefined ? undefined : parse(before, 'before');
  if (start !== undefined) await assertReadable(log, start, end, 'before');

  async function* reads(): AsyncGenerator<Found> {
    let position = start;
    let count = 0;
    for (let i = 0; i < MAX_READS && limit > 0; i++) {
      await nextTurn();
      const maxCount = i === 0 ? Math.min(limit, EVENTS_PER_READ) : EVENTS_PER_READ;
      const range = { before: position, limit: maxCount, prefix: filter.prefix };
      const read = await unlessAborted(log.readBackwards(range), signal);
      if (!read) return;
      const events = read.events.filter((event) => event.position <= end && filter.matches(event));
      count += events.length;
      yield { ...read, events };
      if (read.isEnd) break;
      position = read.position;
    }
    if (count === 0) await assertKnownUser(log, filter, { signal, nextTurn });
  }
  return { end, cursor: (position: Position) => formatLogPosition(logId, position), reads: reads() };
}

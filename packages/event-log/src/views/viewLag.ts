import { type EventLog, hasIndices, type Position } from '../eventStore.ts';
import { occurredAt } from '../replay/cloudEvent.ts';

/** The number of events that a view has not applied, and the age of the first one in seconds, if it is known. */
type Lag = { events: number; seconds: number | undefined };

const PAGE_SIZE = 500;

/** A view's lag at a position; without indices, counts at most one page. @throws StoreUnavailable, LogReplaced */
export async function viewLag(log: EventLog, position: Position, now: Date): Promise<Lag> {
  const last = await log.lastPosition();
  if (last <= position) return { events: 0, seconds: 0 };
  const { events } = await log.readAll({ after: position, limit: hasIndices(log) ? 1 : PAGE_SIZE });
  const [first] = events;
  if (!first) return { events: 0, seconds: 0 };
  const time = occurredAt(first);
  const seconds = time === undefined ? undefined : Math.max(0, (now.getTime() - time) / 1_000);
  return { events: hasIndices(log) ? log.indexOf(last) - log.indexOf(position) : events.length, seconds };
}

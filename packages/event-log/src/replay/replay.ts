import type { NextTurn } from '@event-sourced/node/time';
import { type Batch, type EventLog, type Position, START } from '../eventStore.ts';
import { readLive, readToEnd } from '../readEvents.ts';
import { assertKnownUser, assertReadable, type EventFilter } from './eventFilter.ts';

type Options = {
  signal: AbortSignal;
  /** Whether to continue with each new event instead of ending at the current end of the log. */
  live?: boolean;
  /** Where a replay that is not live ends: the position of an event, or START; by default, the current end. */
  end?: Position | undefined;
  /** Awaited before each read, and before new events. */
  nextTurn?: NextTurn;
};

/** `end` is only in the last batch: no event up to this position is missing. */
export type ReplayBatch = Batch & { end?: Position | undefined };

/** The last line of a replay as NDJSON, on request: without it, the replay has broken off. */
export const formatEnd = (end: Position): string => `{"end":"${end}"}\n`;

/**
 * The events that match a filter, in log order, batch by batch; a batch may be empty.
 * @throws BadPosition, UnknownUser before the first event; StoreUnavailable
 */
export async function* replay(
  log: EventLog,
  filter: EventFilter,
  { signal, live = false, nextTurn, ...options }: Options,
): AsyncGenerator<ReplayBatch> {
  const { after, afterName } = filter;
  const last = await log.lastPosition();
  const end = options.end ?? last;
  await assertReadable(log, after, last, afterName);
  await assertKnownUser(log, filter, { signal, nextTurn });
  let remaining = filter.limit;
  if (remaining === 0) {
    yield { events: [], caughtUp: true, end: after };
    return;
  }
  const range = { after, signal, nextTurn };
  const { prefix } = filter;
  const batches = live ? readLive(log, range) : readToEnd(log, { ...range, end, prefix });
  for await (const { events, caughtUp } of batches) {
    const isEnd = !live && (caughtUp || (events.at(-1)?.position ?? START) >= end);
    const matching = events
      .filter((event) => (live || event.position <= end) && filter.matches(event))
      .slice(0, remaining);
    remaining -= matching.length;
    let stop = isEnd ? (after > end ? after : end) : undefined;
    if (remaining === 0) stop = matching.at(-1)?.position;
    yield { events: matching, caughtUp, end: stop };
    if (stop !== undefined) return;
  }
}

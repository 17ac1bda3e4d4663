import { type Batch, type EventLog, START } from '../eventStore/eventStore.ts';
import { BadPosition, mustBeReached } from '../eventStore/position.ts';
import { readLog } from '../eventStore/readLog.ts';
import { plantOfStream } from '../plants/plant.ts';
import { type Filter, matches } from './eventFilter.ts';

/** There is no event of this user in the whole log. */
export class UnknownUser extends Error {
  override readonly name = 'UnknownUser';
  constructor(user: string) {
    super(`There is no event of the user ${JSON.stringify(user)}.`);
  }
}

type Options = {
  signal: AbortSignal;
  /** Whether to go on with each event as it is appended, instead of ending where the log ends now. */
  live?: boolean;
  /** What `after` is called in messages. */
  after?: string;
};

/**
 * The events that a filter lets through, in log order: of each batch of the log those that fit, perhaps none.
 * @throws BadPosition, UnknownUser before anything has been given; StoreUnavailable
 */
export async function* replay(
  log: EventLog,
  filter: Filter,
  { signal, live = false, after = 'after' }: Options,
): AsyncGenerator<Batch> {
  const end = await log.end();
  mustBeReached(filter.after, end, after);
  // EventStoreDB begins at events only.
  if (filter.after > START && !(await log.eventAt(filter.after)))
    throw new BadPosition(`${after} is not the position of an event.`);
  // Asked for what follows a position, nothing can be said of a user who is not there.
  let isKnown = filter.user === undefined || filter.after > START;
  let left = filter.limit;
  if (left === 0) return;
  for await (const { events, caughtUp } of readLog(log, { after: filter.after, signal, live })) {
    isKnown ||= events.some(({ stream }) => plantOfStream(stream)?.user === filter.user);
    const isEnd = !live && (events.at(-1)?.position ?? START) >= end;
    if (!isKnown && (caughtUp || isEnd)) throw new UnknownUser(filter.user ?? '');
    const found = events
      .filter((event) => (live || event.position <= end) && matches(filter, event))
      .slice(0, left);
    left -= found.length;
    yield { events: found, caughtUp };
    if (left === 0 || isEnd) return;
  }
}

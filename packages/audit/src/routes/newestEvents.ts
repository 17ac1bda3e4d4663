import type { EventLog, Position, RecordedEvent } from '@event-sourced/event-log';
import { BadFilter, EventFilter, eventQuery, type StreamNames } from '@event-sourced/event-log/replay';
import type { NextTurn } from '@event-sourced/node/time';
import { type Static, Type } from 'typebox';
import { searchBackwards } from './searchBackwards.ts';

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000;
/** A page ends when it has this number of characters, even with few events. */
const MAX_PAGE_LENGTH = 1024 * 1024;

/** The query of a replay, or of a page of the newest events. */
export const orderedEventQuery = (streams: StreamNames) =>
  Type.Object({
    ...eventQuery(streams).properties,
    order: Type.Optional(
      Type.Enum(['ascending', 'descending'], {
        type: 'string',
        description: `ascending, the default: all events in log order. descending: a page of the newest events first, of at most limit events, ${DEFAULT_LIMIT} without it and never more than ${MAX_LIMIT}, as NDJSON; Link points to the next page.`,
      }),
    ),
    before: Type.Optional(
      Type.String({
        description:
          'With order=descending: only events before this log position, or the cursor in the Link of the previous page.',
      }),
    ),
    end: Type.Optional(
      Type.Enum(['true'], {
        type: 'string',
        description:
          'Adds a last line to NDJSON, such as {"end":"1"}: no event up to this position is missing. Without this line, the response has broken off, which a proxy with HTTP/2 may hide.',
      }),
    ),
  });
export type OrderedEventQuery = Static<ReturnType<typeof orderedEventQuery>>;

/** Whether a query asks for a page of the newest events. @throws BadFilter */
export function isDescending({ order, after, before, end }: OrderedEventQuery): boolean {
  const descending = order === 'descending';
  if (descending && after !== undefined)
    throw new BadFilter('after', 'cannot be combined with order=descending');
  if (descending && end !== undefined) throw new BadFilter('end', 'cannot be combined with order=descending');
  if (!descending && before !== undefined) throw new BadFilter('before', 'requires order=descending');
  return descending;
}

type Options = {
  query: OrderedEventQuery;
  streams: StreamNames;
  toLine: (event: RecordedEvent) => string;
  /** Awaited before each read. */
  nextTurn: NextTurn;
  signal: AbortSignal;
};

/**
 * The newest events that match a filter, as lines, with the headers. If few events match, the page has fewer events
 * than the limit, or none. Undefined if the signal aborts. @throws BadFilter, BadPosition, UnknownUser,
 * StoreUnavailable, LogReplaced
 */
export async function newestEvents(log: EventLog, { query, streams, toLine, nextTurn, signal }: Options) {
  const filter = new EventFilter(query, streams);
  const limit = Math.min(query.limit === undefined ? DEFAULT_LIMIT : filter.limit, MAX_LIMIT);
  // Without a filter the first read is the page.
  const search = await searchBackwards(log, filter, { before: query.before, limit, nextTurn, signal });
  let lines = '';
  let count = 0;
  const page = (next?: Position) => ({
    lines,
    headers: {
      'log-position': search.cursor(search.end),
      ...(next !== undefined && { link: linkTo(query, search.cursor(next)) }),
    },
  });
  let next: Position | undefined;
  for await (const { events, position, isEnd } of search.reads) {
    for (const event of events) {
      lines += toLine(event);
      if (++count < limit && lines.length < MAX_PAGE_LENGTH) continue;
      return page(isEnd && event === events.at(-1) ? undefined : event.position);
    }
    next = isEnd ? undefined : position;
  }
  return signal.aborted ? undefined : page(next);
}

function linkTo(query: OrderedEventQuery, before: string): string {
  const { user, id, type, since, until, limit, order } = query;
  const known = Object.entries({ user, id, type, since, until, limit, order, before });
  const search = new URLSearchParams(known.filter((one): one is [string, string] => one[1] !== undefined));
  return `<events?${search}>; rel="next"`;
}

import { type Static, Type } from 'typebox';
import { BadFilter, EventQuery, parseFilter } from '../audit/eventFilter.ts';
import { readEventPage } from '../audit/eventPage.ts';
import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { assertInLog, BadPosition, parsePosition } from '../eventStore/position.ts';
import { textSchema } from '../http/textSchema.ts';
import type { Turn } from '../time/turns.ts';
import { formatLogPosition, parseLogPosition } from './logPosition.ts';

/** The events of a page without `limit`. */
const DEFAULT_LIMIT = 100;
/** The most events of a page, whatever its `limit`. */
export const MAX_LIMIT = 1_000;

const ORDERS = ['ascending', 'descending'];

/** The query of a replay, or of a page of the newest events. */
export const OrderedEventQuery = Type.Object({
  ...EventQuery.properties,
  order: Type.Optional(
    textSchema((order) => ORDERS.includes(order), ORDERS.join(' or '), {
      description: `ascending, the default: all events in log order. descending: a page of the newest events first, of at most limit events, ${DEFAULT_LIMIT} without it and never more than ${MAX_LIMIT}, as NDJSON; Link points to the next page.`,
    }),
  ),
  before: Type.Optional(
    textSchema(() => true, 'a log position', {
      description:
        'With order=descending: only events before this log position, or the cursor in the Link of the previous page.',
    }),
  ),
});
export type OrderedEventQuery = Static<typeof OrderedEventQuery>;
type Query = OrderedEventQuery;

type Options = { toJson: (event: RecordedEvent) => string; turn: Turn; signal: AbortSignal };

/** Whether a query asks for a page of the newest events. @throws BadFilter */
export function isDescending({ order, after, before }: Query): boolean {
  const descending = order === 'descending';
  if (descending && after !== undefined)
    throw new BadFilter('after cannot be combined with order=descending.');
  if (!descending && before !== undefined) throw new BadFilter('before requires order=descending.');
  return descending;
}

/**
 * A page of events as NDJSON, newest first, with its headers; undefined if the signal aborts.
 * @throws BadFilter, BadPosition, StoreUnavailable
 */
export async function newestEvents(log: EventLog, query: Query, { toJson, turn, signal }: Options) {
  const filter = parseFilter(query);
  const logId = await log.logId();
  const end = await log.lastPosition();
  const before = await parseBefore(log, logId, end, query.before);
  const limit = Math.min(query.limit === undefined ? DEFAULT_LIMIT : filter.limit, MAX_LIMIT);
  const page = await readEventPage(log, filter, {
    before,
    end,
    limit,
    toLine: (event) => `${toJson(event)}\n`,
    turn,
    signal,
  });
  if (!page) return undefined;
  const headers = {
    'log-position': formatLogPosition(logId, end),
    ...(page.next !== undefined && { link: nextLink(query, formatLogPosition(logId, page.next)) }),
  };
  return { body: Buffer.from(page.lines.join('')), headers };
}

/** A cursor names its log; the position of an event does not. @throws BadPosition */
async function parseBefore(
  log: EventLog,
  logId: string,
  end: Position,
  text: string | undefined,
): Promise<Position | undefined> {
  if (text === undefined) return undefined;
  const isCursor = text.includes('.');
  const before = isCursor ? parseLogPosition(logId, text, 'before') : parsePosition(text, 'before');
  assertInLog(before, end, 'before');
  // EventStoreDB reads from the position of an event only.
  if (before > START && !(await log.readEvent(before)))
    throw new BadPosition('before is not the position of an event.');
  return before;
}

function nextLink(query: Query, cursor: string): string {
  const known = Object.keys(OrderedEventQuery.properties) as (keyof Query)[];
  const parameters = known.flatMap((name) => (query[name] === undefined ? [] : [[name, query[name]]]));
  const search = new URLSearchParams({ ...Object.fromEntries(parameters), before: cursor });
  return `</events?${search}>; rel="next"`;
}

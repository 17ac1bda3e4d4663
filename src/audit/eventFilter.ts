import { type Static, Type } from 'typebox';
import { type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { parsePosition } from '../eventStore/position.ts';
import { limitSchema } from '../http/limit.ts';
import { textSchema } from '../http/textSchema.ts';
import { INT64_RULE, isInt64Text, parsePlantStream } from '../plants/stream.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { isRfc3339, parseRfc3339, parseRfc3339RoundedUp } from '../time/rfc3339.ts';
import { occurredAt } from './cloudEvent.ts';

const time = (description: string) =>
  textSchema(isRfc3339, 'an RFC 3339 time such as 2026-03-01T12:00:00Z', {
    description,
  });

/** The filters of a replay, as text. All of them can be combined. */
export const EventQuery = Type.Object({
  after: Type.Optional(
    textSchema(() => true, 'a log position', { description: 'Only events after this log position.' }),
  ),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Only events of this user’s plants. Without after, the log must have one.',
    }),
  ),
  id: Type.Optional(
    textSchema(isInt64Text, INT64_RULE, {
      description: 'Only events of plants with this ID.',
    }),
  ),
  type: Type.Optional(
    textSchema((value) => value !== '', 'an event type', { description: 'Only events of this type.' }),
  ),
  since: Type.Optional(
    time(
      'Only events that occurred at this time or later (RFC 3339; in a URL a + is %2B); not later than until.',
    ),
  ),
  until: Type.Optional(
    time('Only events that occurred at this time or earlier (RFC 3339; in a URL a + is %2B).'),
  ),
  limit: Type.Optional(limitSchema('events')),
});
export type EventQuery = Static<typeof EventQuery>;

/** Parsed filters; times in milliseconds since 1970, inclusive. */
export type EventFilter = Readonly<{
  after: Position;
  user?: string;
  id?: string;
  type?: string;
  since?: number;
  until?: number;
  limit: number;
}>;

/** The filters contradict each other; the message says how. */
export class BadFilter extends Error {
  override readonly name = 'BadFilter';
}

/** Parses a valid query. `name` maps a filter to its name in messages. @throws BadPosition, BadFilter */
export function parseFilter(
  query: EventQuery,
  name = (filter: keyof EventQuery): string => filter,
): EventFilter {
  const { after, user, id, type, limit } = query;
  const [since, until] = [parseRfc3339RoundedUp(query.since), parseRfc3339(query.until)];
  if (until !== undefined && (parseRfc3339(query.since) ?? until) > until)
    throw new BadFilter(`${name('since')} must not be later than ${name('until')}.`);
  return {
    after: after === undefined ? START : parsePosition(after, name('after')),
    ...(user !== undefined && { user }),
    ...(id !== undefined && { id }),
    ...(type !== undefined && { type }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    limit: limit === undefined ? Number.POSITIVE_INFINITY : Number(limit),
  };
}

/** Whether an event matches, apart from its position and the limit. */
export function matches({ user, id, type, since, until }: EventFilter, event: RecordedEvent): boolean {
  if (type !== undefined && event.type !== type) return false;
  if (user !== undefined || id !== undefined) {
    const plant = parsePlantStream(event.stream);
    if (!plant || (user ?? plant.user) !== plant.user || (id ?? plant.id) !== plant.id) return false;
  }
  if (since === undefined && until === undefined) return true;
  const at = occurredAt(event);
  return at !== undefined && at >= (since ?? at) && at <= (until ?? at);
}

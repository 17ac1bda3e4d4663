import { type Static, Type } from 'typebox';
import { type Position, type RecordedEvent, START } from '../eventStore/eventStore.ts';
import { readPosition } from '../eventStore/position.ts';
import { limitOf } from '../http/limit.ts';
import { isInt64Text, plantOfStream } from '../plants/plant.ts';
import { timeOf } from '../time.ts';
import { isUser } from '../user.ts';
import { occurredAt } from './cloudEvent.ts';

const text = (is: (text: string) => boolean, rule: string, options: { description: string }) =>
  Type.Refine(
    Type.Unsafe<string>({ type: 'string', ...options }),
    (value) => typeof value === 'string' && is(value),
    () => `must be given once, as ${rule}`,
  );
const time = (description: string) =>
  text((value) => timeOf(value) !== undefined, 'a time of RFC 3339 such as 2026-03-01T12:00:00Z', {
    description,
  });

/** What can be asked for, as text; all of it combines. */
export const EventQuery = Type.Object({
  after: Type.Optional(
    text(() => true, 'a position', { description: 'Only events after this position of the log.' }),
  ),
  user: Type.Optional(
    text(isUser, 'the name of a user', { description: 'Only events of the plants of this user.' }),
  ),
  id: Type.Optional(
    text(isInt64Text, 'an integer of 64 bits in plain digits', {
      description: 'Only events of plants with this id.',
    }),
  ),
  type: Type.Optional(
    text((value) => value !== '', 'the type of an event', { description: 'Only events of this type.' }),
  ),
  since: Type.Optional(time('Only events that happened then or later (RFC 3339; in a URL a + is %2B).')),
  until: Type.Optional(time('Only events that happened then or earlier (RFC 3339; in a URL a + is %2B).')),
  limit: Type.Optional(limitOf('events')),
});
export type EventQuery = Static<typeof EventQuery>;

export type Filter = Readonly<{
  after: Position;
  user?: string;
  id?: string;
  type?: string;
  since?: number;
  until?: number;
  limit: number;
}>;

/** The parts of a question contradict each other; the message says how. */
export class BadFilter extends Error {
  override readonly name = 'BadFilter';
}

/** A question whose parts are in order, as a filter. @throws BadPosition, BadFilter; `name` gives a part its name in messages */
export function filterOf(query: EventQuery, name = (part: keyof EventQuery): string => part): Filter {
  const { after, user, id, type, limit } = query;
  const [since, until] = [timeOf(query.since), timeOf(query.until)];
  if (since !== undefined && until !== undefined && since > until)
    throw new BadFilter(`${name('since')} must not be later than ${name('until')}.`);
  return {
    after: after === undefined ? START : readPosition(after, name('after')),
    ...(user !== undefined && { user }),
    ...(id !== undefined && { id }),
    ...(type !== undefined && { type }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    limit: limit === undefined ? Number.POSITIVE_INFINITY : Number(limit),
  };
}

/** Whether a filter lets an event through, its position and the limit aside. */
export function matches({ user, id, type, since, until }: Filter, event: RecordedEvent): boolean {
  if (type !== undefined && event.type !== type) return false;
  if (user !== undefined || id !== undefined) {
    const plant = plantOfStream(event.stream);
    if (!plant || (user ?? plant.user) !== plant.user || (id ?? plant.id) !== plant.id) return false;
  }
  if (since === undefined && until === undefined) return true;
  const at = occurredAt(event);
  return at !== undefined && at >= (since ?? at) && at <= (until ?? at);
}

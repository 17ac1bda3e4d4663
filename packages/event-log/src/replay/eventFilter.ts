import {
  isRfc3339,
  type NextTurn,
  parseRfc3339,
  parseRfc3339RoundedUp,
  unlessAborted,
} from '@event-sourced/node/time';
import { type Static, Type } from 'typebox';
import { type EventLog, type Position, type RecordedEvent, START } from '../eventStore.ts';
import { BadPosition, parsePosition } from '../position.ts';
import { occurredAt } from './cloudEvent.ts';
import { limitSchema, type TextRule, textSchema } from './querySchemas.ts';

/** The naming scheme of an app's streams. */
export type StreamNames = {
  /** What a stream is about, in the singular; the plural adds an s. */
  noun: string;
  /** The prefix of all streams. */
  all: string;
  /** The user and the ID in a stream name; undefined for other streams. */
  parse(stream: string): { user: string; id: string } | undefined;
  /** The prefix of a user's streams, or the name of the stream with this ID. */
  prefix(user: string, id?: string): string;
  user: TextRule;
  id: TextRule;
};

const TIME = { isValid: isRfc3339, rule: 'an RFC 3339 time such as 2026-03-01T12:00:00Z' };
const TYPE = { isValid: (type: string) => type !== '', rule: 'an event type' };

const IN_URLS = { filterName: (filter: string): string => filter, time: 'RFC 3339; in a URL a + is %2B' };

/** The schema of a replay's filters, which can be combined. Descriptions are for URLs, or for a command line. */
export const eventQuery = (
  { noun, user, id }: Pick<StreamNames, 'noun' | 'user' | 'id'>,
  { filterName, time } = IN_URLS,
) =>
  Type.Object({
    after: Type.Optional(Type.String({ description: 'Only events after this log position.' })),
    user: Type.Optional(
      textSchema(user, {
        description: `Only events of this user’s ${noun}s. The log must have one.`,
      }),
    ),
    id: Type.Optional(textSchema(id, { description: `Only events of ${noun}s with this ID.` })),
    type: Type.Optional(textSchema(TYPE, { description: 'Only events of this type.' })),
    since: Type.Optional(
      textSchema(TIME, {
        description: `Only events that occurred at this time or later (${time}); not later than ${filterName('until')}.`,
      }),
    ),
    until: Type.Optional(
      textSchema(TIME, {
        description: `Only events that occurred at this time or earlier (${time}).`,
      }),
    ),
    limit: Type.Optional(limitSchema('events')),
  });
export type EventQuery = Static<ReturnType<typeof eventQuery>>;

/** Why a valid filter cannot be applied: `problem` completes the sentence about `field`. */
export class BadFilter extends Error {
  override readonly name: string = 'BadFilter';
  readonly field: string;
  readonly problem: string;
  constructor(field: string, problem: string, message = `${field} ${problem}.`) {
    super(message);
    this.field = field;
    this.problem = problem;
  }
}

/** A parsed, valid query. */
export class EventFilter {
  readonly after: Position;
  /** The name of `after` in messages. */
  readonly afterName: string;
  readonly limit: number;
  readonly user: string | undefined;
  readonly #query: EventQuery;
  readonly #streams: StreamNames;
  /** Milliseconds since 1970, inclusive. */
  readonly #since: number | undefined;
  readonly #until: number | undefined;

  /** `name` maps a filter to its name in messages. @throws BadPosition, BadFilter */
  constructor(query: EventQuery, streams: StreamNames, name = (filter: keyof EventQuery): string => filter) {
    const { after, user, since, until, limit } = query;
    this.afterName = name('after');
    this.#since = parseRfc3339RoundedUp(since);
    this.#until = parseRfc3339(until);
    if (this.#until !== undefined && (parseRfc3339(since) ?? this.#until) > this.#until)
      throw new BadFilter(name('since'), `must not be later than ${name('until')}`);
    this.after = after === undefined ? START : parsePosition(after, this.afterName);
    this.limit = limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
    this.user = user;
    this.#query = query;
    this.#streams = streams;
  }

  /** The prefix of all streams with matching events, if only one user's events match. */
  get prefix(): string | undefined {
    return this.user === undefined ? undefined : this.#streams.prefix(this.user, this.#query.id);
  }

  /** The prefix of all streams of the user. */
  get userPrefix(): string | undefined {
    return this.user === undefined ? undefined : this.#streams.prefix(this.user);
  }

  /** Whether an event belongs to the filter's user, if the filter names one. */
  isUserEvent({ stream }: RecordedEvent): boolean {
    return this.user === undefined || this.#streams.parse(stream)?.user === this.user;
  }

  /** Whether an event matches, ignoring its position and the limit. */
  matches(event: RecordedEvent): boolean {
    const { id, type } = this.#query;
    if (type !== undefined && event.type !== type) return false;
    if (!this.isUserEvent(event)) return false;
    if (id !== undefined && this.#streams.parse(event.stream)?.id !== id) return false;
    if (this.#since === undefined && this.#until === undefined) return true;
    const at = occurredAt(event);
    return at !== undefined && at >= (this.#since ?? at) && at <= (this.#until ?? at);
  }
}

/** `last` is the end of the log, `name` is for messages. @throws BadPosition if reading cannot start there */
export async function assertReadable(
  log: EventLog,
  position: Position,
  last: Position,
  name: string,
): Promise<void> {
  if (position > last) throw new BadPosition(`${name} is beyond the end of the log, which is at ${last}.`);
  // EventStoreDB can only read from the position of an event.
  if (position > START && !(await log.readEvent(position)))
    throw new BadPosition(`${name} is not the position of an event.`);
}

/** The log has no event of this user. */
export class UnknownUser extends BadFilter {
  override readonly name = 'UnknownUser';
  constructor(user: string) {
    super(
      'user',
      'must have an event in the log',
      `The log has no event of the user ${JSON.stringify(user)}.`,
    );
  }
}

/** The streams of the user `a/b` also match the prefix of `a`, so the newest event may belong to another user. */
const EVENTS_PER_READ = 500;

/** @throws UnknownUser if a filter names a user without any event in the log */
export async function assertKnownUser(
  log: Pick<EventLog, 'readBackwards'>,
  filter: EventFilter,
  { signal, nextTurn = async () => {} }: { signal: AbortSignal; nextTurn?: NextTurn | undefined },
): Promise<void> {
  const { user, userPrefix: prefix } = filter;
  let before: Position | undefined;
  for (let limit = 1; user !== undefined; limit = EVENTS_PER_READ) {
    await nextTurn();
    const page = await unlessAborted(log.readBackwards({ before, limit, prefix }), signal);
    if (!page || page.events.some((event) => filter.isUserEvent(event))) return;
    if (page.isEnd) throw new UnknownUser(user);
    before = page.position;
  }
}

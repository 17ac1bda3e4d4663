import { EventFilter, eventQuery, occurredAt, type StreamNames } from '@event-sourced/event-log/replay';
import { tooManyInFlight } from '@event-sourced/http';
import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import { Bars } from '../histogram/bars.ts';
import { inFlightLimit } from '../limits.ts';
import type { AuditOptions } from '../options.ts';
import { FOR_AUDITORS, requireAuditScope } from './schemas.ts';
import { searchBackwards } from './searchBackwards.ts';

const histogramQuery = (streams: StreamNames) => {
  const { user, id, type, since, until } = eventQuery(streams).properties;
  const before = Type.Optional(
    Type.String({
      description: 'Only events before this log position, or before that of an earlier response.',
    }),
  );
  return Type.Object({ user, id, type, since, until, before });
};
type Query = Static<ReturnType<typeof histogramQuery>>;

const milliseconds = (description: string) =>
  Type.Number({ description: `${description}, in milliseconds since 1970.` });

const Histogram = Type.Object(
  {
    events: Type.Integer({ description: 'The number of matching events that were counted.' }),
    barLength: Type.Number({ description: 'The length of each range of time, in milliseconds.' }),
    bars: Type.Array(Type.Array(Type.Number()), {
      description:
        'At most 60 ranges with events: the start of each, in milliseconds since 1970, and its count.',
    }),
    first: Type.Optional(milliseconds('The earliest time')),
    last: Type.Optional(milliseconds('The latest time')),
    end: Type.String({ description: 'The position of the last event of the log when it was counted.' }),
    before: Type.Optional(
      Type.String({ description: 'If earlier events were not counted: the before of the next request.' }),
    ),
  },
  { description: 'Counts of events over time.' },
);

/** GET /events/histogram: counts of the newest events over time. A response searches 10 000 events at most. */
export function histogramRoute(app: FastifyInstance, options: AuditOptions): void {
  const { log, entityType, fairQueue, errors } = options;
  const { streams } = entityType;
  const histograms = inFlightLimit('histograms');
  const example = { events: 3, barLength: 3_600_000, bars: [[1_772_359_200_000, 3]] };

  app.get<{ Querystring: Query }>(
    '/events/histogram',
    {
      onRequest: requireAuditScope,
      schema: {
        operationId: 'countEvents',
        ...FOR_AUDITORS,
        summary: 'Count events over time',
        description:
          'Counts the newest events that match, by when they occurred. A response searches 10 000 events at most, of the user’s streams with the filter user. Events without a time are counted, but in no range.',
        querystring: histogramQuery(streams),
        response: {
          200: {
            description: 'The counts.',
            content: {
              'application/json': {
                schema: Histogram,
                example: { ...example, first: 1_772_360_000_000, last: 1_772_362_000_000, end: '3' },
              },
            },
          },
        },
        errors: [
          errors.invalidQuery,
          { ...errors.badPosition, description: 'before is not the position of an event' },
          errors.insufficientScope,
          tooManyInFlight(histograms),
        ],
      },
    },
    async ({ user, query }, reply) => {
      if (!histograms.add(user, reply.raw)) return reply.send();
      const disconnected = new AbortController();
      reply.raw.once('close', () => disconnected.abort());
      const nextTurn = () => fairQueue.next(user);
      const { signal } = disconnected;
      const filter = new EventFilter(query, streams);
      const search = await searchBackwards(log, filter, { before: query.before, nextTurn, signal });
      const bars = new Bars();
      let events = 0;
      let before: string | undefined;
      for await (const found of search.reads) {
        events += found.events.length;
        for (const event of found.events) {
          const time = occurredAt(event);
          if (time !== undefined) bars.add(time);
        }
        before = found.isEnd ? undefined : search.cursor(found.position);
      }
      return { events, ...bars.counts(), end: String(search.end), before };
    },
  );
}

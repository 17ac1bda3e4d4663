import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { preValidationHookHandler } from 'fastify';
import { Type } from 'typebox';
import type { PageQuery, PlantPage } from '../../projections/plantsByUser.ts';
import type { ReadYourWrites } from '../../projections/readYourWrites.ts';
import type { Views } from '../../projections/views.ts';
import { type EventStore, type Position, START } from '../eventStore/eventStore.ts';
import { HTTP_ERRORS, HttpError } from '../http/errors.ts';
import { limitSchema } from '../http/limit.ts';
import { jsonResponse } from '../http/openapi.ts';
import { traceparentOf } from '../http/traceparent.ts';
import { createPlant, PlantIdTaken } from '../plants/createPlant.ts';
import { isInt64 } from '../plants/stream.ts';
import { TurnBudget, type Turns } from '../time/turns.ts';
import { NEW_PLANT_EXAMPLE, PLANT_EXAMPLE } from './examples.ts';
import type { InFlight } from './inFlight.ts';
import { formatLogPosition, logIdOf, parseLogPosition } from './logPosition.ts';
import { errorsOf, eventLost, invalidQuery, tooManyInFlight } from './openapi.ts';

export const Plant = Type.Object(
  { name: Type.String(), tag: Type.Optional(Type.String()) },
  { $id: 'Plant', description: 'A plant, as its owner named it.' },
);

/** JSON has no 64-bit integers in TypeScript: a small ID is a `number`, a large one a `bigint`. */
const Int64 = Type.Refine(
  Type.Unsafe<number | bigint>({
    format: 'int64',
    description: 'Chosen by the client; unique among the user’s plants.',
  }),
  (id) => (typeof id === 'bigint' ? isInt64(id) : Number.isSafeInteger(id)),
  () => 'must be an integer from -9223372036854775808 to 9223372036854775807, without quotes',
);

export const NewPlant = Type.Object(
  { id: Int64, name: Type.String(), tag: Type.Optional(Type.String()) },
  {
    $id: 'NewPlant',
    description: 'A plant to create. Unknown fields are ignored and not stored.',
    examples: [NEW_PLANT_EXAMPLE],
  },
);

const ListQuery = Type.Object({
  limit: Type.Optional(limitSchema('plants')),
  after: Type.Optional(Type.String({ description: 'The cursor in the Link of the previous page. Opaque.' })),
});

const LogPosition = Type.String({
  description: 'A position in the log. A GET with it sees everything up to it, on any instance. Opaque.',
});
const Traceparent = Type.String({
  description: 'W3C Trace Context. If it is valid, it is kept with the event; otherwise it is ignored.',
});
const Link = Type.String({ description: 'If there are more plants: the next page, rel="next" (RFC 8288).' });

const LIST_ERRORS = {
  ...invalidQuery('The query is invalid (40004), or a position is (40005).', 'limit must be given once.'),
  ...tooManyInFlight('lists'),
};

/**
 * Plants read at a time, if the view's limit of bytes allows it: a longer list is streamed, so that it takes
 * no more memory than a page.
 */
const PAGE_SIZE = 500;
/** Characters of first pages that are read in one turn of the event loop: further ones wait for a turn. */
const FIRST_PAGES_LENGTH = 1024 * 1024;

type Dependencies = {
  store: EventStore;
  views: Views;
  readYourWrites: ReadYourWrites;
  now: () => Date;
  newEventId: (now: Date) => string;
  listsInFlight: InFlight;
  turns: Turns;
};

/** The two operations; `request.user` is the authenticated user. */
export const plantRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { store, readYourWrites, now, newEventId, listsInFlight, turns } = deps;
  const { plantsByUser } = deps.views;
  const firstPages = new TurnBudget(FIRST_PAGES_LENGTH);

  app.post(
    '/plants',
    {
      preValidation: requireBody,
      schema: {
        operationId: 'createPlant',
        tags: ['plants'],
        summary: 'Create a plant; idempotent',
        headers: Type.Object({ traceparent: Type.Optional(Traceparent) }),
        body: NewPlant,
        response: {
          200: jsonResponse(
            'The plant.',
            { schema: Plant, example: PLANT_EXAMPLE },
            { 'Log-Position': LogPosition },
          ),
          ...errorsOf([413, 415], eventLost, { 'Log-Position': LogPosition }),
        },
      },
    },
    async ({ user, id: correlationId, headers, body: { id, name, tag } }, reply) => {
      const plant = { name, ...(tag === undefined ? {} : { tag }) };
      const command = { user, id: BigInt(id), ...plant };
      const context = { now, newEventId, correlationId, traceparent: traceparentOf(headers) };
      const position = await createPlant(store, command, context);
      const logId = await store.logId();
      readYourWrites.acknowledge(user, logId, position);
      reply.header('log-position', formatLogPosition(logId, position));
      return plant;
    },
  );

  app.get(
    '/plants',
    {
      schema: {
        operationId: 'listPlants',
        tags: ['plants'],
        summary: 'List your plants, oldest first',
        querystring: ListQuery,
        headers: Type.Object({ 'Log-Position': Type.Optional(LogPosition) }),
        response: {
          200: jsonResponse(
            'Your plants.',
            { schema: Type.Array(Plant), example: [PLANT_EXAMPLE, { name: 'Moss' }] },
            { 'Log-Position': LogPosition, Link },
          ),
          ...errorsOf([], LIST_ERRORS, { 'Log-Position': LogPosition }),
        },
      },
    },
    async ({ user, query, headers, method }, reply) => {
      if (!listsInFlight.add(user, reply.raw)) return reply.send();
      await readYourWrites.ready(plantsByUser, user);
      const namesPosition = (query.after ?? headers['log-position']) !== undefined;
      const logId = await logIdOf(plantsByUser, store, namesPosition);
      const parse = (text: string | undefined, name: string) =>
        text === undefined ? START : parseLogPosition(logId, text, name);
      const after = parse(query.after, 'after');
      const named = parse(headers['log-position']?.toString(), 'Log-Position');
      const upTo = await readYourWrites.upTo(plantsByUser, user, logId, after > named ? after : named);

      reply.header('log-position', formatLogPosition(logId, upTo)).type('application/json; charset=utf-8');
      const limit = query.limit === undefined ? Number.POSITIVE_INFINITY : Number(query.limit);
      if (limit === 0) return '[]';
      if (firstPages.isSpent) await turns.next(user);
      const first = plantsByUser.plantsOf(user, { after, upTo, limit: Math.min(limit, PAGE_SIZE) });
      firstPages.spend(first.plants.length);
      const next = await nextPage(user, first, { after, upTo, limit });
      if (next !== undefined) {
        const cursor = formatLogPosition(logId, next);
        reply.header('link', `</plants?limit=${limit}&after=${cursor}>; rel="next"`);
      }
      if (first.count === limit || !first.hasMore) return `[${first.plants}]`;
      if (method === 'HEAD') return Readable.from([]);
      return Readable.from(jsonArray(user, first, { after, upTo, limit }), { highWaterMark: 0 });
    },
  );

  // Error responses have the log position too, for authenticated users.
  app.setErrorHandler(async (error, { user }, reply) => {
    if (user !== '') {
      const { logId, position } = plantsByUser.applied;
      const ofError = error instanceof PlantIdTaken ? error.position : position;
      if (logId !== '') reply.header('log-position', formatLogPosition(logId, ofError));
    }
    throw error;
  });

  /** The position of the last of the first `limit` plants, if there are more. */
  async function nextPage(
    user: string,
    { last, count, hasMore }: PlantPage,
    query: PageQuery,
  ): Promise<Position | undefined> {
    if (!hasMore || query.limit === Number.POSITIVE_INFINITY) return undefined;
    return count === query.limit ? last : plantsByUser.nextPage(user, query, () => turns.next(user));
  }

  /**
   * A JSON array of up to `limit` plants, page by page, each in a turn of its own, without holding a transaction;
   * an error ends it early.
   */
  async function* jsonArray(
    user: string,
    page: PlantPage,
    { upTo, limit }: PageQuery,
  ): AsyncGenerator<string> {
    yield `[${page.plants}`;
    for (let left = limit - page.count; page.hasMore && left > 0; left -= page.count) {
      await turns.next(user);
      page = plantsByUser.plantsOf(user, { after: page.last, upTo, limit: Math.min(left, PAGE_SIZE) });
      yield `,${page.plants}`;
    }
    yield ']';
  }
};

/** Fastify does not check the media type of a request without a body. */
const requireBody: preValidationHookHandler = ({ body }, _reply, done) => {
  if (body === undefined)
    throw new HttpError(HTTP_ERRORS.unsupportedMediaType, 'The request requires a JSON body.');
  done();
};

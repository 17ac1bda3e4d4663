import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { preValidationHookHandler } from 'fastify';
import { Type } from 'typebox';
import type { Follower } from '../../projections/follow.ts';
import type { Page, PlantsByUser, Question } from '../../projections/plantsByUser.ts';
import { type EventStore, type Position, START } from '../eventStore/eventStore.ts';
import { BadRequest, NUMBERS } from '../http/errors.ts';
import { limitOf } from '../http/limit.ts';
import { formatPosition, parsePosition } from '../http/logPosition.ts';
import { failures, json } from '../http/openapi.ts';
import { createPlant, isInt64, PlantIdTaken } from './plant.ts';

export const Plant = Type.Object(
  { name: Type.String(), tag: Type.Optional(Type.String()) },
  { $id: 'Plant', description: 'A plant as its owner named it.' },
);

/** TypeScript has no 64-bit integer in JSON: small ids come as `number`, large ones as `bigint`. */
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
  { $id: 'NewPlant', description: 'A plant to create. Unknown fields are ignored and not stored.' },
);

const ListQuery = Type.Object({
  limit: Type.Optional(limitOf('plants')),
  after: Type.Optional(
    Type.String({ description: 'Where to go on: taken from the Link of the page before. Opaque.' }),
  ),
});

const LogPosition = Type.String({
  description:
    'A position in the log. A GET that carries it sees everything up to it, on any instance. Opaque.',
});
const Link = Type.String({ description: 'When more plants remain: the next page, rel="next" (RFC 8288).' });

const REFUSALS = failures({ 'Log-Position': LogPosition }, 400, 401, 408, 417, 431, 500, 503);
const BODY_REFUSALS = failures({ 'Log-Position': LogPosition }, 413, 415);

/** Rows read at a time: a longer answer is sent in pages, so that it takes no more memory than one. */
const PAGE = 500;

type Dependencies = {
  store: EventStore;
  view: PlantsByUser;
  follower: Follower;
  now: () => Date;
  newId: () => string;
};

/** The two operations. Whoever registers them sees to it that `request.user` is known. */
export const plantRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { store, view, follower, now, newId } = deps;
  /** The last that this instance has answered for; worth nothing once the view has begun anew. */
  let acknowledged: { mark: string; position: Position; rebuilds: number } | undefined;
  const valid = (known: typeof acknowledged) => (known?.rebuilds === follower.rebuilds ? known : undefined);

  app.post(
    '/plants',
    {
      preValidation: refuseNoBody,
      schema: {
        operationId: 'createPlant',
        summary: 'Create a plant; repeating the request is safe',
        body: NewPlant,
        response: {
          200: json('The plant.', Plant, { 'Log-Position': LogPosition }),
          ...REFUSALS,
          ...BODY_REFUSALS,
        },
      },
    },
    async ({ user, id: correlationId, body: { id, name, tag } }, reply) => {
      const plant = { name, ...(tag === undefined ? {} : { tag }) };
      const position = await createPlant(
        store,
        { user, id: BigInt(id), ...plant },
        { now, newId, correlationId },
      );
      const mark = await store.mark();
      const last = valid(acknowledged);
      if (last?.mark !== mark || position > last.position)
        acknowledged = { mark, position, rebuilds: follower.rebuilds };
      reply.header('log-position', formatPosition(mark, position));
      return plant;
    },
  );

  app.get(
    '/plants',
    {
      schema: {
        operationId: 'listPlants',
        summary: 'List your plants, oldest first',
        querystring: ListQuery,
        headers: Type.Object({ 'Log-Position': Type.Optional(LogPosition) }),
        response: {
          200: json('Your plants.', Type.Array(Plant), { 'Log-Position': LogPosition, Link }),
          ...REFUSALS,
        },
      },
    },
    async ({ user, query, headers, method }, reply) => {
      // Until the view has caught up once, and with the log that this instance writes to, it says nothing.
      const newest = valid(acknowledged)?.mark ?? view.mark;
      if (newest !== view.mark) await follower.reached(START, newest);
      else if (follower.notReady() !== undefined) await follower.reached(START);
      const { mark } = view;
      const after = query.after === undefined ? START : parsePosition(mark, query.after, 'after');
      const header = headers['log-position'];
      const named = header === undefined ? START : parsePosition(mark, String(header), 'Log-Position');
      let wanted = valid(acknowledged)?.position ?? START;
      for (const position of [after, named]) if (position > wanted) wanted = position;
      await follower.reached(wanted);

      const range = { after, upTo: view.position };
      reply.header('log-position', formatPosition(mark, range.upTo)).type('application/json; charset=utf-8');
      const limit = query.limit === undefined ? Number.POSITIVE_INFINITY : Number(query.limit);
      if (limit === 0) return '[]';
      const first = view.plantsOf(user, { ...range, limit: Math.min(limit, PAGE) });
      const next = first.more ? await nextAfter(user, first, { ...range, limit }) : undefined;
      if (next !== undefined)
        reply.header('link', `</plants?limit=${limit}&after=${formatPosition(mark, next)}>; rel="next"`);
      if (limit <= PAGE || !first.more) return `[${first.plants}]`;
      return Readable.from(method === 'HEAD' ? [] : inPieces(user, first, { ...range, limit }), {
        highWaterMark: 1,
      });
    },
  );

  // Refusals say how far the log has come, too; but only to somebody known.
  app.setErrorHandler(async (error, { user }, reply) => {
    if (user !== '') {
      const position = error instanceof PlantIdTaken ? error.position : view.position;
      if (view.mark !== '') reply.header('log-position', formatPosition(view.mark, position));
    }
    throw error;
  });

  /** The pages that follow the first one, as far as `limit` goes. No transaction is held between them. */
  async function* pagesAfter(user: string, first: Page, { upTo, limit }: Question): AsyncGenerator<Page> {
    let page = first;
    for (let left = limit - page.count; page.more && left > 0; left -= page.count) {
      await nextTurn();
      page = view.plantsOf(user, { after: page.last, upTo, limit: Math.min(left, PAGE) });
      yield page;
    }
  }

  /** Where an answer of `limit` plants ends, if others follow it: the header comes before the body. */
  async function nextAfter(user: string, first: Page, question: Question): Promise<Position | undefined> {
    if (question.limit === Number.POSITIVE_INFINITY) return undefined;
    let end = first;
    for await (const page of pagesAfter(user, first, question)) end = page;
    return end.more ? end.last : undefined;
  }

  /** A JSON array in pieces; an error cuts it short. */
  async function* inPieces(user: string, first: Page, question: Question): AsyncGenerator<string> {
    yield `[${first.plants}`;
    for await (const { plants } of pagesAfter(user, first, question)) yield `,${plants}`;
    yield ']';
  }
};

/** Fastify asks for no media type where there is no body at all. */
const refuseNoBody: preValidationHookHandler = ({ body }, _reply, done) => {
  if (body === undefined) throw new BadRequest(NUMBERS.wrongMediaType, 'A JSON body is needed.');
  done();
};

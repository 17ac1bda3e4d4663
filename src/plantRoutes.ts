import { Readable } from 'node:stream';
import { type EventStore, NO_LOG_ID, START } from '@event-sourced/event-log';
import { formatLogPosition, limitSchema, parseLogPosition } from '@event-sourced/event-log/replay';
import type { ReadYourWrites, View } from '@event-sourced/event-log/views';
import { activeTraceparent, InFlight } from '@event-sourced/http';
import type { Metrics } from '@event-sourced/http/metrics';
import { type FairQueue, TurnBudget } from '@event-sourced/node/time';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { PageQuery, PlantPage } from '../projections/plantsByUser.ts';
import { API_ERRORS, MAX_LISTS_IN_FLIGHT } from './errors.ts';
import { createPlant, PlantIdTaken } from './plants/createPlant.ts';
import { isInt64 } from './plants/stream.ts';
import type { Views } from './views.ts';

export const Plant = Type.Object(
  { name: Type.String(), tag: Type.Optional(Type.String()) },
  { $id: 'Plant', description: 'A plant, as its owner named it.' },
);
const FERN = { name: 'Fern', tag: 'indoor' };

/** The ID is only in a list on request, so that a list without `fields` has the shape of a plant. */
export const ListedPlant = Type.Object(
  {
    id: Type.Optional(
      Type.Unsafe<bigint>({
        format: 'int64',
        description:
          'With `fields=id,name,tag`: its ID. `JSON.parse(text, (key, value, { source }) => (key === "id" ? BigInt(source) : value))` keeps all digits; the guide has it in TypeScript.',
      }),
    ),
    ...Plant.properties,
  },
  { $id: 'ListedPlant', description: 'A plant in a list.' },
);

/** JSON has no 64-bit integers in TypeScript: a small ID is a `number`, a large one a `bigint`. */
const Int64 = Type.Refine(
  Type.Unsafe<number | bigint>({
    format: 'int64',
    description:
      'Chosen by the client; unique among the user’s plants. JavaScript rounds a `number` above 2^53; send a bigint instead, such as `JSON.stringify({ id: JSON.rawJSON(String(9223372036854775807n)), name: "Fern" })`. The guide has it in TypeScript.',
  }),
  (id) => (typeof id === 'bigint' ? isInt64(id) : Number.isSafeInteger(id)),
  () => 'must be an integer from -9223372036854775808 to 9223372036854775807, without quotes',
);

export const NewPlant = Type.Object(
  { id: Int64, ...Plant.properties },
  {
    $id: 'NewPlant',
    description: 'A plant to create. Unknown fields are ignored and not stored.',
    examples: [{ id: 1, ...FERN }],
  },
);

const FIELDS_WITH_ID = 'id,name,tag';
const ListQuery = Type.Object({
  limit: Type.Optional(limitSchema('plants')),
  after: Type.Optional(
    Type.String({
      description:
        'The cursor in the Link of the previous page, or the `Log-Position` of an earlier list: only plants created since.',
    }),
  ),
  fields: Type.Optional(
    Type.Enum([FIELDS_WITH_ID], {
      type: 'string',
      description: 'What each plant has; without it, name and tag.',
    }),
  ),
});

const LogPosition = Type.String({
  description:
    'A position in the log. A GET with this position sees every event up to it, on any instance. Opaque.',
});
/** The headers of every response to an authenticated caller. */
const PLANT_HEADERS = { 'Log-Position': { ...LogPosition, examples: ['s3f9a2c1b7d4e.1'] } };
const Created = Type.Enum(['true', 'false'], {
  type: 'string',
  description: 'true: this request has created the plant; false: the user already had it. Both are 200.',
  examples: ['true'],
});
const Traceparent = Type.String({
  description: 'W3C Trace Context. A valid value is stored with the event; an invalid one is ignored.',
});
const Link = Type.String({
  description: 'If there are more plants: the next page, rel="next" (RFC 8288), relative to this URL.',
  examples: ['<plants?limit=100&after=s3f9a2c1b7d4e.100>; rel="next"'],
});

const json = (description: string, media: object, headers: object): object => ({
  description,
  headers,
  content: { 'application/json': media },
});

const JSON_TYPE = 'application/json';
/** The number of plants read at a time, unless PAGE_BYTES ends a page earlier. Longer lists are streamed by page. */
const PAGE_SIZE = 500;
/** The total size, in characters, of first pages that one turn of the event loop reads; further reads wait. */
const FIRST_PAGES_LENGTH = 1024 * 1024;

type Dependencies = {
  store: EventStore;
  views: Views;
  readYourWrites: ReadYourWrites;
  now: () => Date;
  newEventId: (now: Date) => string;
  fairQueue: FairQueue;
  metrics?: Metrics | undefined;
};

/** The operations; `request.user` is the authenticated user. */
export const plantRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { store, readYourWrites, now, newEventId, fairQueue, metrics } = deps;
  const { plantsByUser } = deps.views;
  const lists = new InFlight('lists', MAX_LISTS_IN_FLIGHT);
  metrics?.measure(
    'lists_in_flight',
    'Plant lists that are waiting for the view or being sent.',
    () => lists.total,
  );
  const firstPages = new TurnBudget(FIRST_PAGES_LENGTH);

  app.post(
    '/plants',
    {
      schema: {
        operationId: 'createPlant',
        tags: ['plants'],
        summary: 'Create a plant; idempotent',
        description:
          'The response is sent when the event is on disk. Repeating the same plant returns 200 without a new event, and `Plant-Created: false`; a different plant with the same ID returns 400.',
        headers: Type.Object({ traceparent: Type.Optional(Traceparent) }),
        body: NewPlant,
        response: {
          200: json(
            'The plant.',
            { schema: Plant, example: FERN },
            { ...PLANT_HEADERS, 'Plant-Created': Created },
          ),
        },
        errors: [
          API_ERRORS.invalidBody,
          API_ERRORS.notJson,
          API_ERRORS.plantIdTaken,
          API_ERRORS.bodyTooLarge,
          API_ERRORS.unsupportedMediaType,
          API_ERRORS.eventLost,
        ],
        errorHeaders: PLANT_HEADERS,
      },
    },
    async ({ user, id: correlationId, headers, body: { id, name, tag } }, reply) => {
      const plant = { name, ...(tag === undefined ? {} : { tag }) };
      const context = { now, newEventId, correlationId, traceparent: activeTraceparent(headers) };
      const command = { user, id: BigInt(id), ...plant };
      const { position, logId, created } = await createPlant(store, command, context);
      readYourWrites.acknowledge(user, logId, position);
      reply.header('log-position', formatLogPosition(logId, position)).header('plant-created', `${created}`);
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
        description:
          'The list has every plant that you have created on this instance, and every plant up to `Log-Position`, on any instance. Without `limit` it is streamed. To keep in step, follow every `Link`, and then request `after=` the `Log-Position` of the last response: the plants created since, each once. That holds on any instance and after restarts, also if the list is empty. A list with `limit=0` has no plants, and the `Log-Position` of now.',
        querystring: ListQuery,
        headers: Type.Object({ 'Log-Position': Type.Optional(LogPosition) }),
        response: {
          200: json(
            'Your plants.',
            { schema: Type.Array(ListedPlant), example: [FERN, { name: 'Moss' }] },
            { ...PLANT_HEADERS, Link },
          ),
        },
        errors: [
          API_ERRORS.badPosition,
          API_ERRORS.tooManyLists,
          API_ERRORS.viewBehind,
          API_ERRORS.http11Required,
        ],
        errorHeaders: PLANT_HEADERS,
      },
    },
    async ({ user, query, headers, method }, reply) => {
      if (!lists.add(user, reply.raw)) return reply.send();
      const { logId, ...range } = await waitForView(plantsByUser, user, headers['log-position'], query.after);
      reply.header('log-position', formatLogPosition(logId, range.upTo)).type(JSON_TYPE);
      const limit = query.limit === undefined ? Number.POSITIVE_INFINITY : Number(query.limit);
      if (limit === 0) return '[]';
      const pageQuery = { ...range, limit, withIds: query.fields !== undefined };
      const first = await firstPage(user, pageQuery);
      const next = await nextPage(user, first, pageQuery);
      const fields = query.fields === undefined ? '' : `&fields=${query.fields}`;
      if (next !== undefined)
        reply.header(
          'link',
          `<plants?limit=${limit}&after=${formatLogPosition(logId, next)}${fields}>; rel="next"`,
        );
      if (first.count === limit || !first.hasMore) return `[${first.plants}]`;
      if (method === 'HEAD') return Readable.from([]);
      return Readable.from(jsonArray(user, first, pageQuery), { highWaterMark: 0 });
    },
  );

  // Error responses have the log position too, for authenticated users.
  app.setErrorHandler(async (error, { user }, reply) => {
    const { logId, position } = plantsByUser.progress;
    const upTo = error instanceof PlantIdTaken ? error.position : position;
    if (user !== '' && logId !== '') reply.header('log-position', formatLogPosition(logId, upTo));
    throw error;
  });

  /** Waits until a view has the user's writes and the position that the request names; returns the range to read. */
  async function waitForView(view: View, user: string, named: string | undefined, cursor?: string) {
    await readYourWrites.caughtUp(view, user);
    // An empty view has no log ID yet, but another instance may have returned a position of the store's log.
    const isNamed = (cursor ?? named) !== undefined;
    const logId = view.progress.logId || (isNamed ? await store.logId() : NO_LOG_ID);
    const after = cursor === undefined ? START : parseLogPosition(logId, cursor, 'after');
    const known = named === undefined ? START : parseLogPosition(logId, named, 'Log-Position');
    const upTo = await readYourWrites.upTo(view, user, logId, after > known ? after : known);
    return { logId, after, upTo };
  }

  async function firstPage(user: string, query: PageQuery): Promise<PlantPage> {
    if (firstPages.isSpent) await fairQueue.next(user);
    const page = plantsByUser.readPage(user, { ...query, limit: Math.min(query.limit, PAGE_SIZE) });
    firstPages.spend(page.plants.length);
    return page;
  }

  /** Where the next page starts, if there is one. */
  async function nextPage(user: string, { last, count, hasMore }: PlantPage, query: PageQuery) {
    if (!hasMore || query.limit === Number.POSITIVE_INFINITY) return undefined;
    if (count === query.limit) return last;
    const rest = { ...query, after: last, limit: query.limit - count };
    return plantsByUser.nextPage(user, rest, () => fairQueue.next(user));
  }

  /**
   * A JSON array of up to `limit` plants. Reads each page in its own turn of the event loop, without holding a
   * transaction; an error truncates the array.
   */
  async function* jsonArray(user: string, page: PlantPage, query: PageQuery): AsyncGenerator<string> {
    yield `[${page.plants}`;
    for (let left = query.limit - page.count; page.hasMore && left > 0; left -= page.count) {
      await fairQueue.next(user);
      page = plantsByUser.readPage(user, { ...query, after: page.last, limit: Math.min(left, PAGE_SIZE) });
      if (page.count > 0) yield `,${page.plants}`; // plants may have been erased
    }
    yield ']';
  }
};

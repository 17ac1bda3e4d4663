import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyRequest, FastifySchema, onRequestAsyncHookHandler } from 'fastify';
import { Type } from 'typebox';
import type { Batch, EventLog, Position, RecordedEvent } from '../eventStore.ts';
import type { Turn } from '../time/fairQueue.ts';
import { sleep } from '../time/sleep.ts';
import { CloudEvent, type CloudEventFormat, toCloudEvent } from './cloudEvent.ts';
import { EventFilter, eventQuery, type StreamNames } from './eventFilter.ts';
import { isDescending, newestEvents, type OrderedEventQuery, orderedEventQuery } from './eventPages.ts';
import { formatLogPosition } from './logPosition.ts';
import { replay } from './replay.ts';

const NDJSON = 'application/x-ndjson';
const EVENT_STREAM = 'text/event-stream';

/** An idle event stream gets a comment, so that no proxy closes it. */
const HEARTBEAT_INTERVAL_MS = 15_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The client accepts none of the media types; the message names them. */
export class NotAcceptable extends Error {
  override readonly name = 'NotAcceptable';
}

/** Counts a user's responses in flight. Returns false if the client has disconnected. @throws if there are too many */
type InFlight = { add(user: string, response: ServerResponse): boolean };

type Dependencies = {
  log: EventLog;
  streams: StreamNames;
  format: CloudEventFormat;
  /** The Merkle tree over every event of the log, its root in Base64; undefined if it is behind. */
  currentTree: () => Promise<{ logId: string; position: Position; size: number; root: string } | undefined>;
  inFlight: { replays: InFlight; pages: InFlight; eventStreams: InFlight };
  fairQueue: { next(user: string, share?: number): Promise<void> };
  userOf: (request: FastifyRequest) => string;
  /** The media type that the client prefers; false if it accepts none. */
  mediaTypeOf: (request: FastifyRequest, types: string[]) => string | undefined;
  /** Resolves with the time until the next check, in milliseconds; rejects if the user may not read the log. */
  checkAccess: (request: FastifyRequest) => Promise<number>;
  documentation: { schema: FastifySchema; example: CloudEvent; errors: object };
};

type Batches = AsyncGenerator<Batch>;
type FirstBatch = IteratorResult<Batch>;

/** The events of the whole log, as CloudEvents. */
export const eventRoutes: FastifyPluginAsync<Dependencies> = async (
  app,
  { log, streams, format, currentTree, inFlight, fairQueue, userOf, mediaTypeOf, checkAccess, documentation },
) => {
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  const toJson = (event: RecordedEvent): string => JSON.stringify(toCloudEvent(event, format));
  const toLine = (event: RecordedEvent): string => `${toJson(event)}\n`;
  const toMessage = (event: RecordedEvent): string => `id: ${event.position}\ndata: ${toJson(event)}\n\n`;
  // Before validation, so that callers without access learn nothing.
  const onRequest: onRequestAsyncHookHandler = async (request) => void (await checkAccess(request));

  app.get<{ Querystring: OrderedEventQuery }>(
    '/events',
    { onRequest, schema: routeSchema(streams, documentation) },
    async (request, reply) => {
      const { query, headers, method, raw } = request;
      const user = userOf(request);
      const descending = isDescending(query);
      const type = mediaTypeOf(request, descending ? [NDJSON] : [NDJSON, EVENT_STREAM]);
      if (type === undefined)
        throw new NotAcceptable(
          descending
            ? `With order=descending, the media type is ${NDJSON}.`
            : `The media types are ${NDJSON} and ${EVENT_STREAM}.`,
        );
      const live = type === EVENT_STREAM;
      const kind = descending ? 'pages' : live ? 'eventStreams' : 'replays';
      if (!inFlight[kind].add(user, reply.raw)) return reply.send();
      const disconnected = new AbortController();
      reply.raw.once('close', () => disconnected.abort());
      const { signal } = disconnected;
      const turn: Turn = (share) => fairQueue.next(user, share);
      if (descending) {
        // A page is read before it is sent, so an error has its status.
        const page = await newestEvents(log, { query, streams, toLine, turn, signal });
        return reply
          .type(NDJSON)
          .headers(page?.headers ?? {})
          .send(Buffer.from(page?.lines ?? ''));
      }

      const lastEventId = live ? headers['last-event-id']?.toString() : undefined;
      const filter = lastEventId
        ? new EventFilter({ ...query, after: lastEventId }, streams, (name) =>
            name === 'after' ? 'Last-Event-ID' : name,
          )
        : new EventFilter(query, streams);
      const tree = live ? undefined : await currentTree();
      const ends = live ? [signal, closing.signal, accessWithdrawn(request, signal)] : [signal];
      const batches = replay(log, filter, {
        signal: AbortSignal.any(ends),
        live,
        end: tree?.position,
        turn,
      });
      signal.addEventListener('abort', () => void batches.return(undefined));
      // Searching is not stalling.
      const keepOpen = (): void => void raw.socket.setTimeout(raw.socket.timeout ?? 0);

      // The response starts with the first event, or the end of the log: before it, there may be an error.
      let first = await batches.next();
      for (; isPending(first); first = await batches.next()) keepOpen();
      reply.type(type);
      if (live) reply.header('x-accel-buffering', 'no');
      if (tree)
        reply
          .header('log-position', formatLogPosition(tree.logId, tree.position))
          .header('checkpoint', `${tree.size} ${tree.root}`);
      if (method === 'HEAD') return reply.send(Readable.from([]));
      const body = live ? messages(first, batches) : lines(first, batches, keepOpen);
      return reply.send(Readable.from(body, { highWaterMark: live ? 0 : 1 }));
    },
  );

  async function* lines(first: FirstBatch, batches: Batches, keepOpen: () => void): AsyncGenerator<string> {
    for (let next = first; !next.done; next = await batches.next()) {
      if (next.value.events.length === 0) keepOpen();
      else yield next.value.events.map(toLine).join('');
    }
  }

  /** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
  async function* messages(first: FirstBatch, batches: Batches): AsyncGenerator<string> {
    yield ': connected\n\n';
    let next = Promise.resolve(first);
    let idle = timeout(HEARTBEAT_INTERVAL_MS);
    try {
      for (;;) {
        const result = await Promise.race([idle.elapsed, next]);
        if (result?.done) return;
        const text = result ? result.value.events.map(toMessage).join('') : ': heartbeat\n\n';
        if (text !== '') {
          yield text;
          idle.clear();
          idle = timeout(HEARTBEAT_INTERVAL_MS);
        }
        if (!result) continue;
        next = batches.next();
        next.catch(() => {}); // it may fail while a heartbeat is sent; then the loop throws it
      }
    } finally {
      idle.clear();
    }
  }

  /** Aborts when the user may no longer read the log. It is checked as often as for new requests. */
  function accessWithdrawn(request: FastifyRequest, signal: AbortSignal): AbortSignal {
    const withdrawn = new AbortController();
    const watch = async (): Promise<void> => {
      while (!signal.aborted) {
        const remaining = await checkAccess(request);
        await sleep(Math.min(Math.max(remaining, 1), MAX_TIMER_MS), signal);
      }
    };
    watch().catch(() => withdrawn.abort());
    return withdrawn.signal;
  }
};

function isPending({ done, value }: FirstBatch): boolean {
  return !done && value.events.length === 0 && !value.caughtUp;
}

function timeout(ms: number): { elapsed: Promise<undefined>; clear(): void } {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  return { elapsed: promise, clear: () => clearTimeout(timer) };
}

const text = (description: string, ...examples: [] | [string]) => Type.String({ description, examples });

/** Text, since OpenAPI 3.1 has no words for a sequence of values; 3.2 has, but few of its tools yet. */
const Lines = Type.String({
  contentMediaType: NDJSON,
  contentSchema: CloudEvent,
  description: 'Each line is a CloudEvent.',
});
const Messages = text('The data of each message is a CloudEvent.');

function routeSchema(
  streams: StreamNames,
  { schema, example, errors }: Dependencies['documentation'],
): FastifySchema {
  const data = JSON.stringify(example);
  return {
    ...schema,
    querystring: orderedEventQuery(eventQuery(streams)),
    headers: Type.Object({
      'Last-Event-ID': Type.Optional(text('For event streams, instead of after: the last event received.')),
    }),
    response: {
      200: {
        description:
          'The events, one per line, or each as a message whose id is its position: in log order, or newest first with order=descending.',
        headers: {
          'Log-Position': text(
            'For NDJSON: the position of the last event of the log when it was read.',
            's3f9a2c1b7d4e.1',
          ),
          Checkpoint: text(
            'For NDJSON: the size of the log when it was read, a space, and the root of its Merkle tree in Base64. Absent while the tree is behind or contradicts a signed checkpoint, and with order=descending.',
            '1 WqWXVcnlPkcCO6/Rdh4jzr1gLxVZTpWCut6TpCogsdg=',
          ),
          Link: text(
            'With order=descending, if there are more events: the next page, rel="next" (RFC 8288). A page may have fewer events than limit, or none, also if there are more.',
            '</events?order=descending&limit=100&before=101>; rel="next"',
          ),
          'X-Accel-Buffering': text('For event streams: no, so that proxies do not buffer them.', 'no'),
        },
        content: {
          [NDJSON]: { schema: Lines, example: `${data}\n` },
          [EVENT_STREAM]: { schema: Messages, example: `id: ${example.position}\ndata: ${data}\n\n` },
        },
      },
      ...errors,
    },
  };
}

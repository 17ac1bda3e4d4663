import { Readable } from 'node:stream';
import accepts from '@fastify/accepts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { CloudEvent, cloudEventJson } from '../audit/cloudEvent.ts';
import { parseFilter } from '../audit/eventFilter.ts';
import { replay } from '../audit/replay.ts';
import type { Batch, EventLog, RecordedEvent } from '../eventStore/eventStore.ts';
import { HTTP_ERRORS, HttpError } from '../http/errors.ts';
import { response } from '../http/openapi.ts';
import { sleep } from '../time/sleep.ts';
import type { Turn, Turns } from '../time/turns.ts';
import { encodeHash } from '../transparency/encoding.ts';
import { AUDIT_SCOPE, assertScope, requireAuditScope } from './auth.ts';
import type { Checkpoints } from './checkpoints.ts';
import { API_ERRORS } from './errorTable.ts';
import { isDescending, newestEvents, OrderedEventQuery } from './eventPages.ts';
import { EVENT_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { formatLogPosition } from './logPosition.ts';
import { errorsOf, tooManyInFlight } from './openapi.ts';

const NDJSON = 'application/x-ndjson';
const EVENT_STREAM = 'text/event-stream';

/** An idle event stream gets a comment so often, in milliseconds, so that no proxy closes it. */
const HEARTBEAT_INTERVAL_MS = 15_000;
/** The longest time for a timer, in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Text, since OpenAPI 3.1 has no words for a sequence of values; 3.2 has, but few of its tools yet. */
const Lines = Type.String({
  contentMediaType: NDJSON,
  contentSchema: CloudEvent,
  description: 'Each line is a CloudEvent.',
});
const Messages = Type.String({ description: 'The data of each message is a CloudEvent.' });
const EXAMPLE_DATA = JSON.stringify(EVENT_EXAMPLE);

const ERRORS = errorsOf([
  {
    ...HTTP_ERRORS.invalidQuery,
    description: 'the query is invalid, since is later than until, or the log has no event of the user',
    message: 'since must not be later than until.',
  },
  {
    ...API_ERRORS.badPosition,
    description: 'after, before or Last-Event-ID is not the position of an event',
  },
  'insufficientScope',
  'notAcceptable',
  tooManyInFlight('replays', 'pages of events', 'event streams'),
]);

type Dependencies = {
  log: EventLog;
  checkpoints: Checkpoints | undefined;
  source: string;
  now: () => Date;
  eventStreams: InFlight;
  turns: Turns;
};

/** The events of the whole log, for auditors. */
export const eventRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (
  app,
  { log, checkpoints, source, now, eventStreams, turns },
) => {
  const replays = new InFlight('replays');
  const pages = new InFlight('pages of events');
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  await app.register(accepts);

  app.get(
    '/events',
    {
      onRequest: requireAuditScope,
      schema: {
        operationId: 'replayEvents',
        tags: ['audit'],
        summary: 'Replay the log; an event stream continues with each new event',
        description:
          'NDJSON, the default, ends with the log, or after limit events. An event stream (Accept: text/event-stream) ends after limit events; while the log has fewer, and without limit, when the client disconnects or its token expires. /docs shows an event stream only after its end: to try one there, set limit to no more than the events that match.',
        querystring: OrderedEventQuery,
        headers: Type.Object({
          'Last-Event-ID': Type.Optional(
            Type.String({ description: 'For event streams, instead of after: the last event received.' }),
          ),
        }),
        response: {
          200: response(
            'The events, one per line, or each as a message whose id is its position: in log order, or newest first with order=descending.',
            {
              [NDJSON]: { schema: Lines, example: `${EXAMPLE_DATA}\n` },
              [EVENT_STREAM]: {
                schema: Messages,
                example: `id: ${EVENT_EXAMPLE.position}\ndata: ${EXAMPLE_DATA}\n\n`,
              },
            },
            {
              'Log-Position': Type.String({
                description: 'For NDJSON: the position of the last event of the log when it was read.',
              }),
              Checkpoint: Type.String({
                description:
                  'For NDJSON: the size of the log when it was read, a space, and the root of its Merkle tree in Base64. Absent while the tree is behind or contradicts a signed checkpoint, and with order=descending.',
              }),
              Link: Type.String({
                description:
                  'With order=descending, if there are more events: the next page, rel="next" (RFC 8288). A page may have fewer events than limit, or none, also if there are more.',
              }),
              'X-Accel-Buffering': Type.String({
                description: 'For event streams: no, so that proxies do not buffer them.',
              }),
            },
          ),
          ...ERRORS,
        },
        security: [{ bearer: [AUDIT_SCOPE] }],
      },
    },
    async (request, reply) => {
      const { user, query, headers, method, raw } = request;
      const descending = isDescending(query);
      const types = descending ? [NDJSON] : [NDJSON, EVENT_STREAM];
      const type = request.accepts().type(types);
      if (type === false) {
        const known = descending
          ? `With order=descending, the media type is ${NDJSON}.`
          : `The media types are ${types.join(' and ')}.`;
        throw new HttpError(HTTP_ERRORS.notAcceptable, known);
      }
      const live = type === EVENT_STREAM;
      const inFlight = descending ? pages : live ? eventStreams : replays;
      if (!inFlight.add(user, reply.raw)) return reply.send();
      if (descending) return sendNewest(request, reply);
      const lastEventId = live ? headers['last-event-id']?.toString() : undefined;
      const after = lastEventId ? 'Last-Event-ID' : 'after';
      const filter = parseFilter(lastEventId ? { ...query, after: lastEventId } : query, (name) =>
        name === 'after' ? after : name,
      );

      const disconnected = new AbortController();
      const signals = live
        ? [disconnected.signal, closing.signal, tokenExpiry(request, disconnected.signal)]
        : [disconnected.signal];
      const head = live ? undefined : await checkpoints?.currentHead();
      const end = head?.position;
      const signal = AbortSignal.any(signals);
      const turn: Turn = (share) => turns.next(user, share);
      const batches = replay(log, filter, { signal, live, after, end, turn });
      const disconnect = (): void => {
        disconnected.abort();
        void batches.return(undefined);
      };
      reply.raw.once('close', disconnect);
      if (reply.raw.closed) disconnect(); // the client disconnected while the token was verified
      // Searching is not stalling.
      const keepOpen = (): void => void raw.socket.setTimeout(raw.socket.timeout ?? 0);

      // The response starts with the first event, or the end of the log: before it, there may be an error.
      let first = await batches.next();
      for (; isPending(first); first = await batches.next()) keepOpen();
      reply.type(live ? EVENT_STREAM : NDJSON);
      if (live) reply.header('x-accel-buffering', 'no');
      if (head)
        reply
          .header('log-position', formatLogPosition(head.logId, head.position))
          .header('checkpoint', `${head.size} ${encodeHash(head.root)}`);
      if (method === 'HEAD') return reply.send(Readable.from([]));
      const body = live ? messages(first, batches) : lines(first, batches, keepOpen);
      return reply.send(Readable.from(body, { highWaterMark: live ? 0 : 1 }));
    },
  );

  /** A page is read before it is sent, so an error has its status. A client that disconnects ends the reading. */
  async function sendNewest({ user, query }: PageRequest, reply: FastifyReply): Promise<unknown> {
    const disconnected = new AbortController();
    reply.raw.once('close', () => disconnected.abort());
    if (reply.raw.closed) disconnected.abort();
    const page = await newestEvents(log, query, {
      toJson,
      turn: () => turns.next(user),
      signal: disconnected.signal,
    });
    return reply
      .type(NDJSON)
      .headers(page?.headers ?? {})
      .send(page?.body ?? '');
  }

  type PageRequest = Pick<FastifyRequest, 'user'> & { query: OrderedEventQuery };
  type Batches = AsyncGenerator<Batch>;
  type FirstBatch = IteratorResult<Batch>;
  const toJson = (event: RecordedEvent): string => cloudEventJson(event, source);
  const toMessage = (event: RecordedEvent): string => `id: ${event.position}\ndata: ${toJson(event)}\n\n`;

  /** Newline-delimited JSON. */
  async function* lines(first: FirstBatch, batches: Batches, keepOpen: () => void): AsyncGenerator<string> {
    for (let next = first; !next.done; next = await batches.next()) {
      if (next.value.events.length === 0) keepOpen();
      else yield `${next.value.events.map(toJson).join('\n')}\n`;
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

  /** Aborts when the token is no longer valid. It is verified again as often as for a new request. */
  function tokenExpiry({ verifyToken }: FastifyRequest, signal: AbortSignal): AbortSignal {
    const expired = new AbortController();
    const watch = async (): Promise<void> => {
      while (!signal.aborted) {
        const claims = await verifyToken();
        assertScope(claims, AUDIT_SCOPE);
        const remaining = claims.verifyAgainAt - now().getTime();
        await sleep(Math.min(Math.max(remaining, 1), MAX_TIMER_MS), signal);
      }
    };
    watch().catch(() => expired.abort());
    return expired.signal;
  }
};

function isPending({ done, value }: IteratorResult<Batch>): boolean {
  return !done && value.events.length === 0 && !value.caughtUp;
}

function timeout(ms: number): { elapsed: Promise<undefined>; clear(): void } {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  return { elapsed: promise, clear: () => clearTimeout(timer) };
}

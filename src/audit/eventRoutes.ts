import { Readable } from 'node:stream';
import accepts from '@fastify/accepts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Batch, EventLog, RecordedEvent } from '../eventStore/eventStore.ts';
import { BadRequest, InsufficientScope, NUMBERS } from '../http/errors.ts';
import { answer, failures } from '../http/openapi.ts';
import { sleep } from '../sleep.ts';
import { CloudEvent, cloudEvent } from './cloudEvent.ts';
import { EventQuery, filterOf } from './eventFilter.ts';
import { replay } from './replay.ts';

/** The scope of a token that may read everybody's events. */
const SCOPE = 'audit';

const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';

/** A stream on which nothing happens gets a comment so often, in milliseconds, so that nobody on the way gives it up. */
const HEARTBEAT = 15_000;
/** A timer can wait so long, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

type Dependencies = { log: EventLog; source: string; now: () => Date };

/** The events of the whole log, for auditors. Whoever registers it sees to it that `request.identify` is there. */
export const eventRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, { log, source, now }) => {
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  await app.register(accepts);

  app.get(
    '/events',
    {
      // Before anything is looked at: whoever may not ask learns nothing.
      onRequest: async (request) => mustHaveScope(await request.identify()),
      schema: {
        operationId: 'replayEvents',
        summary: 'Replay the log; as an event stream it goes on with each new event',
        querystring: EventQuery,
        headers: Type.Object({
          'Last-Event-ID': Type.Optional(
            Type.String({
              description: 'For event streams, instead of after: where the last one broke off.',
            }),
          ),
        }),
        response: {
          200: answer(
            'The events in log order, one a line, or each as a message whose id is its position.',
            { [NDJSON]: CloudEvent, [SSE]: Type.String() },
            {
              'X-Accel-Buffering': Type.String({
                description: 'For event streams: no, so that a proxy keeps nothing back.',
              }),
            },
          ),
          ...failures({}, 400, 401, 403, 406, 408, 417, 431, 500, 503),
        },
        security: [{ bearer: [SCOPE] }],
      },
    },
    async (request, reply) => {
      const { query, headers, method, raw } = request;
      const type = request.accepts().type([NDJSON, SSE]);
      if (type === false) throw new BadRequest(NUMBERS.notAcceptable, `There is only ${NDJSON} and ${SSE}.`);
      const live = type === SSE;
      const lastId = live ? headers['last-event-id'] || undefined : undefined; // an empty one stands for none
      const after = lastId === undefined ? 'after' : 'Last-Event-ID';
      const filter = filterOf(lastId === undefined ? query : { ...query, after: String(lastId) }, (part) =>
        part === 'after' ? after : part,
      );

      const leaving = new AbortController();
      const ends = live
        ? [leaving.signal, closing.signal, expiry(request, leaving.signal)]
        : [leaving.signal];
      const batches = replay(log, filter, { signal: AbortSignal.any(ends), live, after });
      const leave = (): void => {
        leaving.abort();
        void batches.return(undefined);
      };
      reply.raw.once('close', leave);
      if (reply.raw.closed) leave(); // they left while the token was looked at
      const busy = (): void => void raw.socket.setTimeout(raw.socket.timeout ?? 0); // looking is no stalling

      // Nothing is sent before the first event, or the lack of any, is known: until then there may be a refusal.
      let first = await batches.next();
      for (; isNothingYet(first); first = await batches.next()) busy();
      reply.type(live ? SSE : NDJSON);
      if (live) reply.header('x-accel-buffering', 'no'); // nginx would keep events back
      if (method === 'HEAD') return reply.send(Readable.from([]));
      const text = live ? messages(first, batches) : lines(first, batches, busy);
      return reply.send(Readable.from(text, { highWaterMark: 1 }));
    },
  );

  type Batches = AsyncGenerator<Batch>;
  type First = IteratorResult<Batch>;
  const json = (event: RecordedEvent): string => JSON.stringify(cloudEvent(event, source));
  const message = (event: RecordedEvent): string => `id: ${event.position}\ndata: ${json(event)}\n\n`;

  /** Newline-delimited JSON. */
  async function* lines(first: First, batches: Batches, busy: () => void): AsyncGenerator<string> {
    for (let next = first; !next.done; next = await batches.next()) {
      if (next.value.events.length === 0) busy();
      else yield `${next.value.events.map(json).join('\n')}\n`;
    }
  }

  /** Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
  async function* messages(first: First, batches: Batches): AsyncGenerator<string> {
    yield ': these are events\n\n';
    let next = Promise.resolve(first);
    let quiet = quietFor(HEARTBEAT);
    try {
      for (;;) {
        const result = await Promise.race([quiet.over, next]);
        if (result?.done) return;
        const text = result ? result.value.events.map(message).join('') : ': still here\n\n';
        if (text !== '') {
          yield text;
          quiet.stop();
          quiet = quietFor(HEARTBEAT);
        }
        if (!result) continue;
        next = batches.next();
        next.catch(() => {}); // it may fail while a heartbeat is on its way; the loop throws it then
      }
    } finally {
      quiet.stop();
    }
  }

  /** Aborts when the token has expired or is worth nothing any more; it is asked as often as for a request. */
  function expiry({ identify }: FastifyRequest, signal: AbortSignal): AbortSignal {
    const over = new AbortController();
    const watch = async (): Promise<void> => {
      for (;;) {
        const identity = await identify();
        mustHaveScope(identity);
        const left = identity.until - now().getTime();
        await sleep(Math.min(Math.max(left, 1), LONGEST), signal);
        if (signal.aborted) return;
      }
    };
    watch().catch(() => over.abort());
    return over.signal;
  }
};

function mustHaveScope({ scopes }: Awaited<ReturnType<FastifyRequest['identify']>>): void {
  if (!scopes.includes(SCOPE)) throw new InsufficientScope(SCOPE);
}

function isNothingYet({ done, value }: IteratorResult<Batch>): boolean {
  return !done && value.events.length === 0 && !value.caughtUp;
}

/** Resolves after this time, in milliseconds. */
function quietFor(time: number): { over: Promise<undefined>; stop(): void } {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), time);
  return { over: promise, stop: () => clearTimeout(timer) };
}

import { Readable } from 'node:stream';
import { LogReplaced, type RecordedEvent, StoreUnavailable } from '@event-sourced/event-log';
import {
  BadFilter,
  cloudEventLine,
  EventFilter,
  formatEnd,
  formatLogPosition,
  type ReplayBatch,
  replay,
} from '@event-sourced/event-log/replay';
import { HTTP_ERRORS, HttpError } from '@event-sourced/http';
import { type NextTurn, sleep } from '@event-sourced/node/time';
import { encodeHash } from '@event-sourced/tlog';
import { hashedAttributes } from '@event-sourced/transparency-log/digest';
import { caughtUp, type LogHead } from '@event-sourced/transparency-log/view';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { inFlightLimit } from '../limits.ts';
import type { AuditOptions } from '../options.ts';
import { EVENT_STREAM, eventSchema, NDJSON } from './eventSchema.ts';
import { messages } from './eventStream.ts';
import { isDescending, newestEvents, type OrderedEventQuery } from './newestEvents.ts';
import { requireAuditScope } from './schemas.ts';
import { startingWith } from './startingWith.ts';

const TREE_TIMEOUT_MS = 2_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

/** GET /events: the events of the whole log, as CloudEvents. */
export function eventRoute(app: FastifyInstance, options: AuditOptions): void {
  const { log, source, entityType, fairQueue, now, metrics, transparency } = options;
  const { streams } = entityType;
  const limits = {
    replays: inFlightLimit('replays'),
    pages: inFlightLimit('pages of events'),
    streams: inFlightLimit('event streams'),
  };
  metrics?.measure(
    'event_streams',
    'Open event streams: live readers of /events.',
    () => limits.streams.total,
  );
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  const format = { source, hashed: hashedAttributes };
  const toJson = (event: RecordedEvent): string => cloudEventLine(event, format);
  const toLine = (event: RecordedEvent): string => `${toJson(event)}\n`;

  app.get<{ Querystring: OrderedEventQuery }>(
    '/events',
    { onRequest: requireAuditScope, schema: eventSchema(options, limits) },
    async (request, reply) => {
      const { user, query, headers, method, raw } = request;
      const descending = isDescending(query);
      const live = preferredMediaType(request, descending) === EVENT_STREAM;
      if (live && query.end !== undefined)
        throw new BadFilter('end', 'cannot be combined with an event stream');
      const limit = descending ? limits.pages : live ? limits.streams : limits.replays;
      if (!limit.add(user, reply.raw)) return reply.send();
      const disconnected = new AbortController();
      reply.raw.once('close', () => disconnected.abort());
      const { signal } = disconnected;
      const nextTurn: NextTurn = (share) => fairQueue.next(user, share);
      if (descending) {
        // The page is read before the response, so an error can set the status.
        const page = await newestEvents(log, { query, streams, toLine, nextTurn, signal });
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
      const tree = live ? undefined : await currentHead();
      const ends = live ? [signal, closing.signal, accessWithdrawn(request, signal)] : [signal];
      const read = replay(log, filter, {
        signal: AbortSignal.any(ends),
        live,
        end: tree?.position,
        nextTurn,
      });
      signal.addEventListener('abort', () => void read.return(undefined));
      // A long search must not count as a stalled connection.
      const keepOpen = (): void => void raw.socket.setTimeout(raw.socket.timeout ?? 0);

      // The response starts with the first event, or the end of the log.
      let first = await read.next();
      for (; isPending(first); first = await read.next()) keepOpen();
      const batches = startingWith(first, read);
      reply.type(live ? EVENT_STREAM : NDJSON);
      if (live) reply.header('x-accel-buffering', 'no');
      if (tree)
        reply
          .header('log-position', formatLogPosition(tree.logId, tree.position))
          .header('checkpoint', `${tree.size} ${encodeHash(tree.root)}`);
      if (method === 'HEAD') return reply.send(Readable.from([]));
      const body = live ? messages(batches, toJson) : lines(batches, keepOpen, query.end !== undefined);
      return reply.send(Readable.from(body, { highWaterMark: live ? 0 : 1 }));
    },
  );

  /** The tree over every event that the log has now; undefined without one, while it is behind or contradicts a checkpoint. */
  async function currentHead(): Promise<LogHead | undefined> {
    if (!transparency || transparency.tree.notReady !== undefined) return undefined;
    const { tree, checkpoints } = transparency;
    try {
      await caughtUp(tree, log, TREE_TIMEOUT_MS);
      await checkpoints.assertTreeExtends();
      return tree.readable.head;
    } catch (error) {
      if (error instanceof StoreUnavailable || error instanceof LogReplaced) throw error;
      return undefined;
    }
  }

  async function* lines(
    batches: AsyncGenerator<ReplayBatch>,
    keepOpen: () => void,
    withEnd: boolean,
  ): AsyncGenerator<string> {
    for await (const { events, end } of batches) {
      if (events.length === 0) keepOpen();
      else yield events.map(toLine).join('');
      if (withEnd && end !== undefined) yield formatEnd(end);
    }
  }

  /** Aborts when the user may no longer read the log. Access is checked as often as for new requests. */
  function accessWithdrawn(request: FastifyRequest, signal: AbortSignal): AbortSignal {
    const withdrawn = new AbortController();
    const watch = async (): Promise<void> => {
      while (!signal.aborted) {
        const { verifyAgainAt } = await requireAuditScope(request);
        const remaining = verifyAgainAt - now().getTime();
        await sleep(Math.min(Math.max(remaining, 1), MAX_TIMER_MS), signal);
      }
    };
    watch().catch(() => withdrawn.abort());
    return withdrawn.signal;
  }
}

/** The media type that the client prefers. @throws HttpError */
function preferredMediaType({ headers: { accept } }: FastifyRequest, descending: boolean): string {
  const types = descending ? [NDJSON] : [NDJSON, EVENT_STREAM];
  const type = new Negotiator({ headers: { accept: accept || '*/*' } }).mediaType(types);
  if (type !== undefined) return type;
  throw new HttpError(
    HTTP_ERRORS.notAcceptable,
    descending
      ? `With order=descending, the media type is ${NDJSON}.`
      : `The media types are ${NDJSON} and ${EVENT_STREAM}.`,
  );
}

function isPending({ done, value }: IteratorResult<ReplayBatch>): boolean {
  return !done && value.events.length === 0 && !value.caughtUp;
}

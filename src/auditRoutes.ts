import type { EventLog } from '@event-sourced/event-log';
import { eventRoutes } from '@event-sourced/event-log/replay';
import type { FairQueue } from '@event-sourced/event-log/time';
import { encodeHash } from '@event-sourced/transparency-log';
import { hashedAttributes } from '@event-sourced/transparency-log/entries';
import type { Checkpoints } from '@event-sourced/transparency-log/routes';
import type { FastifyPluginAsync } from 'fastify';
import Negotiator from 'negotiator';
import { AUDIT_SCOPE, requireAuditScope } from './auth.ts';
import { API_ERRORS } from './errors.ts';
import { EVENT_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, tooManyInFlight } from './openapi.ts';
import { PLANT_STREAMS } from './plants/plantStreams.ts';

type Dependencies = {
  log: EventLog;
  checkpoints: Checkpoints | undefined;
  source: string;
  now: () => Date;
  eventStreams: InFlight;
  fairQueue: FairQueue;
};

/** GET /events, for auditors. */
export const auditRoutes: FastifyPluginAsync<Dependencies> = async (
  app,
  { log, checkpoints, source, now, eventStreams, fairQueue },
) => {
  await app.register(eventRoutes, {
    log,
    streams: PLANT_STREAMS,
    format: { source, hashed: hashedAttributes },
    async currentTree() {
      const head = await checkpoints?.currentHead();
      return head && { ...head, root: encodeHash(head.root) };
    },
    inFlight: { replays: new InFlight('replays'), pages: new InFlight('pages of events'), eventStreams },
    fairQueue,
    userOf: ({ user }) => user,
    mediaTypeOf: ({ headers: { accept } }, types) =>
      new Negotiator({ headers: { accept: accept || '*/*' } }).mediaType(types),
    async checkAccess(request) {
      const { verifyAgainAt } = await requireAuditScope(request);
      return verifyAgainAt - now().getTime();
    },
    documentation: {
      schema: {
        operationId: 'replayEvents',
        tags: ['audit'],
        summary: 'Replay the log; an event stream continues with each new event',
        description:
          'NDJSON, the default, ends with the log, or after limit events. An event stream (Accept: text/event-stream) ends after limit events; while the log has fewer, and without limit, when the client disconnects or its token expires. /docs shows an event stream only after its end: to try one there, set limit to no more than the events that match.',
        security: [{ bearer: [AUDIT_SCOPE] }],
      },
      example: EVENT_EXAMPLE,
      errors: errorsOf([
        {
          ...API_ERRORS.invalidQuery,
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
      ]),
    },
  });
};

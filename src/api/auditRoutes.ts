import accepts from '@fastify/accepts';
import type { FastifyPluginAsync } from 'fastify';
import { hashedAttributes } from '../audit/cloudEventLeaf.ts';
import { PLANT_STREAMS } from '../audit/plantStreams.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { response } from '../http/openapi.ts';
import type { Turns } from '../time/turns.ts';
import { encodeHash } from '../transparency/encoding.ts';
import { AUDIT_SCOPE, assertScope } from './auth.ts';
import type { Checkpoints } from './checkpoints.ts';
import { eventRoutes } from './eventRoutes.ts';
import { EVENT_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, invalidQuery, tooManyInFlight } from './openapi.ts';

type Dependencies = {
  log: EventLog;
  checkpoints: Checkpoints | undefined;
  /** The URI of this store, `source` of its CloudEvents. */
  source: string;
  now: () => Date;
  eventStreams: InFlight;
  turns: Turns;
};

/** GET /events, for auditors. */
export const auditRoutes: FastifyPluginAsync<Dependencies> = async (
  app,
  { log, checkpoints, source, now, eventStreams, turns },
) => {
  await app.register(accepts);
  await app.register(eventRoutes, {
    log,
    streams: PLANT_STREAMS,
    format: { source, hashed: hashedAttributes },
    async currentTree() {
      const head = await checkpoints?.currentHead();
      return head && { ...head, root: encodeHash(head.root) };
    },
    inFlight: { replays: new InFlight('replays'), pages: new InFlight('pages of events'), eventStreams },
    turns,
    userOf: ({ user }) => user,
    mediaTypeOf: (request, types) => request.accepts().type(types) as string | false,
    async checkAccess({ verifyToken }) {
      const claims = await verifyToken();
      assertScope(claims, AUDIT_SCOPE);
      return claims.verifyAgainAt - now().getTime();
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
      response,
      errors: errorsOf([403, 406], {
        ...invalidQuery(
          'The query is invalid, since is later than until, or the log has no event of the user (40004); or after, before or Last-Event-ID is not the position of an event (40005).',
          'since must not be later than until.',
        ),
        ...tooManyInFlight('replays', 'pages of events', 'event streams'),
      }),
    },
  });
};

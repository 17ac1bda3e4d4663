import { CloudEvent } from '@event-sourced/event-log/replay';
import { type InFlight, tooManyInFlight } from '@event-sourced/http';
import type { FastifySchema } from 'fastify';
import { Type } from 'typebox';
import type { AuditOptions } from '../options.ts';
import { orderedEventQuery } from './newestEvents.ts';
import { described, FOR_AUDITORS } from './schemas.ts';

export const NDJSON = 'application/x-ndjson';
export const EVENT_STREAM = 'text/event-stream';

/**
 * Bytes, since OpenAPI 3.1 cannot describe a sequence of values; 3.2 can, but few tools support it. Text would be JSON to
 * NSwag.
 */
const Lines = Type.String({
  format: 'binary',
  contentMediaType: NDJSON,
  contentSchema: CloudEvent,
  description: 'Each line is a CloudEvent; with end=true, the last one is {"end":"POSITION"}.',
});
const Messages = described('The data of each message is a CloudEvent.');

type Limits = Record<'replays' | 'pages' | 'streams', InFlight>;

/** The query of GET /events, and its description in the OpenAPI document. */
export function eventSchema(
  { entityType, examples, errors }: AuditOptions,
  { replays, pages, streams }: Limits,
): FastifySchema {
  const data = JSON.stringify(examples.event);
  const [, size, root] = examples.checkpoint.split('\n');
  return {
    operationId: 'replayEvents',
    ...FOR_AUDITORS,
    summary: 'Replay the log; an event stream continues with each new event',
    description:
      'NDJSON, the default, ends with the log, or after limit events. An event stream (Accept: text/event-stream) ends after limit events; while the log has fewer, and without limit, when the client disconnects or its token expires. since and until are compared with the time of every event, from the start of the log: in a large log, start with after, or with order=descending.',
    querystring: orderedEventQuery(entityType.streams),
    headers: Type.Object({
      'Last-Event-ID': Type.Optional(
        described('For event streams, instead of after: the last event received.'),
      ),
    }),
    response: {
      200: {
        description:
          'The events, one per line, or each as a message whose id is its position: in log order, or newest first with order=descending.',
        headers: {
          'Log-Position': described(
            'For NDJSON: the position of the last event of the log when it was read.',
            's3f9a2c1b7d4e.1',
          ),
          Checkpoint: described(
            'For NDJSON: the size of the log when it was read, a space, and the root of its Merkle tree in Base64. Absent while the tree is behind or contradicts a signed checkpoint, and with order=descending.',
            `${size} ${root}`,
          ),
          Link: described(
            'With order=descending, if there are more events: the next page, rel="next" (RFC 8288), relative to this URL. A page may have fewer events than limit, or none, also if there are more.',
            '<events?order=descending&limit=100&before=101>; rel="next"',
          ),
          'X-Accel-Buffering': described('For event streams: no, so that proxies do not buffer them.', 'no'),
        },
        content: {
          [NDJSON]: { schema: Lines, example: `${data}\n` },
          [EVENT_STREAM]: {
            schema: Messages,
            example: `id: ${examples.event.position}\ndata: ${data}\n\n`,
          },
        },
      },
    },
    errors: [
      {
        ...errors.invalidQuery,
        description: 'since is later than until, or the log has no event of the user',
        message: 'since must not be later than until.',
        exampleDetails: [{ field: 'since', message: 'must not be later than until' }],
      },
      {
        ...errors.badPosition,
        description: 'after, before or Last-Event-ID is not the position of an event',
      },
      errors.insufficientScope,
      errors.notAcceptable,
      errors.http11Required,
      tooManyInFlight(replays, pages, streams),
    ],
  };
}

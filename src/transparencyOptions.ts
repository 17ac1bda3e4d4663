import type { EventLog } from '@event-sourced/event-log';
import { textSchema } from '@event-sourced/event-log/replay';
import type { Turns } from '@event-sourced/event-log/time';
import { type Headers, response } from '@event-sourced/http';
import { IMMUTABLE, type TransparencyOptions } from '@event-sourced/transparency-log/routes';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { AUDIT_SCOPE, requireAuditScope } from './auth.ts';
import { API_ERRORS } from './errors.ts';
import { CHECKPOINT_EXAMPLE, RECEIPT_EXAMPLE, VERIFIER_KEY_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, tooManyInFlight } from './openapi.ts';
import { INT64_RULE, isInt64Text, plantStream } from './plants/stream.ts';
import { UnknownPlant } from './plants/unknownPlant.ts';
import { isUser, USER_RULE } from './plants/user.ts';

// What the routes of the transparency log get of this API: access, limits, descriptions, and which event is a plant's.

const security = [{ bearer: [AUDIT_SCOPE] }];

const text = (description: string, example: string, headers: Headers = {}) =>
  response(description, { 'text/plain': { schema: Type.String(), example } }, headers);

const bytes = (kind: 'tiles' | 'bundles of entries', description: string, headers: Headers = {}) => ({
  200: response(
    description,
    { 'application/octet-stream': { schema: Type.String({ format: 'binary' }) } },
    { 'Cache-Control': Type.String({ description: `Always ${IMMUTABLE}.` }), ...headers },
  ),
  ...errorsOf(['insufficientScope', 'noSuchTile', tooManyInFlight(kind)]),
});

const PlantQuery = Type.Object({
  id: textSchema(isInt64Text, INT64_RULE, { description: 'The ID of the plant.', examples: ['1'] }),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Whose plant it is, for tokens with the scope audit; without it, your own.',
    }),
  ),
});

const schemas = {
  logKey: {
    operationId: 'getLogKey',
    tags: ['audit'],
    summary: 'The public key of the log, by which checkpoints and receipts are verified',
    response: { 200: text('A verifier key (C2SP signed-note).', VERIFIER_KEY_EXAMPLE), ...errorsOf([]) },
  },
  checkpoint: {
    operationId: 'getCheckpoint',
    tags: ['audit'],
    summary: 'Size and root of the log, signed',
    response: {
      200: text('A checkpoint (C2SP tlog-checkpoint).', CHECKPOINT_EXAMPLE),
      ...errorsOf(['insufficientScope', 'logContradictsCheckpoint', 'checkpointFileUnusable']),
    },
    security,
  },
  tile: {
    operationId: 'getTile',
    tags: ['audit'],
    summary: 'A tile of the Merkle tree',
    response: bytes('tiles', 'Up to 256 hashes of 32 bytes.'),
    security,
  },
  entries: {
    operationId: 'getEntries',
    tags: ['audit'],
    summary: 'The entries of a tile of level 0: the bytes that are hashed',
    response: bytes('bundles of entries', 'Up to 256 entries, each after its length in two bytes.', {
      'Content-Encoding': Type.String({ description: 'gzip, if the client accepts it.' }),
      Vary: Type.String({ description: 'Accept-Encoding.' }),
    }),
    security,
  },
  receipt: {
    operationId: 'provePlant',
    tags: ['plants'],
    summary: 'A receipt: the proof that the log has a plant',
    querystring: PlantQuery,
    response: {
      200: text('An inclusion proof (C2SP tlog-proof), with the entry as extra data.', RECEIPT_EXAMPLE, {
        'Content-Disposition': Type.String({ description: 'A file name.' }),
      }),
      ...errorsOf([
        { ...API_ERRORS.invalidQuery, message: `id must be ${INT64_RULE}.` },
        'insufficientScope',
        'unknownPlant',
        tooManyInFlight('receipts'),
        'eventLost',
        'logContradictsCheckpoint',
        'checkpointFileUnusable',
      ]),
    },
  },
};

/** What the routes of the transparency log get of this API. */
export function transparencyOptions(
  log: EventLog,
  turns: Turns,
): Pick<TransparencyOptions, 'requireAuditor' | 'userOf' | 'turn' | 'limits' | 'schemas' | 'receipts'> {
  const queryOf = ({ query }: FastifyRequest) => query as { id: string; user?: string };
  return {
    requireAuditor: requireAuditScope,
    userOf: ({ user }) => user,
    turn: (user) => turns.next(user),
    limits: {
      tiles: new InFlight('tiles'),
      entries: new InFlight('bundles of entries'),
      receipts: new InFlight('receipts'),
    },
    schemas,
    receipts: {
      path: '/proofs/plants',
      onRequest: async (request) => {
        if ('user' in queryOf(request)) await requireAuditScope(request);
      },
      find: async (request) => {
        const { id, user = request.user } = queryOf(request);
        const [event] = await log.readStream(plantStream(user, id), 1);
        if (event?.revision !== 0n) throw new UnknownPlant(`${JSON.stringify(user)} has no plant ${id}`);
        return event;
      },
      fileName: (request) => `plant-${queryOf(request).id}.tlog-proof`,
    },
  };
}

import type { EventLog } from '@event-sourced/event-log';
import { textSchema } from '@event-sourced/event-log/replay';
import type { FairQueue } from '@event-sourced/event-log/time';
import { type TransparencyOptions, transparencySchemas } from '@event-sourced/transparency-log/routes';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { AUDIT_SCOPE, requireAuditScope } from './auth.ts';
import { API_ERRORS } from './errors.ts';
import { CHECKPOINT_EXAMPLE, RECEIPT_EXAMPLE, VERIFIER_KEY_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, tooManyInFlight } from './openapi.ts';
import { UnknownPlant } from './plants/createPlant.ts';
import { INT64_RULE, isInt64Text, plantStream } from './plants/stream.ts';
import { isUser, USER_RULE } from './plants/user.ts';

// What the routes of the transparency log get of this API: access, limits, descriptions, and which event is a plant's.

const PlantQuery = Type.Object({
  id: textSchema(isInt64Text, INT64_RULE, { description: 'The ID of the plant.', examples: ['1'] }),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Whose plant it is, for tokens with the scope audit; without it, your own.',
    }),
  ),
});

const NOT_SIGNED = ['logContradictsCheckpoint', 'checkpointFileUnusable'] as const;

const schemas = transparencySchemas({
  errors: {
    logKey: errorsOf([]),
    checkpoint: errorsOf(['invalidQuery', 'insufficientScope', ...NOT_SIGNED, 'notYetCosigned']),
    tile: errorsOf(['insufficientScope', 'noSuchTile', tooManyInFlight('tiles')]),
    entries: errorsOf(['insufficientScope', 'noSuchTile', tooManyInFlight('bundles of entries')]),
    receipt: errorsOf([
      { ...API_ERRORS.invalidQuery, message: `id must be ${INT64_RULE}.` },
      'insufficientScope',
      'unknownPlant',
      tooManyInFlight('receipts'),
      'eventLost',
      ...NOT_SIGNED,
    ]),
  },
  examples: { logKey: VERIFIER_KEY_EXAMPLE, checkpoint: CHECKPOINT_EXAMPLE, receipt: RECEIPT_EXAMPLE },
  security: [{ bearer: [AUDIT_SCOPE] }],
  receipt: {
    operationId: 'provePlant',
    tags: ['plants'],
    summary: 'A receipt: the proof that the log has a plant',
    description:
      'It holds for ever, and is checked without this service, by `npx plant-store check-proof`, the page `/audit`, or other tools.',
    querystring: PlantQuery,
  },
});

export function transparencyOptions(
  log: EventLog,
  fairQueue: FairQueue,
): Pick<TransparencyOptions, 'requireAuditor' | 'userOf' | 'turn' | 'limits' | 'schemas' | 'receipts'> {
  const queryOf = ({ query }: FastifyRequest) => query as { id: string; user?: string };
  return {
    requireAuditor: requireAuditScope,
    userOf: ({ user }) => user,
    turn: (user) => fairQueue.next(user),
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

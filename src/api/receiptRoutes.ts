import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { textSchema } from '../audit/querySchemas.ts';
import type { TreeAndLog } from '../audit/readEntries.ts';
import { receiptOf } from '../audit/receipt.ts';
import { response } from '../http/openapi.ts';
import { INT64_RULE, isInt64Text } from '../plants/stream.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import type { Turns } from '../time/turns.ts';
import { formatInclusionProof } from '../transparency/inclusionProof.ts';
import { requireAuditScope } from './auth.ts';
import type { Checkpoints } from './checkpoints.ts';
import { API_ERRORS } from './errorTable.ts';
import { RECEIPT_EXAMPLE } from './examples.ts';
import { InFlight } from './inFlight.ts';
import { errorsOf, eventLost, invalidQuery, tooManyInFlight } from './openapi.ts';

const PlantQuery = Type.Object({
  id: textSchema(isInt64Text, INT64_RULE, { description: 'The ID of the plant.', examples: ['1'] }),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Whose plant it is, for tokens with the scope audit; without it, your own.',
    }),
  ),
});

const ERRORS = errorsOf([403], {
  ...invalidQuery('The query is invalid (40004).', `id must be ${INT64_RULE}.`),
  404: {
    description: 'The user has no plant with this ID (40402).',
    example: { error: API_ERRORS.unknownPlant, message: 'There is no plant with this ID.' },
  },
  ...tooManyInFlight('receipts'),
  ...eventLost,
});

type Dependencies = TreeAndLog & { checkpoints: Checkpoints; turns: Turns };

/** Receipts: the evidence that the log has a plant, which its owner can keep (https://c2sp.org/tlog-proof). */
export const receiptRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const receiptsInFlight = new InFlight('receipts');

  app.get(
    '/proofs/plants',
    {
      onRequest: async (request) => {
        if ('user' in (request.query as object)) await requireAuditScope(request);
      },
      schema: {
        operationId: 'provePlant',
        tags: ['plants'],
        summary: 'A receipt: the proof that the log has a plant',
        querystring: PlantQuery,
        response: {
          200: response(
            'An inclusion proof (C2SP tlog-proof), with the entry as extra data.',
            { 'text/plain': { schema: Type.String(), example: RECEIPT_EXAMPLE } },
            { 'Content-Disposition': Type.String({ description: 'A file name.' }) },
          ),
          ...ERRORS,
        },
      },
    },
    async ({ user, query }, reply) => {
      if (!receiptsInFlight.add(user, reply.raw)) return reply.send();
      await deps.turns.next(user);
      const { entry, index, path, head } = await receiptOf({ user, ...query }, deps);
      const proof = { extra: entry, index, path, checkpoint: await deps.checkpoints.of(head) };
      return reply
        .type('text/plain; charset=utf-8')
        .header('content-disposition', `attachment; filename="plant-${query.id}.tlog-proof"`)
        .send(formatInclusionProof(proof));
    },
  );
};

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { TreeAndLog } from '../audit/entryBundle.ts';
import { receiptOf } from '../audit/receipt.ts';
import { response } from '../http/openapi.ts';
import { textSchema } from '../http/textSchema.ts';
import { INT64_RULE, isInt64Text } from '../plants/stream.ts';
import { isUser, USER_RULE } from '../plants/user.ts';
import { formatInclusionProof } from '../transparency/inclusionProof.ts';
import { requireAuditScope } from './auth.ts';
import type { Checkpoints } from './checkpoints.ts';
import { errorsOf, NO_AUDIT_SCOPE } from './openapi.ts';

const PlantQuery = Type.Object({
  id: textSchema(isInt64Text, INT64_RULE, { description: 'The ID of the plant.' }),
  user: Type.Optional(
    textSchema(isUser, USER_RULE, {
      description: 'Whose plant it is, for tokens with the scope audit; without it, your own.',
    }),
  ),
});

const ERRORS = errorsOf({
  400: 'The query is invalid (40004).',
  403: NO_AUDIT_SCOPE,
  404: 'The user has no plant with this ID (40402).',
});

type Dependencies = TreeAndLog & { checkpoints: Checkpoints };

/** Receipts: the evidence that the log has a plant, which its owner can keep (https://c2sp.org/tlog-proof). */
export const receiptRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
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
            { 'text/plain': Type.String() },
            { 'Content-Disposition': Type.String({ description: 'A file name.' }) },
          ),
          ...ERRORS,
        },
      },
    },
    async ({ user, query }, reply) => {
      const { entry, index, path, head } = await receiptOf({ user, ...query }, deps);
      const proof = { extra: entry, index, path, checkpoint: deps.checkpoints.of(head) };
      return reply
        .type('text/plain; charset=utf-8')
        .header('content-disposition', `attachment; filename="plant-${query.id}.tlog-proof"`)
        .send(formatInclusionProof(proof));
    },
  );
};

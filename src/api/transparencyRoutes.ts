import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { LogTree } from '../../projections/merkleTree/logTree.ts';
import type { EventLog } from '../eventStore/eventStore.ts';
import { response } from '../http/openapi.ts';
import type { Turns } from '../time/turns.ts';
import { formatVerifierKey, type VerifierKey } from '../transparency/signedNote.ts';
import { AUDIT_SCOPE, requireAuditScope } from './auth.ts';
import type { Checkpoints } from './checkpoints.ts';
import { CHECKPOINT_EXAMPLE, VERIFIER_KEY_EXAMPLE } from './examples.ts';
import { errorsOf } from './openapi.ts';
import { receiptRoutes } from './receiptRoutes.ts';
import { tileRoutes } from './tileRoutes.ts';

const TEXT = 'text/plain; charset=utf-8';

type Dependencies = {
  tree: LogTree;
  log: EventLog;
  checkpoints: Checkpoints;
  logKey: VerifierKey;
  turns: Turns;
};

/** The log as a transparency log: https://c2sp.org/tlog-tiles */
export const transparencyRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { tree, log, checkpoints, turns } = deps;
  const verifierKey = `${formatVerifierKey(deps.logKey)}\n`;

  app.get(
    '/log-key',
    {
      schema: {
        operationId: 'getLogKey',
        tags: ['audit'],
        summary: 'The public key of the log, by which checkpoints and receipts are verified',
        response: {
          200: response('A verifier key (C2SP signed-note).', {
            'text/plain': { schema: Type.String(), example: VERIFIER_KEY_EXAMPLE },
          }),
          ...errorsOf([]),
        },
      },
    },
    async (_request, reply) => reply.type(TEXT).send(verifierKey),
  );

  app.get(
    '/checkpoint',
    {
      onRequest: requireAuditScope,
      schema: {
        operationId: 'getCheckpoint',
        tags: ['audit'],
        summary: 'Size and root of the log, signed',
        response: {
          200: response('A checkpoint (C2SP tlog-checkpoint).', {
            'text/plain': { schema: Type.String(), example: CHECKPOINT_EXAMPLE },
          }),
          ...errorsOf(['insufficientScope', 'logContradictsCheckpoint', 'checkpointFileUnusable']),
        },
        security: [{ bearer: [AUDIT_SCOPE] }],
      },
    },
    async (_request, reply) => reply.type(TEXT).send(await checkpoints.latest()),
  );

  await app.register(tileRoutes, { tree, log, treeEnd: checkpoints.treeEnd, turns });
  await app.register(receiptRoutes, { tree, log, checkpoints, turns });
};

import { formatVerifierKey, type VerifierKey } from '@event-sourced/transparency-log';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { TreeOptions } from '../audit.ts';
import { FOR_AUDITORS, requireAuditScope, TEXT, text } from './schemas.ts';

/** GET /log-key and GET /checkpoint: https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint. */
export function checkpointRoutes(
  app: FastifyInstance,
  { checkpoints, examples, errors }: TreeOptions,
  key: VerifierKey,
): void {
  const verifierKey = `${formatVerifierKey(key)}\n`;

  app.get(
    '/log-key',
    {
      schema: {
        operationId: 'getLogKey',
        tags: ['audit'],
        summary: 'The public key of the log',
        description:
          'It verifies checkpoints and receipts. Auditors should get it from a person they trust, and compare.',
        response: { 200: text('A verifier key (C2SP signed-note).', examples.logKey) },
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
        ...FOR_AUDITORS,
        summary: 'Size and root of the log, signed',
        description:
          'With witnesses, the newest checkpoint that a quorum has cosigned; with `latest`, the newest checkpoint of the log.',
        querystring: Type.Object({ latest: Type.Optional(Type.Enum(['', 'true'])) }),
        response: { 200: text('A checkpoint (C2SP tlog-checkpoint).', examples.checkpoint) },
        errors: [
          errors.insufficientScope,
          errors.viewBehind,
          errors.logContradictsCheckpoint,
          errors.checkpointFileUnusable,
          errors.notYetCosigned,
        ],
      },
    },
    async ({ query }, reply) =>
      reply
        .type(TEXT)
        .send(await ('latest' in (query as object) ? checkpoints.latest() : checkpoints.cosigned())),
  );
}

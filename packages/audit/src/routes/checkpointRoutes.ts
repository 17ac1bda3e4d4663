import { formatVerifierKey } from '@event-sourced/tlog';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { TreeOptions } from '../options.ts';
import { FOR_MONITORS, MONITOR_SCOPE, requireMonitorScope, TEXT, text } from './schemas.ts';

/** GET /log-key and GET /checkpoint: https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint. */
export function checkpointRoutes(
  app: FastifyInstance,
  { checkpoints, verifierKey, examples, errors }: TreeOptions,
): void {
  const logKey = `${formatVerifierKey(verifierKey)}\n`;

  app.get(
    '/log-key',
    {
      config: { scopes: [MONITOR_SCOPE] },
      schema: {
        operationId: 'getLogKey',
        tags: ['audit'],
        summary: 'The public key of the log',
        description:
          'It verifies checkpoints and receipts. Auditors should get it from a person they trust, and compare.',
        response: { 200: text('A verifier key (C2SP signed-note).', examples.logKey) },
      },
    },
    async (_request, reply) => reply.type(TEXT).send(logKey),
  );

  app.get(
    '/checkpoint',
    {
      onRequest: requireMonitorScope,
      config: { scopes: [MONITOR_SCOPE] },
      schema: {
        operationId: 'getCheckpoint',
        ...FOR_MONITORS,
        summary: 'Size and root of the log, signed',
        description:
          'Published once a second, if the log has grown. With witnesses, the newest checkpoint that a quorum has cosigned; with `latest`, the newest checkpoint of the log.',
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
      reply.type(TEXT).send(('latest' in (query as object) ? checkpoints.latest : checkpoints.cosigned).note),
  );
}

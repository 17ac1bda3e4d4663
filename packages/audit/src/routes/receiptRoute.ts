import { textSchema } from '@event-sourced/event-log/replay';
import { HttpError, tooManyInFlight } from '@event-sourced/http';
import { formatInclusionProof } from '@event-sourced/transparency-log';
import { cloudEventLeaf, issueReceipt } from '@event-sourced/transparency-log/entries';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { TreeOptions } from '../audit.ts';
import { inFlightLimit } from '../limits.ts';
import { described, requireAuditScope, TEXT, text } from './schemas.ts';

type Query = { id: string; user?: string };

/** GET /proofs/…s: the receipt for the first event of an entity's stream, a https://c2sp.org/tlog-proof. */
export function receiptRoute(app: FastifyInstance, options: TreeOptions): void {
  const { log, fairQueue, entityType, examples, errors } = options;
  const { streams } = entityType;
  const { noun } = streams;
  const receipts = inFlightLimit('receipts');
  const example = formatInclusionProof({
    extra: Buffer.from(cloudEventLeaf(examples.event)),
    index: 0,
    path: [],
    checkpoint: examples.checkpoint,
  });

  app.get<{ Querystring: Query }>(
    `/proofs/${noun}s`,
    {
      onRequest: async (request) => {
        if ('user' in request.query) await requireAuditScope(request);
      },
      schema: {
        operationId: `prove${noun.replace(/^./, (first) => first.toUpperCase())}`,
        tags: [`${noun}s`],
        summary: `A receipt: the proof that the log has a ${noun}`,
        description:
          'A receipt stays valid forever. It is verified without this service, by `transparency-log check-proof`, the page `/audit`, or other tools.',
        querystring: Type.Object({
          id: textSchema(streams.id, { description: `The ID of the ${noun}.`, examples: ['1'] }),
          user: Type.Optional(
            textSchema(streams.user, {
              description: `The owner of the ${noun}, for tokens with the scope audit; by default you.`,
            }),
          ),
        }),
        response: {
          200: text('An inclusion proof (C2SP tlog-proof), with the entry as extra data.', example, {
            'Content-Disposition': described('A file name.', 'attachment; filename="receipt.tlog-proof"'),
          }),
        },
        errors: [
          errors.insufficientScope,
          errors.unknownEntity,
          tooManyInFlight(receipts),
          errors.eventLost,
          errors.viewBehind,
          errors.logContradictsCheckpoint,
          errors.checkpointFileUnusable,
        ],
      },
    },
    async ({ user: caller, query: { id, user = caller } }, reply) => {
      if (!receipts.add(caller, reply.raw)) return reply.send();
      await fairQueue.next(caller);
      const [event] = await log.readStream(streams.prefix(user, id), 1);
      if (event?.revision !== 0n) throw new HttpError(errors.unknownEntity);
      return reply
        .type(TEXT)
        .header('content-disposition', `attachment; filename="${noun}-${id}.tlog-proof"`)
        .send(await issueReceipt(event, options));
    },
  );
}

import type { RecordedEvent } from '@event-sourced/event-log';
import { textSchema } from '@event-sourced/event-log/replay';
import { REACHED_TIMEOUT_MS } from '@event-sourced/event-log/views';
import { HttpError, requireScope, tooManyInFlight } from '@event-sourced/http';
import { formatInclusionProof } from '@event-sourced/tlog';
import { cloudEventText } from '@event-sourced/transparency-log/digest';
import { issueReceipt, recordAt } from '@event-sourced/transparency-log/entries';
import { caughtUp } from '@event-sourced/transparency-log/view';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { inFlightLimit } from '../limits.ts';
import type { TreeOptions } from '../options.ts';
import { AUDIT_SCOPE, described, requireAuditScope, TEXT, text } from './schemas.ts';

type Query = { id: string; user?: string };

/** The index of an entry, from 0. */
const INDEX = {
  isValid: (text: string) => /^(0|[1-9]\d{0,14})$/.test(text),
  rule: 'an index of the tree: decimal digits, from 0',
};

/** The service serves the receipts of records to those who erase, too. */
const requireEraseOrAuditScope = requireScope('erase', AUDIT_SCOPE);

/** GET /proofs/…: receipts for the first event of an entity's stream, and for records of erased events (c2sp.org/tlog-proof). */
export function receiptRoutes(app: FastifyInstance, options: TreeOptions): void {
  const { log, tree, checkpoints, fairQueue, entityType, examples, errors } = options;
  const { streams } = entityType;
  const { noun } = streams;
  const receipts = inFlightLimit('receipts');
  const example = formatInclusionProof({
    extra: Buffer.from(cloudEventText(examples.event)),
    index: 0,
    path: [],
    checkpoint: examples.checkpoint,
  });

  async function receiptOf(event: RecordedEvent): Promise<string> {
    await tree.reached(event.position, await log.logId(), REACHED_TIMEOUT_MS);
    return issueReceipt(event, tree.readable, (index) => checkpoints.covering(index));
  }
  const response = text(
    'An inclusion proof (C2SP tlog-proof), with the text of the event as extra data.',
    example,
    {
      'Content-Disposition': described('A file name.', 'attachment; filename="receipt.tlog-proof"'),
    },
  );
  const commonErrors = [
    errors.insufficientScope,
    tooManyInFlight(receipts),
    errors.eventLost,
    errors.viewBehind,
    errors.logContradictsCheckpoint,
    errors.checkpointFileUnusable,
  ];

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
          'A receipt stays valid for ever, also when the event is erased. It is there when a checkpoint has the event, within about a second. It is verified without this service, by `transparency-log check-proof`, the page `/audit`, or other tools.',
        querystring: Type.Object({
          id: textSchema(streams.id, { description: `The ID of the ${noun}.`, examples: ['1'] }),
          user: Type.Optional(
            textSchema(streams.user, {
              description: `The owner of the ${noun}, for tokens with the scope audit; by default you.`,
            }),
          ),
        }),
        response: { 200: response },
        errors: [errors.unknownEntity, ...commonErrors],
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
        .send(await receiptOf(event));
    },
  );

  app.get<{ Querystring: { index: string } }>(
    '/proofs/erasures',
    {
      onRequest: requireEraseOrAuditScope,
      schema: {
        operationId: 'proveErasure',
        tags: ['erasures'],
        security: [{ bearer: ['erase'] }, { bearer: [AUDIT_SCOPE] }],
        summary: 'A receipt of a record of erased events',
        description:
          'The proof that the log has the record, with the indices of the events that it names as erased. It is there when a checkpoint has the record, within about a second.',
        querystring: Type.Object({
          index: textSchema(INDEX, {
            description: 'The index of the record in the tree, from 0: one of `records` of `POST /erasures`.',
            examples: ['81'],
          }),
        }),
        response: { 200: response },
        errors: [errors.unknownRecord, ...commonErrors],
      },
    },
    async ({ user, query: { index } }, reply) => {
      if (!receipts.add(user, reply.raw)) return reply.send();
      await fairQueue.next(user);
      await caughtUp(tree, log);
      const record = await recordAt(Number(index), tree.readable, log);
      if (!record) throw new HttpError(errors.unknownRecord);
      return reply
        .type(TEXT)
        .header('content-disposition', `attachment; filename="record-${index}.tlog-proof"`)
        .send(await receiptOf(record));
    },
  );
}

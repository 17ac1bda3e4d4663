import { requireScope } from '@event-sourced/http';
import type { Metrics } from '@event-sourced/http/metrics';
import { type FairQueue, unlessLater } from '@event-sourced/node/time';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Erasures } from './erasures.ts';
import { API_ERRORS } from './errors.ts';
import { isUser, USER_RULE } from './plants/user.ts';
import { ERASE_SCOPE } from './tokens.ts';

/** How long a response waits for the scrub, which readers of old pages such as `verify` and `backup` delay. */
const SCRUB_TIMEOUT_MS = 5_000;

const User = Type.Refine(
  Type.String({ description: 'The owner of the plants.' }),
  isUser,
  () => `must be ${USER_RULE}`,
);

export const Erasure = Type.Object(
  { user: User },
  { $id: 'Erasure', description: 'Whom to erase.', examples: [{ user: 'nobody@example.invalid' }] }, // tools send it
);

export const Erased = Type.Object(
  {
    events: Type.Integer({
      description:
        'The number of events that this request has erased. 0: the user has no events now. The name may be misspelled, such as another Unicode form of an accent, a space at an end, or a letter of another alphabet; or the events were erased before. No one can tell which: the log has no names of erased users.',
    }),
    records: Type.Array(Type.Integer(), {
      description:
        'The indices in the tree, from 0, of the records of this erasure; `GET /proofs/erasures?index=` gives the receipt of each. Empty if nothing was erased.',
    }),
    scrubbed: Type.Boolean({
      description:
        'Whether neither the log nor a view has a byte of them, and a restored backup will be erased again. If false, a reader such as `verify` or `backup` needs old data, a view has halted, or the disk is full: the service goes on when that ends, also after a restart.',
    }),
  },
  { $id: 'Erased', description: 'What was erased.' },
);

type Dependencies = { erasures: Erasures; fairQueue: FairQueue; metrics?: Metrics | undefined };

/** POST /erasures. */
export const erasureRoutes: FastifyPluginAsyncTypebox<Dependencies> = async (app, deps) => {
  const { erasures, fairQueue, metrics } = deps;
  metrics?.measure('unscrubbed', '1 while files may have bytes of erased events.', () =>
    Number(!erasures.isScrubbed),
  );

  app.post(
    '/erasures',
    {
      onRequest: requireScope(ERASE_SCOPE),
      schema: {
        operationId: 'eraseUser',
        tags: ['erasures'],
        'x-destructive': true,
        security: [{ bearer: [ERASE_SCOPE] }],
        summary: 'Erase all plants of a user for ever; idempotent',
        description:
          'Overwrites the events that the user has now. The log consists of digests, which stay: so every checkpoint, proof and receipt made before stays valid. The log records the erasure without the name. Backups made before still have the events; after a restore, the start erases them again. What the user creates later is not erased. Nothing is erased if an event is not the one in the Merkle tree, or the tree contradicts the last signed checkpoint.',
        body: Erasure,
        response: {
          200: {
            description: 'What was erased; nothing, if the user has no events.',
            content: {
              'application/json': {
                schema: Erased,
                example: { events: 12, records: [81], scrubbed: true },
              },
            },
          },
        },
        errors: [
          API_ERRORS.invalidBody,
          API_ERRORS.notJson,
          API_ERRORS.insufficientScope,
          API_ERRORS.bodyTooLarge,
          API_ERRORS.unsupportedMediaType,
          API_ERRORS.erasureRefused,
          API_ERRORS.cannotErase,
          API_ERRORS.erasureNeedsTree,
          API_ERRORS.noSpaceToErase,
          API_ERRORS.viewBehind,
          API_ERRORS.checkpointFileUnusable,
        ],
      },
    },
    async ({ user, body, log }) => {
      const { scrubbed, ...erased } = await erasures.erase(body.user, (share) => fairQueue.next(user, share));
      log.info(erased, 'events erased'); // without the name, which must not stay
      const isScrubbed = await unlessLater(
        SCRUB_TIMEOUT_MS,
        scrubbed.then(
          () => true,
          () => false,
        ),
      );
      return { ...erased, scrubbed: isScrubbed ?? false };
    },
  );
};

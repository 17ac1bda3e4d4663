import type { EventStore } from '@event-sourced/event-log';
import type { Follower } from '@event-sourced/event-log/views';
import type { FastifyInstance } from 'fastify';
import { API_ERRORS } from './errors.ts';

type Dependencies = {
  store: Pick<EventStore, 'appendsRefused'>;
  followers: readonly Pick<Follower, 'notReady'>[];
};

/**
 * `/health/live`: the process responds. `/health/ready`: every view can be read, and the log accepts
 * appends, or else why not.
 */
export function healthRoutes(app: FastifyInstance, { store, followers }: Dependencies): void {
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));
  app.get('/health/ready', { schema: { hide: true } }, async (_request, reply) => {
    const { appendsRefused } = store;
    const reasons = [appendsRefused, ...followers.map(({ notReady }) => notReady)].filter(
      (it) => it !== undefined,
    );
    if (reasons.length === 0) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    const { code: error } =
      appendsRefused === undefined ? API_ERRORS.viewBehind : API_ERRORS.storeUnavailable;
    return { error, message: [...new Set(reasons)].join('; ') };
  });
}

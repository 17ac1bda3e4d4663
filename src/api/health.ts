import type { FastifyInstance } from 'fastify';
import type { Follower } from '../../projections/follow.ts';
import type { EventStore } from '../eventStore/eventStore.ts';
import { API_ERRORS } from './errorTable.ts';

/**
 * `/health/live`: the process responds. `/health/ready`: the log is intact and every view can be read, or else
 * why not.
 */
export function healthRoutes(app: FastifyInstance, store: EventStore, followers: readonly Follower[]): void {
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));
  app.get('/health/ready', { schema: { hide: true } }, async (_request, reply) => {
    const reasons = followers.flatMap(({ notReady }) => notReady ?? []);
    if (store.damage) reasons.unshift(store.damage.message);
    if (reasons.length === 0) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    const error = store.damage ? API_ERRORS.storeUnavailable : API_ERRORS.viewBehind;
    return { error, message: [...new Set(reasons)].join('; ') };
  });
}

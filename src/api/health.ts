import type { FastifyInstance } from 'fastify';
import type { Follower } from '../../projections/follow.ts';
import { API_ERRORS } from './errorTable.ts';

/** `/health/live`: the process responds. `/health/ready`: every view can be read, or else why not. */
export function healthRoutes(app: FastifyInstance, followers: readonly Follower[]): void {
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));
  app.get('/health/ready', { schema: { hide: true } }, async (_request, reply) => {
    const reasons = followers.flatMap(({ notReady }) => notReady ?? []);
    if (reasons.length === 0) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    return { error: API_ERRORS.viewBehind, message: [...new Set(reasons)].join('; ') };
  });
}

import type { FastifyInstance } from 'fastify';
import type { ErrorEntry } from './errors.ts';

/** Why the service cannot be used, and the error that its clients get; undefined if it can. */
export type NotReady = { entry: ErrorEntry; reasons: readonly string[] } | undefined;

/** `/health/live`: the process responds. `/health/ready`: the service can be used, or else why not. */
export function healthRoutes(app: FastifyInstance, notReady: () => NotReady): void {
  app.get('/health/live', { schema: { hide: true } }, async () => ({ status: 'live' }));
  app.get('/health/ready', { schema: { hide: true } }, async (_request, reply) => {
    const found = notReady();
    if (!found) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    return { error: found.entry.code, message: [...new Set(found.reasons)].join('; ') };
  });
}

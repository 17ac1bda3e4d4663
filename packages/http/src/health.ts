import type { FastifyInstance } from 'fastify';
import type { ErrorDefinition } from './errors.ts';

/** The reasons why the service is not ready, if any, and the error that clients get. */
type Readiness = { reasons: readonly string[]; error: ErrorDefinition };

/** Probes come every few seconds, and metrics count them: no line for each. */
const PROBE = { schema: { hide: true }, logLevel: 'warn' } as const;

/** `/health/live`: the process responds. `/health/ready`: the service is ready, or the reasons why not. */
export function healthRoutes(app: FastifyInstance, readiness: () => Readiness): void {
  app.get('/health/live', PROBE, async () => ({ status: 'live' }));
  app.get('/health/ready', PROBE, async (_request, reply) => {
    const { reasons, error } = readiness();
    if (reasons.length === 0) return { status: 'ready' };
    reply.code(503).header('retry-after', '1');
    return { error: error.code, message: [...new Set(reasons)].join('; ') };
  });
}

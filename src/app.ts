import { type AuditOptions, audit, auditPage } from '@event-sourced/audit';
import type { EventStore } from '@event-sourced/event-log';
import type { Follower, ReadYourWrites } from '@event-sourced/event-log/views';
import {
  apiReference,
  authenticate,
  healthRoutes,
  httpServer,
  limitRate,
  restrictScope,
  serveOpenapi,
} from '@event-sourced/http';
import type { VerifyToken } from '@event-sourced/http/tokens';
import { FairQueue } from '@event-sourced/node/time';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';
import { erasureRoutes } from './erasureRoutes.ts';
import type { Erasures } from './erasures.ts';
import { API_ERRORS } from './errors.ts';
import { API } from './openapi.ts';
import { plantRoutes } from './plantRoutes.ts';
import { entityType } from './plants/entityType.ts';
import { EXAMPLES } from './plants/examples.ts';
import { isUser } from './plants/user.ts';
import { AUDIT_SCOPE, ERASE_SCOPE, MONITOR_SCOPE } from './tokens.ts';
import type { Views } from './views.ts';

const GUIDE = new URL('../docs/guide.md', import.meta.url);

type Dependencies = Pick<Config, 'corsOrigins' | 'pages' | 'rateLimit'> &
  Partial<Pick<Config, 'maxConnections'>> &
  Pick<AuditOptions, 'source' | 'transparency' | 'now' | 'metrics'> & {
    store: EventStore;
    views: Views;
    readYourWrites: ReadYourWrites;
    /** Of the views that /health/ready requires. */
    followers: readonly Follower[];
    erasures: Erasures;
    verifyToken: VerifyToken;
    logger: FastifyBaseLogger;
    newEventId: (now: Date) => string;
    /** When the service closes, idle connections stay open for this time. */
    closeIdleAfterMs?: number;
  };

/** The HTTP API, complete but not listening. */
export async function buildApp(deps: Dependencies) {
  const { store, followers, verifyToken, rateLimit, logger, metrics } = deps;
  const app = await httpServer({
    logger,
    corsOrigins: deps.corsOrigins,
    corsFields: {
      allowed: [
        ...['Authorization', 'Content-Type', 'Last-Event-ID', 'Log-Position', 'Traceparent'],
        ...['Idempotency-Key', 'If-None-Match', 'Prefer'], // without effect, but clients send them
      ],
      exposed: ['Checkpoint', 'Content-Disposition', 'Link', 'Log-Position', 'Plant-Created'],
    },
    errors: API_ERRORS,
    maxConnections: deps.maxConnections,
    closeIdleAfterMs: deps.closeIdleAfterMs,
    metrics,
  });
  // The service is ready when every view can be read and the log accepts appends.
  healthRoutes(app, () => {
    const { appendsRefused } = store;
    const error = appendsRefused === undefined ? API_ERRORS.viewBehind : API_ERRORS.storeUnavailable;
    const reasons = [appendsRefused, ...followers.map(({ notReady }) => notReady)];
    return { error, reasons: reasons.filter((reason) => reason !== undefined) };
  });
  await serveOpenapi(app, API, { hasReference: deps.pages });
  if (deps.pages) {
    await apiReference(app, GUIDE);
    const { IMAGE_COMMAND: command = entityType.command } = process.env;
    await auditPage(app, { ...entityType, command });
  }
  await app.register(async (secured) => {
    await authenticate(secured, { verifyToken, isUser });
    restrictScope(secured, MONITOR_SCOPE, [AUDIT_SCOPE, ERASE_SCOPE]);
    if (rateLimit) limitRate(secured, rateLimit);
    const shared = { ...deps, fairQueue: new FairQueue() };
    await secured.register(plantRoutes, shared);
    await secured.register(erasureRoutes, shared);
    await secured.register(audit, {
      ...shared,
      log: store.forHashing,
      entityType,
      examples: EXAMPLES,
      errors: API_ERRORS,
    });
  });
  return app;
}

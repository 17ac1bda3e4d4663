export { apiReference } from './apiReference.ts';
export { authenticate, requireScope, restrictScope } from './auth.ts';
export { causeChain } from './errorHandler.ts';
export {
  entry,
  HTTP_ERRORS,
  HttpError,
  RETRY,
  tokenErrors,
  tooManyInFlight,
} from './errors.ts';
export { healthRoutes } from './health.ts';
export { InFlight } from './inFlight.ts';
export { serveMetrics } from './metricsServer.ts';
export { type ApiDescription, serveOpenapi } from './openapi.ts';
export { servePage } from './pages.ts';
export { limitRate } from './rateLimit.ts';
export { httpServer } from './server.ts';
export { readTraceparent } from './traceparent.ts';
export { NO_PARAMETERS } from './validation.ts';

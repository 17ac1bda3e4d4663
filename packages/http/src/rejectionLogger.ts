import type { FastifyBaseLogger } from 'fastify';

/** Requests that are rejected with the same error code within this time share a line. */
const LOG_INTERVAL_MS = 1_000;

type Rejection = { logger: Pick<FastifyBaseLogger, 'error'>; error: number; reason: string };

/**
 * Logs requests that are rejected during an outage: the first one of each error code at once, further ones once a
 * second, with their number and the latest reason.
 */
export function rejectionLogger(): (rejection: Rejection) => void {
  /** The number of requests since the last line, and the latest rejection, by error code. */
  const waiting = new Map<number, { requests: number; latest: Rejection }>();

  function write(rejection: Rejection, requests: number): void {
    const { logger, error, reason } = rejection;
    logger.error({ error, reason, requests }, 'requests refused');
    const since = { requests: 0, latest: rejection };
    waiting.set(error, since);
    setTimeout(() => {
      if (since.requests > 0) write(since.latest, since.requests);
      else waiting.delete(error);
    }, LOG_INTERVAL_MS).unref();
  }

  return (rejection) => {
    const since = waiting.get(rejection.error);
    if (!since) return write(rejection, 1);
    since.requests++;
    since.latest = rejection;
  };
}

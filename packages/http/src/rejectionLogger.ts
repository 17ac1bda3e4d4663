import type { FastifyBaseLogger } from 'fastify';

/** Requests that are rejected for the same reason share a line. */
const LOG_INTERVAL_MS = 1_000;

type Rejection = { logger: Pick<FastifyBaseLogger, 'error'>; error: number; reason: string };

/**
 * Logs requests that are rejected while something is unavailable: the first of each error code at once, the
 * others together, with their count and the latest reason, once a second.
 */
export function rejectionLogger(): (rejection: Rejection) => void {
  /** The requests since the last line, and the latest of them, by error code. */
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

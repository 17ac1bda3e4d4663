import type { FastifyBaseLogger } from 'fastify';

/** Requests that are refused for the same reason share a line so often, in milliseconds. */
const LOG_INTERVAL_MS = 1_000;

type Refusal = { logger: Pick<FastifyBaseLogger, 'error'>; error: number; reason: string };

/**
 * Logs requests that are refused while something is unavailable: the first of each error number at once, the
 * others together, with their count and the latest reason, once a second. Each of them also has its own line
 * in the request log.
 */
export function refusalLog(): (refusal: Refusal) => void {
  /** The requests since the last line, and the latest of them, by error number. */
  const waiting = new Map<number, { requests: number; latest: Refusal }>();

  function write(refusal: Refusal, requests: number): void {
    const { logger, error, reason } = refusal;
    logger.error({ error, reason, requests }, 'requests refused');
    const since = { requests: 0, latest: refusal };
    waiting.set(error, since);
    const timer = setTimeout(() => {
      if (since.requests > 0) write(since.latest, since.requests);
      else waiting.delete(error);
    }, LOG_INTERVAL_MS);
    timer.unref();
  }

  return (refusal) => {
    const since = waiting.get(refusal.error);
    if (!since) {
      write(refusal, 1);
      return;
    }
    since.requests++;
    since.latest = refusal;
  };
}

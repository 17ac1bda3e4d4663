import type { FastifyBaseLogger } from 'fastify';

/** Requests that are refused for the same reason share a line so often, in milliseconds. */
const LOG_INTERVAL_MS = 1_000;

type Refusal = { logger: Pick<FastifyBaseLogger, 'error'>; error: number; reason: string };

/**
 * Logs requests that are refused while something is unavailable: the first of each error number at once, the
 * others together, with their count, once a second. Each of them also has its own line in the request log.
 */
export function refusalLog(): (refusal: Refusal) => void {
  /** Requests since the last line, by error number. */
  const counts = new Map<number, number>();

  function write({ logger, error, reason }: Refusal, requests: number): void {
    logger.error({ error, reason, requests }, 'requests refused');
    counts.set(error, 0);
    const timer = setTimeout(() => {
      const since = counts.get(error) ?? 0;
      if (since > 0) write({ logger, error, reason }, since);
      else counts.delete(error);
    }, LOG_INTERVAL_MS);
    timer.unref();
  }

  return (refusal) => {
    const count = counts.get(refusal.error);
    if (count === undefined) write(refusal, 1);
    else counts.set(refusal.error, count + 1);
  };
}

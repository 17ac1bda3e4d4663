import type { FastifyBaseLogger } from 'fastify';
import type { InvalidToken } from './tokens/tokenVerifier.ts';

const INTERVAL_MS = 60_000;

/** Logs why a token is invalid: one line a minute for each reason, whatever clients send. */
export function invalidTokenLogger() {
  const loggedAt = new Map<string, number>();
  return (logger: Pick<FastifyBaseLogger, 'warn'>, { reason }: InvalidToken): void => {
    const now = performance.now();
    if (now - (loggedAt.get(reason) ?? Number.NEGATIVE_INFINITY) < INTERVAL_MS) return;
    loggedAt.set(reason, now);
    logger.warn({ reason }, 'token refused');
  };
}

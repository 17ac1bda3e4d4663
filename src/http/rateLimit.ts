import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';

/** How many requests of a user are answered in a window, which starts with the first of them. */
export type RateLimit = { maxRequests: number; windowMs: number };

/** The user has sent too many requests. */
export class RateLimitExceeded extends Error {
  override readonly name = 'RateLimitExceeded';
  readonly retryAfterS: number;
  constructor({ maxRequests, windowMs }: RateLimit, remainingMs: number) {
    super(`The limit is ${maxRequests} requests in ${windowMs / 1_000} s. Wait, and retry.`);
    this.retryAfterS = Math.max(1, Math.ceil(remainingMs / 1_000));
  }
}

/** Counted at a time, so that memory is bounded; those whose requests are longest ago are forgotten. */
const MAX_USERS = 10_000;

/** The plugin would add them to every response; Retry-After is that of the error. */
const HEADERS = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false };

/**
 * Limits the requests of each authenticated user to the routes of this context, of which earlier hooks
 * authenticate. Requests over the limit throw RateLimitExceeded.
 */
export async function limitRate(app: FastifyInstance, limit: RateLimit, maxUsers = MAX_USERS): Promise<void> {
  await app.register(rateLimit, {
    global: false,
    max: limit.maxRequests,
    timeWindow: limit.windowMs,
    cache: maxUsers,
    keyGenerator: ({ user }) => user,
    addHeaders: { ...HEADERS, 'retry-after': false },
    addHeadersOnExceeding: HEADERS,
    errorResponseBuilder: (_request, { ttl }) => new RateLimitExceeded(limit, ttl),
  });
  app.addHook('onRequest', app.rateLimit());
}

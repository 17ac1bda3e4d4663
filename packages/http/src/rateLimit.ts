import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';

/** How many requests of a user are answered in a window, which starts with the first of them. */
type RateLimit = { maxRequests: number; windowMs: number };

export class RateLimitExceeded extends Error {
  override readonly name = 'RateLimitExceeded';
  readonly retryAfterS: number;
  constructor({ maxRequests, windowMs }: RateLimit, remainingMs: number) {
    super(`The limit is ${maxRequests} requests in ${windowMs / 1_000} s. Wait, and retry.`);
    this.retryAfterS = Math.max(1, Math.ceil(remainingMs / 1_000));
  }
}

/** Bounds the memory: users whose requests are longest ago are forgotten. */
const MAX_USERS = 10_000;

/**
 * Limits the requests of each user to the routes of this context, of which earlier hooks authenticate. The clock is
 * monotonic: a system clock that is set back would lock users out. Requests over the limit throw RateLimitExceeded.
 */
export function limitRate(app: FastifyInstance, limit: RateLimit, maxUsers = MAX_USERS): void {
  const windows = new LRUCache<string, { endsAt: number; requests: number }>({ max: maxUsers });
  app.addHook('onRequest', async ({ user }) => {
    const now = performance.now();
    const window = windows.get(user);
    if (!window || window.endsAt <= now) windows.set(user, { endsAt: now + limit.windowMs, requests: 1 });
    else if (++window.requests > limit.maxRequests) throw new RateLimitExceeded(limit, window.endsAt - now);
  });
}

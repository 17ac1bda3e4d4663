import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';

/** The number of requests per user and window; a window starts with its first request. */
type RateLimit = { maxRequests: number; windowMs: number };

export class RateLimitExceeded extends Error {
  override readonly name = 'RateLimitExceeded';
  readonly retryAfterS: number;
  constructor({ maxRequests, windowMs }: RateLimit, remainingMs: number) {
    super(`The limit is ${maxRequests} requests in ${windowMs / 1_000} s. Wait, and retry.`);
    this.retryAfterS = Math.ceil(remainingMs / 1_000);
  }
}

/** Bounds the memory: the least recently active users are evicted. */
const MAX_USERS = 10_000;

/**
 * Limits the requests of each user to the routes of this context, whose earlier hooks authenticate. Requests over the
 * limit throw RateLimitExceeded. The clock is monotonic: setting back a system clock would lock users out. The header
 * fields follow draft-ietf-httpapi-ratelimit-headers-06.
 */
export function limitRate(app: FastifyInstance, limit: RateLimit, maxUsers = MAX_USERS): void {
  const windows = new LRUCache<string, { endsAt: number; requests: number }>({ max: maxUsers });
  app.addHook('onRequest', async ({ user }, reply) => {
    const now = performance.now();
    let window = windows.get(user);
    if (!window || window.endsAt <= now) {
      window = { endsAt: now + limit.windowMs, requests: 0 };
      windows.set(user, window);
    }
    window.requests++;
    const remainingMs = window.endsAt - now;
    reply.headers({
      'ratelimit-limit': limit.maxRequests,
      'ratelimit-remaining': Math.max(0, limit.maxRequests - window.requests),
      'ratelimit-reset': Math.ceil(remainingMs / 1_000),
    });
    if (window.requests > limit.maxRequests) throw new RateLimitExceeded(limit, remainingMs);
  });
}

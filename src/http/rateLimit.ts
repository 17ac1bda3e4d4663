import rateLimit, { type FastifyRateLimitStore } from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import { LRUCache } from 'lru-cache';

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
    store: monotonicStore(maxUsers),
    keyGenerator: ({ user }) => user,
    addHeaders: { ...HEADERS, 'retry-after': false },
    addHeadersOnExceeding: HEADERS,
    errorResponseBuilder: (_request, { ttl }) => new RateLimitExceeded(limit, ttl),
  });
  app.addHook('onRequest', app.rateLimit());
}

/**
 * Counts by a monotonic clock: the plugin's own store takes that of the system, and would refuse a user for as
 * long as it was set back.
 */
function monotonicStore(maxUsers: number) {
  return class Store implements FastifyRateLimitStore {
    readonly #windows = new LRUCache<string, { endsAt: number; requests: number }>({ max: maxUsers });

    incr(user: string, callback: Parameters<FastifyRateLimitStore['incr']>[1], windowMs: number): void {
      const now = performance.now();
      let window = this.#windows.get(user);
      if (!window || window.endsAt <= now) {
        window = { endsAt: now + windowMs, requests: 0 };
        this.#windows.set(user, window);
      }
      window.requests++;
      callback(null, { current: window.requests, ttl: window.endsAt - now });
    }

    /** Of a route with options of its own, of which there is none. */
    child(): Store {
      return this;
    }
  };
}

import type { Logger } from '../logger.ts';
import { ACCOUNTS_TIMEOUT_MS, type Client } from './client.ts';

/** While appends are refused, the connection is replaced this often: a call keeps the groups that its user had. */
export const RENEWAL_INTERVAL_MS = 5_000;

/** Tracks whether the account may append, by the outcome of appends. */
export class WriteAccess {
  /** Why appends are refused; undefined after an append was accepted. */
  error: string | undefined;
  /** The time from which every append was refused. */
  #deniedSince: number | undefined;
  readonly #client: Client;
  readonly #logger: Logger;

  constructor(client: Client, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  granted(): void {
    this.#deniedSince = undefined;
    if (this.error === undefined) return;
    this.error = undefined;
    this.#logger.info('the account may append');
  }

  /** Whether to retry an append: a server that has just started may not know its accounts. */
  denied(reason: string): boolean {
    const now = performance.now();
    this.#deniedSince ??= now;
    if (now - this.#deniedSince < ACCOUNTS_TIMEOUT_MS) return true;
    if (this.error === undefined)
      this.#logger.error({ reason }, 'the account may not append; writes are refused');
    this.error = reason;
    return this.#client.renew('the groups of the account may have changed', RENEWAL_INTERVAL_MS);
  }
}

import type { Logger } from '../logger.ts';
import { ACCOUNTS_TIMEOUT_MS, type Client } from './client.ts';

/** While appends are refused, a connection is replaced after this, since a call keeps the groups that its user had. */
export const RENEWAL_INTERVAL_MS = 5_000;

/** Whether the account may append, as appends show it. */
export class WriteAccess {
  /** Why appends are refused; undefined once one was accepted. */
  error: string | undefined;
  /** Since when every append was refused. */
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

  /** Whether to try an append again: a server that has just started may not know its accounts. */
  denied(reason: string): boolean {
    const now = performance.now();
    this.#deniedSince ??= now;
    if (now - this.#deniedSince < ACCOUNTS_TIMEOUT_MS) return true;
    if (this.error === undefined)
      this.#logger.error({ reason }, 'the account may not append; writes are refused');
    this.error = reason;
    return this.#client.renew('the account may have other groups now', RENEWAL_INTERVAL_MS);
  }
}

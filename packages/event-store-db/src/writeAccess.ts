import type { Logger } from '@event-sourced/event-log';

/** Tracks whether the account may append, by the outcome of appends. */
export class WriteAccess {
  /** Why appends are refused; undefined after an append was accepted. */
  error: string | undefined;
  #grantedAt = 0;
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  granted(): void {
    this.#grantedAt = performance.now();
    if (this.error === undefined) return;
    this.error = undefined;
    this.#logger.info('the account may append');
  }

  /** An append that started at this time was refused until its deadline: no other one may have been accepted since. */
  denied(reason: string, startedAt: number): void {
    if (this.#grantedAt > startedAt) return;
    if (this.error === undefined)
      this.#logger.error({ reason }, 'the account may not append; writes are refused');
    this.error = reason;
  }
}

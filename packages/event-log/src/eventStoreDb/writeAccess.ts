import type { Logger } from '../logger.ts';
import { finishedWithin, sleep, unlessAborted } from '../time/sleep.ts';
import { lastDenial } from './accessCheck.ts';
import { Connection, FIRST_REPLY_TIMEOUT_MS } from './connection.ts';
import type { CallFailed } from './protocol.ts';
import { AppendDenied, type RetryingClient } from './retryingClient.ts';

/** Between two checks while the account may not append. */
export const WRITE_ACCESS_INTERVAL_MS = 5_000;
/** No stream has this revision, so an append that expects it is refused, and writes nothing. */
const NO_REVISION = 2n ** 62n;

/** Whether the account may append: reading does not show it, and a request should not have to. */
export class WriteAccess {
  /** Why every append is refused; undefined if the account may append, or as long as this is unknown. */
  error: string | undefined;
  readonly #client: RetryingClient;
  readonly #logger: Logger;
  #confirmation: Promise<void> | undefined;

  constructor(client: RetryingClient, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  /** @throws AppendDenied if the account is known to be refused */
  assertGranted(): void {
    if (this.error !== undefined) throw new AppendDenied(this.error);
  }

  /** Checks it once; a server that is unavailable passes. */
  async check(): Promise<void> {
    const failure = await this.#probe(this.#client.connection);
    if (failure.kind === 'appendDenied') this.#deny(failure.message);
  }

  /**
   * Checks, after the server has refused an append, whether it refuses all: a stream may have an ACL of its own,
   * and a server that has just restarted may not know its accounts. Appends wait for one check together.
   * @throws AppendDenied if it does, or has done until the deadline
   */
  async confirm(denied: AppendDenied, deadline: number): Promise<void> {
    this.#confirmation ??= this.#confirm().finally(() => {
      this.#confirmation = undefined;
    });
    await finishedWithin(deadline - performance.now(), this.#confirmation);
    this.assertGranted();
    if (performance.now() >= deadline) throw denied;
  }

  /** A probe over the connection of the appends has the same account and groups as they, and costs no thread. */
  async #confirm(): Promise<void> {
    const failure = await lastDenial(async () => {
      const found = await this.#probe(this.#client.connection);
      return found.kind === 'wrongRevision' ? undefined : found;
    }, this.#client.closed);
    if (failure?.kind === 'appendDenied') this.#deny(failure.message);
  }

  #deny(message: string): void {
    if (this.error !== undefined) return;
    this.error = message;
    this.#logger.error({ reason: message }, 'the account may not append; writes are refused');
    void this.#untilGranted();
  }

  /** Over new connections: a call in progress keeps the groups that its user had at its start. */
  async #untilGranted(): Promise<void> {
    const { closed, options } = this.#client;
    while (this.error !== undefined) {
      await sleep(WRITE_ACCESS_INTERVAL_MS, closed);
      if (closed.aborted) return;
      const connection = new Connection(options);
      const failure = await unlessAborted(this.#probe(connection), closed);
      connection.end('the access check is done');
      if (failure?.kind === 'wrongRevision') this.error = undefined;
    }
    this.#client.connection.end('the account may append now');
    this.#logger.info('the account may append');
  }

  /** The failure of an append to a revision that does not exist; wrongRevision if the account may append. */
  #probe(connection: Connection): Promise<CallFailed> {
    const stream = `${this.#client.options.prefix}access-check`;
    const event = { id: crypto.randomUUID(), type: 'AccessCheck', data: '{}', metadata: '{}' };
    const request = { stream, ...event, expectedRevision: NO_REVISION };
    return connection.call('append', request, FIRST_REPLY_TIMEOUT_MS).then(
      () => {
        throw new Error(`stream ${stream} has revision ${NO_REVISION}`);
      },
      (error: CallFailed) => error,
    );
  }
}

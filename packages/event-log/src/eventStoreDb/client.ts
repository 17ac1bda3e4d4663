import { type StoreObserver, StoreUnavailable } from '../eventStore.ts';
import { backOff, finishedWithin, sleep, unlessLater } from '../time/sleep.ts';
import { type Argument, Connection, type Result } from './connection.ts';
import { CallFailed } from './protocol.ts';
import type { Operations } from './worker.ts';

/** The server refuses the account, or its certificate is not trusted: the connection string must be changed. */
export class AccessDenied extends StoreUnavailable {}

export class AppendDenied extends StoreUnavailable {}

/** An attempt is repeated after this time without a reply. The server abandons a write after 2 s. */
export const ATTEMPT_TIMEOUT_MS = 3_000;
/** For the first reply over the first connection, which takes seconds on a busy machine. */
export const FIRST_REPLY_TIMEOUT_MS = 10_000;
/** For later connections: a cluster reports a frozen leader until it elects another; a look-up takes 2 s per node. */
export const REOPENING_TIMEOUT_MS = 5_000;
export const MAX_RETRY_DELAY_MS = 1_000;
/** For calls in flight when the client is closed. */
export const CLOSE_TIMEOUT_MS = 1_500;
/** Between the starts of two connections: each one is a thread. */
export const MIN_CONNECTION_INTERVAL_MS = 1_000;
/** A server that has just started may refuse valid accounts for this time. */
export const ACCOUNTS_TIMEOUT_MS = 5_000;
/** Shown while the server has never responded. */
const UNREACHABLE_HINT = 'check that the server runs, and hosts, tls and tlsCAFile in the connection string';

type Listeners = {
  observer?: StoreObserver | undefined;
  /** Called when another node of a cluster responds to reads: only the leader does. */
  onLeaderChange?: ((from: string, to: string) => void) | undefined;
};

/**
 * Keeps one connection open. One loop opens it with a read, and replaces it when it has ended; calls and subscriptions
 * wait for an open connection. Failed calls are retried until a deadline.
 */
export class Client {
  readonly #url: string;
  readonly #listeners: Listeners;
  readonly #closing = new AbortController();
  readonly #inFlight = new Set<Promise<unknown>>();
  #open: Connection | undefined;
  /** No more connections are opened. */
  #isOver = false;
  #connection: Connection;
  /** Resolves after the next attempt to open a connection, with its failure, if any. */
  #attempt = Promise.withResolvers<CallFailed | undefined>();
  #lastFailure = new CallFailed('timeout', `no response yet: ${UNREACHABLE_HINT}`);
  /** The address of the node that responded to the last read. */
  node: string | undefined;

  constructor(url: string, listeners: Listeners = {}) {
    this.#url = url;
    this.#listeners = listeners;
    this.#connection = new Connection(url, this.#onNode);
    void this.#run();
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Waits for the first attempt to connect, repeated while access is denied. @throws AccessDenied after a timeout */
  async firstAttempt(): Promise<void> {
    const deadline = performance.now() + ACCOUNTS_TIMEOUT_MS;
    for (;;) {
      const failure = await this.#attempt.promise;
      const isDenied = failure?.kind === 'accessDenied';
      if (failure?.kind === 'badConnectionString' || (isDenied && performance.now() >= deadline))
        throw new AccessDenied(failure.message, { cause: failure });
      if (!isDenied) return;
    }
  }

  /** Resolves with an open connection. @throws StoreUnavailable at the deadline, or if the client is closed */
  async connected(deadline = Number.POSITIVE_INFINITY): Promise<Connection> {
    while (!this.#open) {
      if (this.#isOver) throw new StoreUnavailable('the log is closed');
      const remaining = deadline - performance.now();
      if (remaining <= 0) throw unavailable(this.#lastFailure);
      const attempt = this.#attempt.promise;
      await (remaining === Number.POSITIVE_INFINITY ? attempt : unlessLater(remaining, attempt));
    }
    return this.#open;
  }

  /** Ends the connection if it has been in use for at least this time; returns whether it did. */
  renew(reason: string, afterMs: number): boolean {
    const isDue = performance.now() - this.#connection.startedAt >= afterMs;
    if (isDue) this.#connection.end(reason);
    return isDue;
  }

  /**
   * Calls the server until a call succeeds, for at most `timeoutMs`. The deadline does not interrupt a read of a page:
   * while the connection lives, the server is searching the log. @throws CallFailed with a kind that is a result;
   * StoreUnavailable; AppendDenied, or Error, if retrying does not help
   */
  call<O extends keyof Operations>(operation: O, argument: Argument<O>, timeoutMs: number): Result<O> {
    const result = this.#retry(operation, argument, timeoutMs);
    this.#inFlight.add(result);
    const done = (): void => void this.#inFlight.delete(result);
    result.then(done, done);
    return result;
  }

  async #retry<O extends keyof Operations>(
    operation: O,
    argument: Argument<O>,
    timeoutMs: number,
  ): Result<O> {
    const deadline = performance.now() + timeoutMs;
    let lastFailure: CallFailed | undefined;
    for (let failures = 0; ; failures++) {
      if (this.closed.aborted) throw new StoreUnavailable('the log is closed', { cause: lastFailure });
      const connection = await this.connected(deadline);
      const remaining = deadline - performance.now();
      const isPage = operation.startsWith('readPage');
      try {
        const attemptMs = isPage ? undefined : Math.min(ATTEMPT_TIMEOUT_MS, remaining);
        return await connection.call(operation, argument, attemptMs);
      } catch (error) {
        const failure = error as CallFailed;
        if (failure.kind === 'wrongRevision' || failure.kind === 'streamDeleted') throw failure;
        if (failure.kind === 'permanent')
          throw new Error(`EventStoreDB rejects this permanently: ${failure.message}`, { cause: failure });
        if (failure.kind === 'appendDenied') throw new AppendDenied(failure.message, { cause: failure });
        if (failure.kind !== 'timeout' || !lastFailure) lastFailure = failure;
        const delay = backOff(failures, MAX_RETRY_DELAY_MS);
        if (performance.now() + delay >= deadline) throw unavailable(lastFailure);
        await sleep(delay, this.closed);
      }
    }
  }

  async #run(): Promise<void> {
    let hasResponded = false;
    for (let failures = 0; ; ) {
      const connection = this.#connection;
      try {
        await connection.started.promise;
        const timeoutMs = hasResponded ? REOPENING_TIMEOUT_MS : FIRST_REPLY_TIMEOUT_MS;
        await connection.call('readEdge', 'last', timeoutMs);
        hasResponded = true;
        failures = 0;
        this.#open = connection;
        this.#finishAttempt();
        this.#lastFailure = await connection.ended.promise;
        this.#open = undefined;
      } catch (error) {
        const { kind, message } = error as CallFailed;
        const hint = kind === 'timeout' && !hasResponded ? `: ${UNREACHABLE_HINT}` : '';
        this.#lastFailure = new CallFailed(kind, message + hint);
        this.#finishAttempt(this.#lastFailure);
        await sleep(backOff(failures++, MAX_RETRY_DELAY_MS), this.closed);
      }
      if (this.closed.aborted) break;
      if (connection.endReason === undefined) continue;
      const age = performance.now() - connection.startedAt;
      await sleep(Math.max(0, MIN_CONNECTION_INTERVAL_MS - age), this.closed);
      if (this.closed.aborted) break;
      this.#listeners.observer?.onReconnect();
      this.#connection = new Connection(this.#url, this.#onNode);
    }
    this.#isOver = true;
    this.#finishAttempt();
  }

  #finishAttempt(failure?: CallFailed): void {
    this.#attempt.resolve(failure);
    this.#attempt = Promise.withResolvers();
  }

  readonly #onNode = (node: string): void => {
    if (this.node !== undefined && this.node !== node) this.#listeners.onLeaderChange?.(this.node, node);
    this.node = node;
  };

  /** Ends the connection when the calls in flight have replies, or after a timeout. Nothing is retried any more. */
  async close(): Promise<void> {
    if (this.closed.aborted) return;
    this.#closing.abort();
    await finishedWithin(CLOSE_TIMEOUT_MS, Promise.allSettled(this.#inFlight));
    this.#connection.end('the log is closed');
  }
}

function unavailable(cause: CallFailed): StoreUnavailable {
  return new (cause.kind === 'accessDenied' ? AccessDenied : StoreUnavailable)(cause.message, { cause });
}

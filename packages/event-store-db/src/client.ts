import { EventUnreadable, type StoreObserver, StoreUnavailable } from '@event-sourced/event-log';
import { backOff, finishedWithin, sleep, unlessLater } from '@event-sourced/node/time';
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
const MAX_RETRY_DELAY_MS = 1_000;
/** After an attempt to connect has failed, however many calls wait for the connection. */
const RECONNECT_DELAY_MS = 200;
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

/** One attempt of a call, over an open connection, for at most this time. */
type Attempt<T> = (connection: Connection, timeoutMs: number) => Promise<T>;

/**
 * Owns the one connection, and all retrying. A call is attempted again until its deadline, each time over the open
 * connection; if there is none, the attempt opens one.
 */
export class Client {
  readonly #url: string;
  readonly #listeners: Listeners;
  readonly #closing = new AbortController();
  readonly #inFlight = new Set<Promise<unknown>>();
  #connection: Connection;
  /** The open connection, or the attempt to open it. */
  #opened: Promise<Connection> | undefined;
  #hasResponded = false;
  #lastFailure = new CallFailed('transient', `no response yet: ${UNREACHABLE_HINT}`);
  /** The address of the node that responded to the last read. */
  node: string | undefined;

  constructor(url: string, listeners: Listeners = {}) {
    this.#url = url;
    this.#listeners = listeners;
    this.#connection = new Connection(url, this.#onNode);
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Tries to connect, again only while access is denied. @throws AccessDenied; CallFailed if the URL is invalid */
  async firstAttempt(): Promise<void> {
    const attempt = (): Promise<unknown> =>
      this.#connect().catch((error) => {
        if (error.kind === 'accessDenied' || error.kind === 'permanent') throw error;
      });
    await this.#repeat(attempt, performance.now() + ACCOUNTS_TIMEOUT_MS);
  }

  /** Resolves with an open connection. @throws StoreUnavailable at the deadline, or if the client is closed */
  connected(deadline: number): Promise<Connection> {
    return this.retry(async (connection) => connection, deadline);
  }

  /** Repeats a call. A page has no timeout: while the connection lives, the server is searching the log. */
  call<O extends keyof Operations>(operation: O, argument: Argument<O>, deadline: number): Result<O> {
    const isPage = operation.startsWith('readPage');
    return this.retry(
      (connection, timeoutMs) => connection.call(operation, argument, isPage ? undefined : timeoutMs),
      deadline,
    );
  }

  /**
   * Repeats an attempt over an open connection until it succeeds, or until a deadline (of `performance.now()`).
   * @throws StoreUnavailable, AccessDenied, AppendDenied, EventUnreadable; CallFailed if retrying does not help
   */
  retry<T>(attempt: Attempt<T>, deadline: number): Promise<T> {
    const result = this.#repeat(async () => {
      const connection = await unlessLater(deadline - performance.now(), this.#connect());
      if (!connection) throw this.#lastFailure;
      return attempt(connection, Math.min(ATTEMPT_TIMEOUT_MS, deadline - performance.now()));
    }, deadline);
    this.#inFlight.add(result);
    const done = (): void => void this.#inFlight.delete(result);
    result.then(done, done);
    return result;
  }

  async #repeat<T>(attempt: () => Promise<T>, deadline: number): Promise<T> {
    let cause: CallFailed | undefined;
    let isUnreadable = true;
    for (let failures = 0; ; failures++) {
      if (this.closed.aborted) throw new StoreUnavailable('the log is closed', { cause });
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof CallFailed) || error.kind === 'permanent') throw error;
        const delay = backOff(failures, MAX_RETRY_DELAY_MS);
        const isLast = performance.now() + delay >= deadline;
        // The last attempt may have had too little time.
        if (!isLast || !cause) {
          cause = error;
          isUnreadable &&= error.kind === 'unreadable'; // each time: otherwise it may be for another reason
        }
        if (isLast) throw isUnreadable ? new EventUnreadable(cause.message, { cause }) : unavailable(cause);
        await sleep(delay, this.closed);
      }
    }
  }

  /** The open connection. All callers share the attempt to open one. @throws CallFailed; StoreUnavailable if closed */
  #connect(): Promise<Connection> {
    this.#opened ??= this.#open().catch(async (error) => {
      const isHinted = !this.#hasResponded && (error.kind === 'transient' || error.kind === 'broken');
      const failure = isHinted ? new CallFailed(error.kind, `${error.message}: ${UNREACHABLE_HINT}`) : error;
      if (failure instanceof CallFailed) this.#lastFailure = failure;
      await sleep(RECONNECT_DELAY_MS, this.closed);
      this.#opened = undefined;
      throw failure;
    });
    return this.#opened;
  }

  /** Opens the connection, or a new one if it has ended, with a read. */
  async #open(): Promise<Connection> {
    if (this.#connection.endReason !== undefined) {
      const age = performance.now() - this.#connection.startedAt;
      await sleep(MIN_CONNECTION_INTERVAL_MS - age, this.closed);
      if (this.closed.aborted) throw new StoreUnavailable('the log is closed');
      this.#listeners.observer?.onReconnect();
      this.#connection = new Connection(this.#url, this.#onNode);
    }
    const connection = this.#connection;
    await connection.started.promise;
    const timeoutMs = this.#hasResponded ? REOPENING_TIMEOUT_MS : FIRST_REPLY_TIMEOUT_MS;
    await connection.call('ping', undefined, timeoutMs);
    this.#hasResponded = true;
    void connection.ended.promise.then((failure) => {
      this.#lastFailure = failure;
      this.#opened = undefined;
    });
    return connection;
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
  const { kind, message } = cause;
  const Unavailable =
    kind === 'accessDenied' ? AccessDenied : kind === 'appendDenied' ? AppendDenied : StoreUnavailable;
  return new Unavailable(message, { cause });
}

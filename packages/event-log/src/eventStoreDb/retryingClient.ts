import { type StoreObserver, StoreUnavailable } from '../eventStore.ts';
import { backOff, finishedWithin, sleep } from '../time/sleep.ts';
import { Connection, isPageRead, type Result } from './connection.ts';
import type { CallFailed, WorkerOptions } from './protocol.ts';
import type { Operations } from './worker.ts';

/** The server refuses the account, or its certificate is not trusted: only another connection string helps. */
export class AccessDenied extends StoreUnavailable {}

export class AppendDenied extends StoreUnavailable {}

/** An attempt without a reply is repeated after this. The server gives up a write after 2 s. */
export const ATTEMPT_TIMEOUT_MS = 3_000;
export const MAX_RETRY_DELAY_MS = 1_000;
/** What calls in flight may take when the client is closed. */
export const CLOSE_TIMEOUT_MS = 1_500;
/** Between the starts of connections: each is a thread. */
export const MIN_CONNECTION_INTERVAL_MS = 1_000;

type Listeners = {
  observer?: StoreObserver | undefined;
  /** Called when another node of a cluster responds to reads, which only its leader does. */
  onLeaderChange?: ((from: string, to: string) => void) | undefined;
};

/** One connection at a time, replaced when it has ended; failed calls are retried until a deadline. */
export class RetryingClient {
  readonly options: WorkerOptions;
  readonly #listeners: Listeners;
  readonly #closing = new AbortController();
  readonly #inFlight = new Set<Promise<unknown>>();
  #connection: Connection;
  #connectionStartsAt = performance.now();
  /** The address of the node that has responded to the last read. */
  node: string | undefined;
  /** Connections in a row without any reply. */
  #silentConnections = 0;
  /** Whether a call has failed since the leader last responded to an append. */
  #isFailing = false;
  /** Aborts when it responds to an append again. */
  #recovery = new AbortController();

  constructor(options: WorkerOptions, listeners: Listeners = {}) {
    this.options = options;
    this.#listeners = listeners;
    this.#connection = new Connection(options, { onNode: this.#onNode });
  }

  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * Waits before another attempt, until the signal aborts or, unless that has already shortened a wait, the
   * leader responds to an append again. Returns whether it has: one that still fails is retried with back-off.
   */
  async pause(ms: number, signal: AbortSignal, wasWoken: boolean): Promise<boolean> {
    const recovered = this.#recovery.signal;
    await sleep(ms, wasWoken ? signal : AbortSignal.any([signal, recovered]));
    return wasWoken || recovered.aborted;
  }

  get connection(): Connection {
    if (this.#connection.endReason !== undefined && !this.closed.aborted) {
      const now = performance.now();
      this.#connectionStartsAt = Math.max(now, this.#connectionStartsAt + MIN_CONNECTION_INTERVAL_MS);
      const { hasReplied, serverHasResponded } = this.#connection;
      this.#silentConnections = hasReplied ? 0 : this.#silentConnections + 1;
      this.#listeners.observer?.onReconnect();
      this.#connection = new Connection(this.options, {
        delayMs: this.#connectionStartsAt - now,
        serverHasResponded,
        ...(serverHasResponded && { firstReplyTimeoutMs: this.#firstReplyTimeoutMs }),
        onNode: this.#onNode,
      });
    }
    return this.#connection;
  }

  /**
   * Short, since a cluster may lead to a leader that is frozen until it has another one; longer now and then, since
   * looking for the leader takes longer if several nodes do not respond.
   */
  get #firstReplyTimeoutMs(): number {
    return ATTEMPT_TIMEOUT_MS * (this.#silentConnections % 3 === 2 ? 2 : 1);
  }

  /**
   * Calls the server until it succeeds, for at most `timeoutMs`. @throws CallFailed with a kind that is a result;
   * StoreUnavailable; AppendDenied, or Error, if retrying does not help
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
    timeoutMs: number,
  ): Result<O> {
    const result = this.#retry(operation, argument, timeoutMs);
    this.#inFlight.add(result);
    const done = (): void => void this.#inFlight.delete(result);
    result.then(done, done);
    return result;
  }

  async #retry<O extends keyof Operations>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
    timeoutMs: number,
  ): Result<O> {
    const deadline = performance.now() + timeoutMs;
    let lastFailure: CallFailed | undefined;
    let wasWoken = false;
    for (let failures = 0; ; failures++) {
      if (this.closed.aborted) throw new StoreUnavailable('the log is closed', { cause: lastFailure });
      const remaining = deadline - performance.now();
      try {
        // A page may take longer: as long as its events arrive, there is no reason to begin it again.
        const attemptMs = isPageRead(operation) ? remaining : Math.min(ATTEMPT_TIMEOUT_MS, remaining);
        const result = await this.connection.call(operation, argument, attemptMs);
        if (operation === 'append') this.#recover();
        return result;
      } catch (error) {
        const failure = error as CallFailed;
        if (failure.kind === 'wrongRevision') this.#recover(); // the leader has compared the revisions
        if (failure.kind === 'wrongRevision' || failure.kind === 'streamDeleted') throw failure;
        if (failure.kind === 'permanent')
          throw new Error(`EventStoreDB rejects this permanently: ${failure.message}`, { cause: failure });
        if (failure.kind === 'appendDenied') throw new AppendDenied(failure.message, { cause: failure });
        this.#isFailing ||= failure.kind !== 'accessDenied'; // which may be for one kind of call only
        if (failure.kind !== 'timeout' || !lastFailure) lastFailure = failure;
      }
      const delay = backOff(failures, MAX_RETRY_DELAY_MS);
      if (performance.now() + delay >= deadline) throw unavailable(lastFailure);
      wasWoken = await this.pause(delay, this.closed, wasWoken);
    }
  }

  readonly #onNode = (node: string): void => {
    if (this.node !== undefined && this.node !== node) this.#listeners.onLeaderChange?.(this.node, node);
    this.node = node;
  };

  #recover(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#recovery.abort();
    this.#recovery = new AbortController();
  }

  /** Ends the connection when the calls in flight have their replies, soon at the latest. Nothing is retried now. */
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

import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { moduleBeside, Thread } from '@event-sourced/node/threads';
import { CallFailed, type LogId } from './protocol.ts';
import type { Operations } from './worker.ts';

export type Argument<O extends keyof Operations> = Parameters<Operations[O]>[0];
export type Result<O extends keyof Operations> = Promise<Awaited<ReturnType<Operations[O]>>>;

/** Starts with the problem of the connection string, if it has one. Its events are addresses for `onNode`. */
type ClientThread = Thread<Operations, string | undefined, string>;

/** A connection with a shorter silence is not considered broken. */
const MIN_SILENCE_MS = 1_000;
/** A connection is ended if every append is refused for this time; a leader election takes about 5 s. */
const REFUSED_APPENDS_TIMEOUT_MS = 3_000;

/**
 * A thread with an EventStoreDB client. The client neither retries nor times out, and can stay in a broken state
 * forever. So a connection that may be broken is discarded with all its calls.
 */
export class Connection {
  readonly startedAt = performance.now();
  /** Resolves when the thread has started; rejects if the URL is invalid, or the connection ends first. */
  readonly started = Promise.withResolvers<void>();
  /** Resolves with the reason when the connection has ended. */
  readonly ended = Promise.withResolvers<CallFailed>();
  /** Why the connection has ended; undefined while it is in use. */
  endReason: string | undefined;
  /** The ID of the log, once it was read over this connection. */
  logId: LogId | undefined;
  /** Attempts to read it and to store it, in flight, by their name. */
  readonly attempts = new Map<string, Promise<LogId>>();
  readonly #thread: ClientThread;
  /** The times of the last reply to any call, and of the last reply to an append. */
  #lastReplyAt = 0;
  #lastAppendReplyAt = 0;
  /** The time from which every append has been refused. */
  #appendsRefusedSince: number | undefined;

  /** `onNode` gets the address of the node that responded to the last read. */
  constructor(url: string, onNode?: (node: string) => void) {
    const thread: ClientThread = new Thread(moduleBeside(import.meta.url, 'worker'), {
      data: url,
      // With DEBUG=esdb:*, or for an unknown option, the client prints the connection string with its password.
      env: compileCache(),
      stdout: true,
      stderr: true,
      ...(onNode && { onEvent: onNode }),
      // The thread may have reported a reason first: it ends by itself if the connection string is invalid.
      onEnd: ({ message }) =>
        void thread.started.catch(() => {}).then(() => this.end(`the client failed: ${message}`)),
    });
    thread.worker.stdout.resume();
    thread.worker.stderr.resume();
    this.#thread = thread;
    this.started.promise.catch(() => {});
    thread.started.then(
      (invalid) =>
        invalid === undefined
          ? this.started.resolve()
          : this.started.reject(new CallFailed('permanent', invalid)),
      () => {},
    );
  }

  /**
   * The call fails without a reply within `timeoutMs`; if no other reply has arrived either, the connection ends.
   * @throws CallFailed
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Argument<O>,
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Result<O> {
    if (this.endReason !== undefined) return Promise.reject(new CallFailed('broken', this.endReason));
    const startedAt = performance.now();
    return new Promise((resolve, reject) => {
      const expire = (): void => {
        const silence = performance.now() - startedAt;
        const failure = new CallFailed('transient', `no response for ${Math.round(silence)} ms`);
        reject(failure);
        // Appends share one gRPC call, which may hang while reads work; a late read may just be long.
        const lastReplyAt = operation === 'append' ? this.#lastAppendReplyAt : this.#lastReplyAt;
        if (silence >= MIN_SILENCE_MS && lastReplyAt < startedAt) this.end(failure.message);
      };
      // Runs after the events that are due: the reply may have arrived while this thread was busy.
      let due: NodeJS.Immediate | undefined;
      const isLimited = timeoutMs !== Number.POSITIVE_INFINITY;
      const timer = isLimited
        ? setTimeout(() => (due = setImmediate(expire)), Math.max(timeoutMs, 0)).unref()
        : undefined;
      const replied = (failure?: CallFailed): void => {
        clearTimeout(timer);
        clearImmediate(due);
        this.#handleReply(operation, failure);
      };
      this.#thread.call(operation, argument).then(
        (value) => {
          replied();
          resolve(value);
        },
        ({ kind, message }: CallFailed) => {
          const failure =
            this.endReason === undefined
              ? new CallFailed(kind ?? 'broken', message)
              : new CallFailed('broken', this.endReason);
          replied(failure);
          reject(failure);
          if (failure.kind === 'broken') this.end(failure.message);
        },
      );
    });
  }

  /** Ends the thread; pending calls fail. */
  end(reason: string): void {
    if (this.endReason !== undefined) return;
    this.endReason = reason;
    void this.#thread.terminate();
    const failure = new CallFailed('broken', reason);
    this.started.reject(failure);
    this.ended.resolve(failure);
  }

  /** Even a late reply shows that the connection works. */
  #handleReply(operation: keyof Operations, failure: CallFailed | undefined): void {
    this.#lastReplyAt = performance.now();
    if (operation !== 'append') return;
    this.#lastAppendReplyAt = this.#lastReplyAt;
    this.#watchAppends(this.#lastReplyAt, failure);
  }

  /**
   * Ends the connection if all appends are refused: its node may be an isolated former leader, and its one call for
   * appends keeps the groups that its user had.
   */
  #watchAppends(now: number, failure: CallFailed | undefined): void {
    if (failure?.kind !== 'transient' && failure?.kind !== 'appendDenied') {
      this.#appendsRefusedSince = undefined;
      return;
    }
    this.#appendsRefusedSince ??= now;
    if (now - this.#appendsRefusedSince > REFUSED_APPENDS_TIMEOUT_MS) this.end(failure.message);
  }
}

/** Passes on the process's compile cache, if any, which halves the thread's time to start. */
function compileCache(): Record<string, string> {
  const dir = getCompileCacheDir();
  return dir === undefined ? {} : { NODE_COMPILE_CACHE: dirname(dir) };
}

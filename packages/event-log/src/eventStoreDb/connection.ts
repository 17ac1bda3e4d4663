import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { moduleBeside, Thread } from '../threads/thread.ts';
import { CallFailed, type FailureKind } from './protocol.ts';
import type { Operations } from './worker.ts';

export type Argument<O extends keyof Operations> = Parameters<Operations[O]>[0];
export type Result<O extends keyof Operations> = Promise<Awaited<ReturnType<Operations[O]>>>;

/** Starts with what is wrong with the connection string, if anything is. Its events are addresses for `onNode`. */
type ClientThread = Thread<Operations, string | undefined, string>;

/** A shorter silence is not taken for a broken connection. */
const MIN_SILENCE_MS = 1_000;
/** A node that refuses every append for this time is given up; a leader election takes about 5 s. */
const REFUSED_APPENDS_TIMEOUT_MS = 3_000;

/**
 * A thread with a client of EventStoreDB. The client neither retries nor gives up, and can end up in a broken
 * state for good, so a connection that may be broken is discarded, with all its calls.
 */
export class Connection {
  readonly startedAt = performance.now();
  /** Resolves when the thread has started; rejects if the connection ends before. */
  readonly started = Promise.withResolvers<void>();
  /** Resolves with the reason when the connection has ended. */
  readonly ended = Promise.withResolvers<CallFailed>();
  /** Why the connection has ended; undefined while it is in use. */
  endReason: string | undefined;
  /** The ID of the first event of $all, as read over this connection; undefined if there was none. */
  firstEventId: string | undefined;
  #endKind: FailureKind = 'unavailable';
  readonly #thread: ClientThread;
  /** When the last reply came, to any call and to an append. */
  #lastReplyAt = 0;
  #lastAppendReplyAt = 0;
  #hasSucceeded = false;
  /** Since when every append has been refused. */
  #appendsRefusedSince: number | undefined;

  /** `onNode` gets the address of the node that has responded to the last read. */
  constructor(url: string, onNode?: (node: string) => void) {
    const thread: ClientThread = new Thread(moduleBeside(import.meta.url, 'worker'), {
      data: url,
      // The client prints the connection string, with its password, for DEBUG=esdb:* or an unknown option.
      env: compileCache(),
      stdout: true,
      stderr: true,
      ...(onNode && { onEvent: onNode }),
      // After the reason that the thread may have given: it ends by itself if the connection string is invalid.
      onEnd: ({ message }) =>
        void thread.started.catch(() => {}).then(() => this.end(`the client failed: ${message}`)),
    });
    thread.worker.stdout.resume();
    thread.worker.stderr.resume();
    this.#thread = thread;
    this.started.promise.catch(() => {});
    thread.started.then(
      (invalid) =>
        invalid === undefined ? this.started.resolve() : this.end(invalid, 'badConnectionString'),
      () => {},
    );
  }

  /**
   * Without a reply within `timeoutMs` the call fails; the connection ends too if nothing was heard from it meanwhile.
   * @throws CallFailed
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Argument<O>,
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Result<O> {
    if (this.endReason !== undefined) return Promise.reject(new CallFailed(this.#endKind, this.endReason));
    const startedAt = performance.now();
    return new Promise((resolve, reject) => {
      const expire = (): void => {
        const silence = performance.now() - startedAt;
        const failure = new CallFailed('timeout', `no response for ${Math.round(silence)} ms`);
        reject(failure);
        // Appends share one gRPC call, which may hang while others work; a late read may just be long.
        const lastReplyAt = operation === 'append' ? this.#lastAppendReplyAt : this.#lastReplyAt;
        if (silence >= MIN_SILENCE_MS && lastReplyAt < startedAt) this.end(failure.message);
      };
      // After the events that are due: the reply may have arrived while this thread was busy.
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
              ? new CallFailed(kind ?? 'unavailable', message)
              : new CallFailed(this.#endKind, this.endReason);
          replied(failure);
          reject(failure);
          if (this.#isBrokenBy(failure)) this.end(failure.message);
        },
      );
    });
  }

  /** Ends the thread; pending calls fail. */
  end(reason: string, kind: FailureKind = 'unavailable'): void {
    if (this.endReason !== undefined) return;
    this.endReason = reason;
    this.#endKind = kind;
    void this.#thread.terminate();
    const failure = new CallFailed(kind, reason);
    this.started.reject(failure);
    this.ended.resolve(failure);
  }

  /** A late reply shows that the connection works, too. */
  #handleReply(operation: keyof Operations, failure: CallFailed | undefined): void {
    this.#lastReplyAt = performance.now();
    if (!failure) this.#hasSucceeded = true;
    if (operation !== 'append') return;
    this.#lastAppendReplyAt = this.#lastReplyAt;
    this.#watchAppends(this.#lastReplyAt, failure);
  }

  /** The client replaces its channel, or may be in a broken state. A server that was never reachable is neither. */
  #isBrokenBy({ kind }: CallFailed): boolean {
    return kind === 'connectionBroken' || (kind === 'unavailable' && this.#hasSucceeded);
  }

  /** A node that responds but refuses all appends, such as a former leader that is isolated, is given up. */
  #watchAppends(now: number, failure: CallFailed | undefined): void {
    if (failure?.kind !== 'transient') {
      this.#appendsRefusedSince = undefined;
      return;
    }
    this.#appendsRefusedSince ??= now;
    if (now - this.#appendsRefusedSince > REFUSED_APPENDS_TIMEOUT_MS) this.end(failure.message);
  }
}

/** The process's compile cache, if it has one: it halves the time that the thread takes to start. */
function compileCache(): Record<string, string> {
  const dir = getCompileCacheDir();
  return dir === undefined ? {} : { NODE_COMPILE_CACHE: dirname(dir) };
}

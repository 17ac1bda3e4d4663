import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { moduleBeside, Thread } from '../threads/thread.ts';
import { CallFailed, type FailureKind, type WorkerOptions } from './protocol.ts';
import type { Operations } from './worker.ts';

export type Result<O extends keyof Operations> = Promise<Awaited<ReturnType<Operations[O]>>>;

/** Starts with what is wrong with the connection string, if anything is. Its events are addresses for `onNode`. */
type ClientThread = Thread<Operations, string | undefined, string>;

type PendingCall = {
  operation: keyof Operations;
  startedAt: number;
  deadline: number;
  reject: (error: CallFailed) => void;
};

/** A shorter silence is not taken for a broken connection. */
const MIN_SILENCE_MS = 1_000;
/** The thread may take this to start, and then again to its first reply: on a busy machine, seconds. */
export const FIRST_REPLY_TIMEOUT_MS = 10_000;
/** A node that refuses every append for this time is given up; a leader election takes about 5 s. */
const REFUSED_APPENDS_TIMEOUT_MS = 3_000;
/** What to check as long as the server has never responded. */
const UNREACHABLE_HINT = 'check that the server runs, and hosts, tls and tlsCAFile in the connection string';
export const DEADLINE_CHECK_INTERVAL_MS = 100;

type ConnectionOptions = {
  /** The thread starts after this time, in milliseconds; calls wait for it. */
  delayMs?: number;
  /** Whether the server has responded to an earlier connection: decides what the message of a timeout suggests. */
  serverHasResponded?: boolean;
  /** How long the started thread may take to its first reply, in milliseconds. */
  firstReplyTimeoutMs?: number;
  /** Called with the address of the node that has responded to the last read. */
  onNode?: (node: string) => void;
};

/**
 * A thread with a client of EventStoreDB. The client neither retries nor gives up, and can end up in a broken
 * state for good, so a connection that may be broken is discarded, with all its calls.
 */
export class Connection {
  /** Why the connection has ended; undefined while it is in use. */
  endReason: string | undefined;
  #endKind: FailureKind = 'unavailable';
  #thread: ClientThread | undefined;
  readonly #running = Promise.withResolvers<ClientThread>();
  readonly #startTimer: NodeJS.Timeout;
  readonly #options: ConnectionOptions;
  /** By this time the thread has to start, and then to have its first reply. */
  #firstReplyDueAt = Number.POSITIVE_INFINITY;
  readonly #pending = new Set<PendingCall>();
  /** When the last reply came, to any call and to an append. */
  #lastReplyAt: number | undefined;
  #lastAppendReplyAt = 0;
  #hasSucceeded = false;
  /** Since when every append has been refused. */
  #appendsRefusedSince: number | undefined;
  // After the events that are due: replies may have arrived while this thread was busy.
  #deadlineCheck = setInterval(
    () => setImmediate(() => this.#expireCalls()),
    DEADLINE_CHECK_INTERVAL_MS,
  ).unref();

  constructor(worker: WorkerOptions, options: ConnectionOptions = {}) {
    this.#options = options;
    this.#startTimer = setTimeout(() => this.#start(worker), options.delayMs);
  }

  /** Whether any call had a reply, also a failure. */
  get hasReplied(): boolean {
    return this.#lastReplyAt !== undefined;
  }

  /** Whether the server has responded to this connection or an earlier one. */
  get serverHasResponded(): boolean {
    return this.#hasSucceeded || this.#options.serverHasResponded === true;
  }

  #start(worker: WorkerOptions): void {
    this.#firstReplyDueAt = performance.now() + FIRST_REPLY_TIMEOUT_MS;
    const thread: ClientThread = new Thread(moduleBeside(import.meta.url, 'worker'), {
      data: worker,
      // The client prints the connection string, with its password, for DEBUG=esdb:* or an unknown option.
      env: compileCache(),
      stdout: true,
      stderr: true,
      onEvent: (node) => this.#options.onNode?.(node),
      // After the reason that the thread may have given: it ends by itself if the connection string is invalid.
      onEnd: ({ message }) =>
        void thread.started.catch(() => {}).then(() => this.end(`the client failed: ${message}`)),
    });
    thread.worker.stdout.resume();
    thread.worker.stderr.resume();
    this.#thread = thread;
    thread.started.then(
      (invalid) => {
        const { firstReplyTimeoutMs = FIRST_REPLY_TIMEOUT_MS } = this.#options;
        this.#firstReplyDueAt = performance.now() + firstReplyTimeoutMs;
        if (invalid === undefined) this.#running.resolve(thread);
        else this.end(invalid, 'badConnectionString');
      },
      () => {},
    );
  }

  /**
   * Without a reply within `timeoutMs`, or the connection's first one, the call fails; the connection ends too if
   * nothing was heard from it meanwhile.
   * @throws CallFailed
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Result<O> {
    if (this.endReason !== undefined) return Promise.reject(new CallFailed(this.#endKind, this.endReason));
    const startedAt = performance.now();
    return new Promise((resolve, reject) => {
      const call = { operation, startedAt, deadline: startedAt + timeoutMs, reject };
      this.#pending.add(call);
      this.#running.promise
        .then((thread) => thread.call(operation, argument))
        .then(
          (value) => {
            if (this.#handleReply(call)) resolve(value);
          },
          (failure: CallFailed) => {
            if (!this.#handleReply(call, failure)) return;
            reject(new CallFailed(failure.kind, failure.message));
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
    clearInterval(this.#deadlineCheck);
    clearTimeout(this.#startTimer);
    void this.#thread?.terminate();
    for (const { reject } of this.#pending) reject(new CallFailed(kind, reason));
    this.#pending.clear();
  }

  /** Whether the call was still waiting for it; a late result shows that the connection works, too. */
  #handleReply(call: PendingCall, failure?: CallFailed): boolean {
    const isAwaited = this.#pending.delete(call);
    if (!isAwaited && failure) return false;
    this.#lastReplyAt = performance.now();
    if (!failure) this.#hasSucceeded = true;
    if (call.operation === 'append') {
      this.#lastAppendReplyAt = this.#lastReplyAt;
      this.#watchAppends(this.#lastReplyAt, failure);
    }
    return isAwaited;
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

  #expireCalls(): void {
    if (this.endReason !== undefined) return;
    const now = performance.now();
    const hint = this.serverHasResponded ? '' : `: ${UNREACHABLE_HINT}`;
    for (const call of this.#pending) {
      const { operation, startedAt, deadline, reject } = call;
      const silence = now - startedAt;
      const isSilent = silence >= MIN_SILENCE_MS && this.#isSilentSince(operation, startedAt);
      const isFirstReplyOverdue = isSilent && !this.hasReplied && !isPageRead(operation);
      if (now < deadline && !isFirstReplyOverdue) continue;
      const message = `no response for ${Math.round(silence)} ms${hint}`;
      this.#pending.delete(call);
      reject(new CallFailed('timeout', message));
      if (isSilent) this.end(message);
    }
  }

  /** Appends share one gRPC call, which may hang while others work; a late read may just be long. */
  #isSilentSince(operation: keyof Operations, time: number): boolean {
    if (this.#lastReplyAt === undefined) return performance.now() >= this.#firstReplyDueAt;
    return (operation === 'append' ? this.#lastAppendReplyAt : this.#lastReplyAt) < time;
  }
}

/** Whether the reply takes as long as the events of a page arrive. */
export const isPageRead = (operation: keyof Operations): boolean => operation.startsWith('readPage');

/** The process's compile cache, if it has one: it halves the time that the thread takes to start. */
function compileCache(): Record<string, string> {
  const dir = getCompileCacheDir();
  return dir === undefined ? {} : { NODE_COMPILE_CACHE: dirname(dir) };
}

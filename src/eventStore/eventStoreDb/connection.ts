import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Call, Failure, Operations, Replies, WorkerOptions } from './protocol.ts';

/** A call to the server failed; `kind` says what to do. */
export class CallFailed extends Error {
  override readonly name = 'CallFailed';
  readonly kind: Failure['kind'];
  constructor({ kind, message }: Failure) {
    super(message);
    this.kind = kind;
  }
}

type PendingCall = {
  operation: keyof Operations;
  startedAt: number;
  deadline: number;
  resolve: (value: never) => void;
  reject: (error: CallFailed) => void;
};

/** A shorter silence is not taken for a broken connection, in milliseconds. */
const MIN_SILENCE_MS = 1_000;
/** The thread may take so long to start, and then to its first reply, in milliseconds: on a busy machine, seconds. */
export const FIRST_REPLY_TIMEOUT_MS = 10_000;
/**
 * A node that refuses every append for so long is given up, in milliseconds; a leader election takes about 5
 * 000.
 */
const REFUSED_APPENDS_TIMEOUT_MS = 3_000;
/** What to check as long as the server has never responded. */
const UNREACHABLE_HINT = 'check that the server runs, and hosts, tls and tlsCAFile in the connection string';
/** How often calls are checked against their deadline, in milliseconds. */
const SWEEP_INTERVAL_MS = 100;

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
  #worker: Worker | undefined;
  #startedAt = Number.POSITIVE_INFINITY;
  /** When the thread had started. */
  #readyAt: number | undefined;
  readonly #startTimer: NodeJS.Timeout;
  #pending = new Map<number, PendingCall>();
  #lastCallId = 0;
  #outgoing: Call[] = [];
  /** When the last reply came, by operation, and of any operation. */
  #lastReplyAt = new Map<keyof Operations, number>();
  #lastAnyReplyAt: number | undefined;
  #hasSucceeded = false;
  readonly #serverHasResponded: boolean;
  readonly #firstReplyTimeoutMs: number;
  readonly #onNode: (node: string) => void;
  /** Since when every append has been refused. */
  #appendsRefusedSince: number | undefined;
  // After the events that are due: replies may have arrived while this thread was busy.
  #sweep = setInterval(() => setImmediate(() => this.#expireCalls()), SWEEP_INTERVAL_MS).unref();

  constructor(
    options: WorkerOptions,
    {
      delayMs = 0,
      serverHasResponded = false,
      firstReplyTimeoutMs = FIRST_REPLY_TIMEOUT_MS,
      onNode = () => {},
    }: ConnectionOptions = {},
  ) {
    this.#serverHasResponded = serverHasResponded;
    this.#firstReplyTimeoutMs = firstReplyTimeoutMs;
    this.#onNode = onNode;
    this.#startTimer = setTimeout(() => this.#start(options), delayMs);
  }

  /** Whether any call had a reply, also a failure. */
  get hasReplied(): boolean {
    return this.#lastAnyReplyAt !== undefined;
  }

  /** Whether the server has responded to this connection or an earlier one. */
  get serverHasResponded(): boolean {
    return this.#serverHasResponded || this.#hasSucceeded;
  }

  #start(options: WorkerOptions): void {
    this.#startedAt = performance.now();
    const worker = new Worker(new URL('./worker.ts', import.meta.url), {
      workerData: options,
      // The client prints the connection string, with its password, for DEBUG=esdb:* or an unknown option.
      env: compileCache(),
      stdout: true,
      stderr: true,
    });
    worker.stdout.resume();
    worker.stderr.resume();
    worker.on('message', (replies: Replies) => this.#handle(replies));
    worker.on('error', (error) => this.end(`the client failed: ${(error as Error).message}`));
    worker.on('exit', () => this.end('the client thread ended'));
    this.#worker = worker;
    this.#send();
  }

  /**
   * Calls the client. Without a reply within `timeoutMs` the call fails; the connection ends too if nothing
   * was heard from it meanwhile, unless its first reply may still come.
   * @throws CallFailed
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
    timeoutMs = Number.POSITIVE_INFINITY,
  ): Promise<ReturnType<Operations[O]>> {
    if (this.endReason !== undefined) return Promise.reject(ended(this.endReason));
    const id = ++this.#lastCallId;
    // The calls of one event loop turn share a message.
    if (this.#outgoing.length === 0) setImmediate(() => this.#send());
    this.#outgoing.push({ id, operation, argument });
    const startedAt = performance.now();
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { operation, startedAt, deadline: startedAt + timeoutMs, resolve, reject });
    });
  }

  /** Ends the thread; pending calls fail. */
  end(reason: string): void {
    if (this.endReason !== undefined) return;
    this.endReason = reason;
    clearInterval(this.#sweep);
    clearTimeout(this.#startTimer);
    void this.#worker?.terminate();
    for (const { reject } of this.#pending.values()) reject(ended(reason));
    this.#pending.clear();
  }

  #send(): void {
    if (!this.#worker || this.#outgoing.length === 0) return;
    const calls = this.#outgoing;
    this.#outgoing = [];
    if (this.endReason === undefined) this.#worker.postMessage(calls);
  }

  #handle({ replies, node }: Replies): void {
    const now = performance.now();
    this.#readyAt ??= now;
    if (node !== undefined) this.#onNode(node);
    for (const { id, value, failure } of replies) {
      const call = this.#pending.get(id);
      if (!call) continue; // timed out
      this.#pending.delete(id);
      this.#lastReplyAt.set(call.operation, now);
      this.#lastAnyReplyAt = now;
      if (call.operation === 'append') this.#watchAppends(now, failure);
      if (failure) {
        call.reject(new CallFailed(failure));
        if (this.#isBrokenBy(failure)) this.end(failure.message);
      } else {
        this.#hasSucceeded = true;
        call.resolve(value as never);
      }
    }
  }

  /**
   * The client is about to replace its channel, or may be in a broken state. A server that was never
   * reachable is neither.
   */
  #isBrokenBy({ kind }: Failure): boolean {
    return kind === 'connectionBroken' || (kind === 'unavailable' && this.#hasSucceeded);
  }

  /** A node that responds but refuses all appends, such as a former leader that is isolated, is given up. */
  #watchAppends(now: number, failure: Failure | undefined): void {
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
    for (const [id, { operation, startedAt, deadline, reject }] of this.#pending) {
      if (now < deadline) continue;
      const silence = now - startedAt;
      const hint = this.serverHasResponded ? '' : `: ${UNREACHABLE_HINT}`;
      const message = `no response for ${Math.round(silence)} ms${hint}`;
      this.#pending.delete(id);
      reject(new CallFailed({ kind: 'timeout', message }));
      if (silence >= MIN_SILENCE_MS && this.#isSilentSince(operation, startedAt) && !this.#isStarting(now)) {
        this.end(message);
        return;
      }
    }
  }

  /** Appends share one gRPC call, which may hang while others work; a late read may just be long. */
  #isSilentSince(operation: keyof Operations, time: number): boolean {
    const lastReplyAt = operation === 'append' ? this.#lastReplyAt.get(operation) : this.#lastAnyReplyAt;
    return (lastReplyAt ?? 0) < time;
  }

  #isStarting(now: number): boolean {
    if (this.hasReplied) return false;
    return this.#readyAt === undefined
      ? now - this.#startedAt < FIRST_REPLY_TIMEOUT_MS
      : now - this.#readyAt < this.#firstReplyTimeoutMs;
  }
}

/** The process's compile cache, if it has one: it halves the time that the thread takes to start. */
function compileCache(): Record<string, string> {
  const dir = getCompileCacheDir();
  return dir === undefined ? {} : { NODE_COMPILE_CACHE: dirname(dir) };
}

function ended(message: string): CallFailed {
  return new CallFailed({ kind: 'unavailable', message });
}

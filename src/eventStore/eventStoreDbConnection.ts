import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Answer, Call, Operations, Work } from './eventStoreDbClient.ts';
import type { Failure } from './eventStoreDbFailures.ts';

/** A call has failed, in one of the ways that `Failure` names. */
export class CallFailed extends Error {
  readonly kind: Failure['kind'];
  constructor({ kind, message }: Failure) {
    super(message);
    this.kind = kind;
  }
}

type Pending = {
  operation: keyof Operations;
  at: number;
  until: number;
  resolve: (value: never) => void;
  reject: (failed: CallFailed) => void;
};

/** Silence shorter than this says nothing of a connection, in milliseconds. */
const TELLING = 1_000;
/** A connection has this long to give its first answer, in milliseconds: on a busy machine the thread alone takes seconds. */
export const FIRST_ANSWER_TIMEOUT_MS = 10_000;
/** A leader change takes about 5 000; in milliseconds. */
const LONGEST_PUT_OFF = 3_000;
/** How often calls without an answer are looked for, in milliseconds. */
const SWEEP = 100;

/**
 * One thread with one client of EventStoreDB, from its first call until it ends. The client neither repeats nor gives
 * up, and can be poisoned for good, so a connection that is not certainly sound is thrown away, with all its calls.
 */
export class Connection {
  /** Why it has ended. */
  ended: string | undefined;
  #worker: Worker | undefined;
  readonly #start: NodeJS.Timeout;
  #pending = new Map<number, Pending>();
  #calls = 0;
  #posting: Call[] = [];
  /** When an answer to an operation came last. */
  #heardAt = new Map<keyof Operations, number>();
  #heardAnythingAt = 0;
  #startedAt = Number.POSITIVE_INFINITY;
  #hasWorked = false;
  /** Since when appends have only been put off. */
  #putOffSince: number | undefined;
  // Answers that have arrived while this thread was busy come first.
  #sweep = setInterval(() => setImmediate(() => this.#giveUp()), SWEEP).unref();

  /** Begins after `delay` milliseconds; calls wait for it. */
  constructor(work: Work, delay = 0) {
    this.#start = setTimeout(() => this.#begin(work), delay);
  }

  #begin(work: Work): void {
    this.#startedAt = performance.now();
    const worker = new Worker(new URL('./eventStoreDbClient.ts', import.meta.url), {
      workerData: work,
      // What the client prints may hold the connection string with its password: DEBUG=esdb:*, an unknown option.
      env: compileCache(),
      stdout: true,
      stderr: true,
    });
    worker.stdout.resume();
    worker.stderr.resume();
    worker.on('message', (answers: Answer[]) => this.#settle(answers));
    worker.on('error', (error) => this.end(`its client has failed: ${(error as Error).message}`));
    worker.on('exit', () => this.end('its thread has ended'));
    this.#worker = worker;
    this.#post();
  }

  /**
   * Asks the client; without an answer within `patience` milliseconds the call fails, and if nothing has been heard
   * meanwhile the connection ends, unless it is so new that its first answer may still come.
   * @throws CallFailed
   */
  call<O extends keyof Operations>(
    operation: O,
    argument: Parameters<Operations[O]>[0],
    patience = Number.POSITIVE_INFINITY,
  ): Promise<ReturnType<Operations[O]>> {
    if (this.ended !== undefined) return Promise.reject(lost(this.ended));
    const call = this.#calls++;
    // Calls of one event loop turn share one message.
    if (this.#posting.length === 0) setImmediate(() => this.#post());
    this.#posting.push({ call, operation, argument });
    const at = performance.now();
    return new Promise((resolve, reject) => {
      this.#pending.set(call, { operation, at, until: at + patience, resolve, reject });
    });
  }

  /** Lets go of the client and of whatever it waits for; calls without an answer fail. */
  end(reason: string): void {
    if (this.ended !== undefined) return;
    this.ended = reason;
    clearInterval(this.#sweep);
    clearTimeout(this.#start);
    void this.#worker?.terminate();
    for (const { reject } of this.#pending.values()) reject(lost(reason));
    this.#pending.clear();
  }

  #post(): void {
    if (!this.#worker || this.#posting.length === 0) return;
    const calls = this.#posting;
    this.#posting = [];
    if (this.ended === undefined) this.#worker.postMessage(calls);
  }

  #settle(answers: Answer[]): void {
    const now = performance.now();
    for (const { call, value, failure } of answers) {
      const pending = this.#pending.get(call);
      if (!pending) continue; // given up
      this.#pending.delete(call);
      this.#heardAt.set(pending.operation, now);
      this.#heardAnythingAt = now;
      if (pending.operation === 'append') this.#watchAppends(now, failure);
      if (!failure) {
        this.#hasWorked = true;
        pending.resolve(value as never);
        continue;
      }
      pending.reject(new CallFailed(failure));
      this.#judge(failure);
    }
  }

  /** After these the client is about to change its channel, or may be poisoned. A server that is away is neither. */
  #judge({ kind, message }: Failure): void {
    if (kind === 'unsound' || (kind === 'unreachable' && this.#hasWorked)) this.end(message);
  }

  /** A node that answers but takes no append is none to stay with: a former leader that is cut off, say. */
  #watchAppends(now: number, failure: Failure | undefined): void {
    if (failure?.kind !== 'passing') {
      this.#putOffSince = undefined;
      return;
    }
    this.#putOffSince ??= now;
    if (now - this.#putOffSince > LONGEST_PUT_OFF) this.end(failure.message);
  }

  #giveUp(): void {
    if (this.ended !== undefined) return;
    const now = performance.now();
    for (const [call, { operation, at, until, reject }] of this.#pending) {
      if (now < until) continue;
      const message = `no answer for ${Math.round(now - at)} ms`;
      this.#pending.delete(call);
      reject(new CallFailed({ kind: 'unanswered', message }));
      // Appends share one call, which may hang alone; a read that is late may just be long.
      const heardAt = operation === 'append' ? (this.#heardAt.get(operation) ?? 0) : this.#heardAnythingAt;
      const mayBeStarting = this.#heardAnythingAt === 0 && now - this.#startedAt < FIRST_ANSWER_TIMEOUT_MS;
      if (now - at >= TELLING && heardAt < at && !mayBeStarting) {
        this.end(message);
        return;
      }
    }
  }
}

/** With a compile cache, loading the client's modules takes half the time; a thread reads it from its environment only. */
function compileCache(): { NODE_COMPILE_CACHE?: string } {
  const dir = getCompileCacheDir(); // of this version of Node, below what was configured
  return dir === undefined ? {} : { NODE_COMPILE_CACHE: dirname(dir) };
}

function lost(message: string): CallFailed {
  return new CallFailed({ kind: 'unreachable', message });
}

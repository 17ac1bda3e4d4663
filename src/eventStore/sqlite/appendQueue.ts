import { on, once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { LogDamaged, type NewEvent, StoreUnavailable, WrongExpectedRevision } from '../eventStore.ts';
import {
  type AppendRequest,
  type AppendResult,
  type CommitReply,
  type CommitRequest,
  isCommitReply,
  READY,
} from './protocol.ts';

export type Committed = { position: bigint; revision: bigint; isDuplicate: boolean };

type Append = {
  stream: string;
  event: NewEvent;
  request: AppendRequest;
  resolve: (committed: Committed) => void;
  reject: (error: Error) => void;
};

type Options = {
  file: string;
  now: () => Date;
  /** Called with the events of each transaction once it is durable, before its appends are resolved. */
  onCommit: (events: Array<Committed & { stream: string; event: NewEvent }>) => void;
  /** Called once if durability cannot be guaranteed any more; the process must end. */
  onFatal: (error: Error) => void;
  /** Called if the log turns out to be damaged. */
  onDamage: (error: LogDamaged) => void;
};

/**
 * Group commit: appends that arrive while the writer thread commits wait for the next transaction, which they
 * share with its one fsync. Each is resolved after that fsync.
 */
export class AppendQueue {
  readonly #options: Options;
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #waiting: Append[] = [];
  #committing: Append[] = [];
  /** Why no append is accepted any more; undefined while the queue is open. */
  #closed: StoreUnavailable | undefined;
  #failed = false;

  private constructor(options: Options) {
    this.#options = options;
    this.#worker = new Worker(new URL('./appendWorker.ts', import.meta.url), { workerData: options.file });
    this.#exited = once(this.#worker, 'exit');
    this.#exited.catch(() => {});
  }

  /** Starts the writer thread. @throws UnusableLog */
  static async start(options: Options): Promise<AppendQueue> {
    const queue = new AppendQueue(options);
    for await (const [message] of on(queue.#worker, 'message')) if (message === READY) break; // or an error
    queue.#worker.on('error', (error) => queue.#fail(error as Error));
    queue.#worker.on('message', (message) => {
      if (isCommitReply(message)) queue.#handle(message);
    });
    return queue;
  }

  /** @throws WrongExpectedRevision, StoreUnavailable, TypeError for what is not JSON */
  append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Committed> {
    if (this.#closed) throw this.#closed;
    const { id, type } = event;
    const [data, metadata] = [JSON.stringify(event.data), JSON.stringify(event.metadata)];
    const request: AppendRequest = [id, stream, expectedRevision, type, data, metadata];
    return new Promise((resolve, reject) => {
      // The first append of an event loop turn waits for the others of that turn.
      if (this.#waiting.length === 0 && this.#committing.length === 0) setImmediate(() => this.#commit());
      this.#waiting.push({ stream, event, request, resolve, reject });
    });
  }

  /** Waits for the appends in flight and a last checkpoint. */
  async close(): Promise<void> {
    this.#closed ??= new StoreUnavailable('the log is closed');
    while (this.#waiting.length > 0 || this.#committing.length > 0) await nextTurn();
    this.#worker.postMessage('close');
    await this.#exited;
  }

  #commit(): void {
    if (this.#committing.length > 0 || this.#waiting.length === 0) return;
    [this.#committing, this.#waiting] = [this.#waiting, []];
    const request: CommitRequest = {
      appends: this.#committing.map(({ request }) => request),
      recordedAt: this.#options.now().toISOString(),
    };
    this.#worker.postMessage(request);
  }

  /** Accepts no append any more, and rejects those that wait. */
  refuse(reason: StoreUnavailable): void {
    this.#closed ??= reason;
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
  }

  #handle(reply: CommitReply): void {
    if ('fatal' in reply) {
      this.#fail(new Error(reply.fatal));
      return;
    }
    if ('damaged' in reply) {
      this.#options.onDamage(new LogDamaged(reply.damaged));
      return;
    }
    const appends = this.#committing;
    this.#committing = [];
    setImmediate(() => this.#commit());
    if ('rolledBack' in reply) {
      for (const { reject } of appends) reject(new StoreUnavailable(reply.rolledBack));
      return;
    }
    const committed = appends.flatMap(({ stream, event }, i) => {
      const result = reply.results[i] as AppendResult;
      return 'position' in result && !result.isDuplicate ? [{ ...result, stream, event }] : [];
    });
    if (committed.length > 0) this.#options.onCommit(committed);
    for (const [i, append] of appends.entries()) finish(append, reply.results[i] as AppendResult);
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#closed = new StoreUnavailable(error.message, { cause: error });
    for (const { reject } of [...this.#committing, ...this.#waiting]) reject(this.#closed);
    this.#committing = [];
    this.#waiting = [];
    this.#options.onFatal(error);
  }
}

function finish({ request: [, stream, expected], resolve, reject }: Append, result: AppendResult): void {
  if ('position' in result) resolve(result);
  else if ('wrongRevision' in result) reject(new WrongExpectedRevision(stream, expected));
  else reject(new Error(`the log rejected the event: ${result.rejected}`));
}

import { fileIdentity } from '@event-sourced/node/files';
import { moduleBeside, Thread } from '@event-sourced/node/threads';
import type { AppendRequest } from '../appendRequest.ts';
import type { OpenFile, WalThread } from '../disk/walThread.ts';
import {
  type Appended,
  LogDamaged,
  type NewEvent,
  type Position,
  type RecordedEvent,
  type StoreObserver,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../eventStore.ts';
import { traceEvents } from '../tracing/spans.ts';
import type { StubRow } from './overwrite.ts';
import {
  type AppendBatch,
  type AppendResult,
  type AppendRow,
  type CommitReply,
  endingReplies,
  type WriterOperations,
} from './protocol.ts';

/** The number of appends in a message to the writer thread; fewer at the end of an event loop turn. */
const BATCH_SIZE = 16;

type Requested = { request: AppendRequest; event: NewEvent };

type Append = Requested & {
  resolve: (appended: Appended) => void;
  reject: (error: Error) => void;
};

/** An erasure that the writer thread has not replied to. */
type PendingErasure = {
  records: readonly Requested[];
  resolve: (positions: Position[]) => void;
  reject: (error: Error) => void;
};

type Options = {
  file: string;
  logId: string;
  walThread: Pick<WalThread, 'walCheckpoint'>;
  now: () => Date;
  /** Called with the events of each transaction once it is durable, before its appends are resolved. */
  onCommit: (events: RecordedEvent[]) => void;
  /** Called once when durability can no longer be guaranteed; the process must end. */
  onFatal: (error: Error) => void;
  /** Called if the log turns out to be damaged. */
  onDamage: (error: LogDamaged) => void;
  observer?: StoreObserver | undefined;
};

/**
 * Group commit: appends that reach the writer thread during a commit share the next transaction and its single fsync.
 * Each append is resolved after that fsync.
 */
export class AppendQueue {
  readonly #options: Options;
  readonly #thread: Thread<WriterOperations, void, CommitReply>;
  /** Not yet handed to the writer thread. */
  #waiting: Append[] = [];
  /** Handed to the writer thread, not yet resolved or rejected, in order. */
  #committing: Append[] = [];
  /** Handed to the writer thread, in order. */
  readonly #erasing: PendingErasure[] = [];
  #walCheckpoint = Promise.resolve();
  /** Why appends are rejected; undefined while the queue is open. */
  #closed: StoreUnavailable | undefined;
  #isStarted = false;
  #failed = false;

  private constructor(options: Options) {
    this.#options = options;
    this.#thread = new Thread(moduleBeside(import.meta.url, 'appendWorker'), {
      data: options.file,
      onEvent: (reply) => this.#handle(reply),
      onEnd: (error) => this.#isStarted && this.#fail(error),
    });
  }

  static async start(options: Options): Promise<AppendQueue> {
    const queue = new AppendQueue(options);
    await queue.#thread.started;
    queue.#isStarted = true;
    return queue;
  }

  /** The data and metadata of the request are those of the event. @throws WrongExpectedRevision; StoreUnavailable */
  append(request: AppendRequest, event: NewEvent): Promise<Appended> {
    if (this.#closed) {
      this.#options.observer?.onAppends('failed', 1);
      throw this.#closed;
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, event, resolve, reject });
      if (this.#waiting.length === 1) setImmediate(() => this.#handOver());
      if (this.#waiting.length === BATCH_SIZE) this.#handOver();
    });
  }

  /**
   * Replaces events with stubs and appends the records, in one transaction. Resolves with the positions of the records.
   * @throws StoreUnavailable
   */
  erase(stubs: StubRow[], records: readonly Requested[]): Promise<Position[]> {
    if (this.#closed) throw this.#closed;
    this.#handOver();
    return new Promise((resolve, reject) => {
      this.#erasing.push({ records, resolve, reject });
      const appends = records.map(({ request }) => toRow(request));
      this.#thread.post('erase', { stubs, appends, recordedAt: this.#options.now().toISOString() });
    });
  }

  /** Waits for the appends in flight and a last WAL checkpoint: the thread replies to all appends before it exits. */
  async close(): Promise<void> {
    this.#closed ??= new StoreUnavailable('the log is closed');
    this.#handOver();
    await this.#walCheckpoint; // a running WAL checkpoint would block that of the writer
    await this.#thread.close();
  }

  #handOver(): void {
    if (this.#waiting.length === 0) return;
    const batch: AppendBatch = {
      appends: this.#waiting.map(({ request }) => toRow(request)),
      recordedAt: this.#options.now().toISOString(),
    };
    this.#thread.post('commit', batch);
    this.#committing.push(...this.#waiting.splice(0));
  }

  /** Rejects waiting appends and all later ones. */
  refuse(reason: StoreUnavailable): void {
    this.#closed ??= reason;
    this.#reject(this.#waiting.splice(0), reason);
  }

  #reject(appends: Append[], reason: StoreUnavailable): void {
    this.#options.observer?.onAppends('failed', appends.length);
    for (const { reject } of appends) reject(reason);
  }

  #handle(reply: CommitReply): void {
    if ('fatal' in reply) this.#fail(new Error(reply.fatal));
    else if ('damaged' in reply) this.#options.onDamage(new LogDamaged(reply.damaged));
    else if ('rolledBack' in reply)
      this.#reject(this.#committing.splice(0, reply.count), new StoreUnavailable(reply.rolledBack));
    else if ('erased' in reply) this.#handleErasure(reply.erased);
    else if ('notErased' in reply) this.#erasing.shift()?.reject(new StoreUnavailable(reply.notErased));
    else if ('walCheckpointDue' in reply) {
      // At its end, the writer moves everything itself.
      if (!this.#closed) this.#walCheckpoint = this.#runWalCheckpoint(reply.walCheckpointDue);
    } else this.#handleCommit(reply.results, reply.seconds);
  }

  /** The shared thread moves most of the write-ahead log; then the writer restarts it. */
  async #runWalCheckpoint(file: OpenFile): Promise<void> {
    const failure = await this.#options.walThread.walCheckpoint(file);
    const replies = failure ? endingReplies(Object.assign(new Error(failure.message), failure)) : [];
    if (replies.length === 0) this.#thread.post('walCheckpoint', undefined);
    for (const reply of replies) this.#handle(reply);
  }

  #handleErasure(positions: Position[]): void {
    const { records, resolve } = this.#erasing.shift() as PendingErasure;
    if (positions.length > 0)
      this.#options.onCommit(positions.map((at, i) => toEvent(records[i] as Requested, at)));
    resolve(positions);
  }

  /**
   * A step of removing the bytes of erased events; false if another one must follow. @throws Error; errors that end all
   * appends are replies of their own
   */
  async scrub(): Promise<boolean> {
    const { file, walThread } = this.#options;
    const isScrubbed = await this.#thread.call('scrub', undefined);
    if (!isScrubbed) await walThread.walCheckpoint({ file, identity: fileIdentity(file) });
    return isScrubbed;
  }

  #handleCommit(results: AppendResult[], seconds: number): void {
    const { logId, observer, onCommit } = this.#options;
    const appends = this.#committing.splice(0, results.length);
    const events: RecordedEvent[] = [];
    for (const [i, { request, event }] of appends.entries()) {
      const position = results[i];
      if (typeof position !== 'bigint') continue;
      events.push(toEvent({ request, event }, position));
    }
    observer?.onCommit(results.length, seconds);
    if (observer) countAppends(observer, results);
    if (events.length > 0) onCommit(events);
    traceEvents('commit', events, performance.now() - seconds * 1_000, { appends: results.length });
    for (const [i, append] of appends.entries()) finish(append, results[i] as AppendResult, logId);
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#closed = new StoreUnavailable(error.message, { cause: error });
    for (const { reject } of [...this.#committing, ...this.#waiting]) reject(this.#closed);
    this.#committing = [];
    this.#waiting = [];
    for (const { reject } of this.#erasing.splice(0)) reject(this.#closed);
    this.#options.onFatal(error);
  }
}

function toEvent({ request, event }: Requested, position: Position): RecordedEvent {
  const { stream, expectedRevision } = request;
  const { id, type, data, metadata } = event;
  return { position, stream, revision: expectedRevision + 1n, id, type, data, metadata };
}

const toRow = ({ id, stream, expectedRevision, type, data, metadata }: AppendRequest): AppendRow => [
  id,
  stream,
  expectedRevision,
  type,
  data,
  metadata,
];

function finish({ request, resolve, reject }: Append, result: AppendResult, logId: string): void {
  const { stream, expectedRevision } = request;
  const revision = expectedRevision + 1n;
  if (typeof result === 'bigint') resolve({ position: result, revision, logId });
  else if ('repeated' in result) resolve({ position: result.repeated, revision, logId });
  else if ('wrongRevision' in result) reject(new WrongExpectedRevision(stream, expectedRevision));
  else reject(new Error(`the log rejected the event: ${result.rejected}`));
}

function countAppends(observer: StoreObserver, results: AppendResult[]): void {
  const others = results.filter((result) => typeof result !== 'bigint');
  const wrongRevision = others.filter((result) => 'wrongRevision' in result).length;
  const failed = others.filter((result) => 'rejected' in result).length;
  observer.onAppends('stored', results.length - wrongRevision - failed);
  observer.onAppends('wrongRevision', wrongRevision);
  observer.onAppends('failed', failed);
}

import {
  type Appended,
  type AppendOutcome,
  type AppendRequest,
  appendRequest,
  type BackwardRange,
  type Batch,
  type EventStore,
  type ForwardRange,
  isPosition,
  type Logger,
  LogReplaced,
  type NewEvent,
  NO_LOG_ID,
  NO_STREAM,
  type Page,
  type Position,
  type RecordedEvent,
  START,
  type StoreObserver,
  StoreUnavailable,
  StreamDeleted,
  WrongExpectedRevision,
} from '@event-sourced/event-log';
import { finishedWithin } from '@event-sourced/node/time';
import { AccessDenied, AppendDenied, CLOSE_TIMEOUT_MS, Client } from './client.ts';
import { LogEnd } from './logEnd.ts';
import { CallFailed, type LogId } from './protocol.ts';
import type { PageAfter } from './read.ts';
import { Subscribers } from './subscribers.ts';
import { Tail } from './tail.ts';
import { WriteAccess } from './writeAccess.ts';

type Options = {
  /** An EventStoreDB connection string, `esdb://…`. */
  url: string;
  /** The prefix of the log's own streams: subscriptions, pages and the last position only include their events. */
  prefix: string;
  /** The stream whose first event has the ID of the log. */
  identityStream: string;
  /** Called before an empty log gets its first event; if it throws, nothing is appended. */
  onEmpty?: (() => void) | undefined;
  logger: Logger;
  /** The total time that a request may wait for the server: four fifths to append, the rest to read. */
  timeoutMs: number;
  /** Whether this is the store of a service that appends: it logs changes of the leader. */
  appends?: boolean;
  observer?: StoreObserver | undefined;
};

/**
 * Below the server's limit for a message, 16 MiB. All appends share one gRPC call: an event that is too large for it
 * would fail them all. The server itself reports its lower limit for an append.
 */
const MAX_EVENT_BYTES = 15 * 1_024 * 1_024;

/**
 * The event store on EventStoreDB 23.10 or later, one node or a cluster, or KurrentDB. While the server is unavailable,
 * calls are retried until `timeoutMs`, and subscriptions forever. @throws AccessDenied
 */
export async function openEventStoreDb(options: Options): Promise<EventStore> {
  const { url, logger, appends, observer } = options;
  const onLeaderChange = (from: string, to: string): void => {
    observer?.onLeaderChange();
    logger.info({ from, to }, 'the leader of the cluster changed');
  };
  const client = new Client(url, appends ? { observer, onLeaderChange } : { observer });
  try {
    await client.firstAttempt();
  } catch (error) {
    await client.close();
    throw new AccessDenied((error as Error).message, { cause: error });
  }
  return new EventStoreDbStore(client, options);
}

class EventStoreDbStore implements EventStore {
  /** All reads return what was written. */
  readonly forHashing = this;
  readonly #client: Client;
  readonly #options: Options;
  readonly #writeAccess: WriteAccess;
  readonly #end: LogEnd;
  /** Undefined before the first subscription. */
  #subscribers: Subscribers | undefined;
  /** The log ID that was last read. The server of the next connection may have a different log, or an empty one. */
  #logId = NO_LOG_ID;
  /** Resolves when the last append has found or created the identity of the log. */
  #identifying = Promise.resolve();

  constructor(client: Client, options: Options) {
    this.#client = client;
    this.#options = options;
    this.#writeAccess = new WriteAccess(options.logger);
    this.#end = new LogEnd(client, options.prefix);
  }

  get appendsRefused(): string | undefined {
    return this.#writeAccess.error;
  }

  async logId(): Promise<string> {
    this.#assertOpen();
    return (await this.#readLogId(this.#readDeadline)).id;
  }

  /** The ID of the log; it is read again while the log is empty. */
  async #readLogId(deadline: number): Promise<LogId> {
    const connection = await this.#client.connected(deadline);
    const logId = connection.logId ?? (await this.#findLogId(deadline));
    if (logId.id !== NO_LOG_ID) connection.logId = logId;
    this.#logId = logId.id;
    return logId;
  }

  /** Each log has its ID from the first event of its identity stream; before there was one, from that of $all. */
  async #findLogId(deadline: number): Promise<LogId> {
    const stored = await this.#storedLogId(deadline);
    if (stored) return stored;
    if ((await this.#end.read(deadline)) === START) return { id: NO_LOG_ID, isStored: false };
    // The ID may have been stored since, before the first event of the log. If not, an earlier version wrote the log.
    const storedSince = await this.#storedLogId(deadline);
    if (storedSince) return storedSince;
    const first = await this.#client.call('readEdge', 'first', deadline);
    return { id: first ? toLogId(first) : NO_LOG_ID, isStored: false };
  }

  /** The ID in the identity stream; undefined if the stream does not exist. */
  async #storedLogId(deadline: number): Promise<LogId | undefined> {
    try {
      const [begun] = await this.#readStream(this.#options.identityStream, 1, deadline);
      return begun && { id: storedId(begun), isStored: true };
    } catch (error) {
      if (!(error instanceof StreamDeleted)) throw error;
      const message = `the log has lost its ID: ${error.message}; nothing is appended`;
      throw new StoreUnavailable(message, { cause: error });
    }
  }

  lastPosition(): Promise<Position> {
    return this.#end.read(this.#readDeadline);
  }

  hadPosition(position: Position): void {
    this.#end.advance(position);
  }

  async readEvent(position: Position): Promise<RecordedEvent | undefined> {
    this.#assertOpen();
    if (!isPosition(position)) return undefined;
    const read = () => this.#client.call('readAt', position, this.#readDeadline);
    return this.#confirmed(read, (event) => !event && position <= this.#end.position);
  }

  async readStream(stream: string, limit: number): Promise<RecordedEvent[]> {
    return this.#confirmed(
      () => this.#readStream(stream, limit, this.#readDeadline),
      (events) => events.length === 0,
    );
  }

  /** Reads again if the result is doubtful and the node turns out to be stale. */
  async #confirmed<T>(read: () => Promise<T>, isDoubtful: (result: T) => boolean): Promise<T> {
    const result = await read();
    if (!isDoubtful(result)) return result;
    const { node } = this.#client;
    await this.lastPosition();
    return this.#client.node === node ? result : read();
  }

  async #readStream(stream: string, limit: number, deadline: number): Promise<RecordedEvent[]> {
    const events = await this.#client.call('readStream', { stream, limit }, deadline);
    if (!events) throw new StreamDeleted(stream);
    return events;
  }

  async readAll({ prefix, ...range }: ForwardRange): Promise<PageAfter> {
    const known = this.#end.position;
    const filtered = { ...range, prefix: this.#filter(prefix) };
    const read = () => this.#client.call('readPage', filtered, this.#pageDeadline);
    const page = await this.#readPage(read, range.after, ({ isEnd, position }) => isEnd && position < known);
    // The server has searched to its end, which is at or after the last known event.
    const end = this.#end.position < known ? this.#end.position : known;
    return page.isEnd && page.position < end ? { ...page, position: end } : page;
  }

  readBackwards({ prefix, ...range }: BackwardRange): Promise<Page> {
    const filtered = { ...range, prefix: this.#filter(prefix) };
    const read = () => this.#client.call('readPageBackwards', filtered, this.#pageDeadline);
    return this.#readPage(read, range.before, () => false);
  }

  #filter(prefix = ''): string {
    return prefix.startsWith(this.#options.prefix) ? prefix : this.#options.prefix;
  }

  async #readPage<P extends Page>(
    read: () => Promise<P | undefined>,
    position: Position = START,
    isDoubtful: (page: P) => boolean,
  ): Promise<P> {
    const isKnown = position <= this.#end.position;
    const page =
      isPosition(position) && (await this.#confirmed(read, (one) => (one ? isDoubtful(one) : isKnown)));
    if (!page) throw new LogReplaced(`there is no event at position ${position}`);
    return page;
  }

  async append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    let outcome: AppendOutcome = 'failed';
    try {
      const request = appendRequest(stream, event, expectedRevision);
      if (Buffer.byteLength(request.data) + Buffer.byteLength(request.metadata) > MAX_EVENT_BYTES)
        throw new Error(`the event has more than ${MAX_EVENT_BYTES} bytes`);
      const deadline = performance.now() + (this.#options.timeoutMs * 4) / 5;
      this.#identifying = this.#identify(deadline);
      await this.#identifying;
      const appended = await this.#append(request, deadline);
      outcome = 'stored';
      this.#end.advance(appended.position);
      // The server continues a soft-deleted stream, although no stream is expected.
      if (expectedRevision === NO_STREAM && appended.revision !== 0n) throw new StreamDeleted(stream);
      return appended;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) outcome = 'wrongRevision';
      throw error;
    } finally {
      this.#options.observer?.onAppends(outcome, 1);
    }
  }

  subscribe({ after, signal }: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const ended = AbortSignal.any([signal, this.#client.closed]);
    this.#subscribers ??= this.#startTail();
    return this.#subscribers.subscribe(after, this.#logId, ended);
  }

  #startTail(): Subscribers {
    const [client, end] = [this.#client, this.#end];
    return new Subscribers(this, new Tail({ ...this.#options, client, log: this, end }), end);
  }

  async close(): Promise<void> {
    await finishedWithin(CLOSE_TIMEOUT_MS, this.#identifying);
    await this.#client.close();
  }

  #assertOpen(): void {
    if (this.#client.closed.aborted) throw new StoreUnavailable('the log is closed');
  }

  get #readDeadline(): number {
    return performance.now() + this.#options.timeoutMs / 5;
  }

  get #pageDeadline(): number {
    return performance.now() + this.#options.timeoutMs;
  }

  async #append(request: AppendRequest, deadline: number): Promise<Appended> {
    const { stream, expectedRevision } = request;
    const startedAt = performance.now();
    const appended = await this.#client.call('append', request, deadline).catch((error) => {
      if (error instanceof AppendDenied) this.#writeAccess.denied(error.message, startedAt);
      throw error;
    });
    this.#writeAccess.granted(); // also by a server that compares revisions
    if (appended === 'streamDeleted') throw new StreamDeleted(stream);
    if (appended !== 'wrongRevision') return appended;
    if (expectedRevision === NO_STREAM) await this.#firstEventReadable(stream, deadline);
    throw new WrongExpectedRevision(stream, expectedRevision);
  }

  /** Waits until a stream's first event can be read: the server refuses a second first event even earlier. */
  async #firstEventReadable(stream: string, deadline: number): Promise<void> {
    const events = await this.#client.retry(async (connection, timeoutMs) => {
      const found = await connection.call('readStream', { stream, limit: 1 }, timeoutMs);
      if (found?.length === 0)
        throw new CallFailed('transient', 'the first event of the stream cannot be read yet');
      return found;
    }, deadline);
    if (!events) throw new StreamDeleted(stream);
  }

  /**
   * Stores the ID of the log, before anything else is appended. Concurrent appends, also of other instances, may attempt
   * this; one succeeds. A log that has had an ID before keeps it.
   */
  async #identify(deadline: number): Promise<void> {
    const { id: logId, isStored } = await this.#readLogId(deadline);
    if (isStored) return;
    try {
      if (logId === NO_LOG_ID) this.#options.onEmpty?.();
    } catch (error) {
      throw new StoreUnavailable((error as Error).message, { cause: error });
    }
    const data = logId === NO_LOG_ID ? {} : { logId };
    const begun = { id: crypto.randomUUID(), type: 'LogBegun', data, metadata: {} };
    try {
      await this.#append(appendRequest(this.#options.identityStream, begun, NO_STREAM), deadline);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
    (await this.#client.connected(deadline)).logId = undefined;
    await this.#readLogId(deadline); // so that later appends need no read
  }
}

const toLogId = ({ id }: RecordedEvent): string => `e${id.slice(-12)}`;

/** The event that stored the ID of an older log has it; otherwise its own ID gives it. */
function storedId(begun: RecordedEvent): string {
  const { logId } = (begun.data ?? {}) as { logId?: unknown };
  return typeof logId === 'string' ? logId : toLogId(begun);
}

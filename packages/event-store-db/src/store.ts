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
import { traceAppend } from '@event-sourced/event-log/tracing';
import { AccessDenied, AppendDenied, Client } from './client.ts';
import type { Connection } from './connection.ts';
import { Identity } from './identity.ts';
import { LogEnd } from './logEnd.ts';
import { CallFailed } from './protocol.ts';
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
  readonly #identity: Identity;
  /** Undefined before the first subscription. */
  #subscribers: Subscribers | undefined;

  constructor(client: Client, options: Options) {
    this.#client = client;
    this.#options = options;
    this.#writeAccess = new WriteAccess(options.logger);
    this.#end = new LogEnd(client, options.prefix);
    this.#identity = new Identity(options, this.#end);
  }

  get appendsRefused(): string | undefined {
    return this.#writeAccess.error;
  }

  logId(): Promise<string> {
    this.#assertOpen();
    return this.#client.retry(
      (connection, timeoutMs) => this.#identity.read(connection, timeoutMs),
      this.#readDeadline,
    );
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
      () => this.#readStream(stream, limit),
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

  async #readStream(stream: string, limit: number): Promise<RecordedEvent[]> {
    const events = await this.#client.call('readStream', { stream, limit }, this.#readDeadline);
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

  append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    return traceAppend(() => this.#appendEvent(stream, event, expectedRevision));
  }

  async #appendEvent(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    let outcome: AppendOutcome = 'failed';
    try {
      const request = appendRequest(stream, event, expectedRevision);
      if (Buffer.byteLength(request.data) + Buffer.byteLength(request.metadata) > MAX_EVENT_BYTES)
        throw new Error(`the event has more than ${MAX_EVENT_BYTES} bytes`);
      const deadline = performance.now() + (this.#options.timeoutMs * 4) / 5;
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
    return this.#subscribers.subscribe(after, this.#identity.last, ended);
  }

  #startTail(): Subscribers {
    const [client, end] = [this.#client, this.#end];
    return new Subscribers(this, new Tail({ ...this.#options, client, log: this, end }), end);
  }

  async close(): Promise<void> {
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

  /** Each attempt identifies the log of its connection, and then appends to it. */
  async #append(request: AppendRequest, deadline: number): Promise<Appended> {
    const startedAt = performance.now();
    const attempt = async (connection: Connection, timeoutMs: number): Promise<Appended> => {
      const logId = await this.#identity.stored(connection, timeoutMs);
      const appended = await connection.call('append', request, timeoutMs);
      this.#writeAccess.granted(); // also by a server that compares revisions
      if (appended === 'streamDeleted') throw new StreamDeleted(request.stream);
      if (appended === 'wrongRevision') throw await wrongRevision(connection, request, logId, timeoutMs);
      return { ...appended, logId };
    };
    try {
      return await this.#client.retry(attempt, deadline);
    } catch (error) {
      if (error instanceof AppendDenied) this.#writeAccess.denied(error.message, startedAt);
      throw error;
    }
  }
}

/** The error of a refused append. The server refuses a second first event before the first one can be read. */
async function wrongRevision(
  connection: Connection,
  { stream, expectedRevision }: AppendRequest,
  logId: string,
  timeoutMs: number,
): Promise<Error> {
  if (expectedRevision !== NO_STREAM) return new WrongExpectedRevision(stream, expectedRevision);
  const events = await connection.call('readStream', { stream, limit: 1 }, timeoutMs);
  if (!events) return new StreamDeleted(stream);
  const [first] = events;
  return first
    ? new WrongExpectedRevision(stream, expectedRevision, { existing: { first, logId } })
    : new CallFailed('transient', 'the first event of the stream cannot be read yet');
}

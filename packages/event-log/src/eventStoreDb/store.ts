import {
  type Appended,
  type AppendOutcome,
  type BackwardRange,
  type Batch,
  type EventStore,
  type ForwardRange,
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
} from '../eventStore.ts';
import type { Logger } from '../logger.ts';
import { isPosition } from '../position.ts';
import { finishedWithin, sleep } from '../time/sleep.ts';
import { checkAccess } from './accessCheck.ts';
import { appendRequest } from './appendRequest.ts';
import { catchUpSubscription } from './catchUpSubscription.ts';
import type { Connection } from './connection.ts';
import { DeletedStreams } from './deletedStreams.ts';
import { KnownEnd } from './knownEnd.ts';
import { CallFailed } from './protocol.ts';
import { AppendDenied, CLOSE_TIMEOUT_MS, RetryingClient } from './retryingClient.ts';
import type { Operations } from './worker.ts';
import { WriteAccess } from './writeAccess.ts';

type Options = {
  /** An EventStoreDB connection string, `esdb://…`. */
  url: string;
  /** Subscriptions and pages have the streams with this prefix. */
  prefix: string;
  /** Whose first event gives an empty log its identity. */
  identityStream: string;
  logger: Logger;
  /** How long a request may wait for the server in all: four fifths to append, the rest to read. */
  timeoutMs: number;
  /** Whether to prepare for appends: to check that the account may, and to follow which streams are deleted. */
  appends?: boolean;
  observer?: StoreObserver | undefined;
};

/** The wait between reads from a node that does not have the last events, in milliseconds. */
const BEHIND_DELAY_MS = 100;
/** The first wait between reads of a stream whose first event cannot be read yet, in milliseconds; it doubles. */
const FIRST_READABLE_DELAY_MS = 10;

/**
 * The event store on EventStoreDB 23.10 or later, one node or a cluster, or KurrentDB. Calls to a server that is
 * unavailable are retried until `timeoutMs`, subscriptions for ever. @throws AccessDenied
 */
export async function openEventStoreDb(options: Options): Promise<EventStore> {
  const { url, prefix, logger, appends, observer } = options;
  const onLeaderChange = (from: string, to: string): void => {
    observer?.onLeaderChange();
    logger.info({ from, to }, 'the leader of the cluster changed');
  };
  // The store that appends reports it once for all connections of a service.
  const client = new RetryingClient({ url, prefix }, appends ? { observer, onLeaderChange } : { observer });
  try {
    await checkAccess(client);
  } catch (error) {
    await client.close();
    throw error;
  }
  return new EventStoreDbStore(client, options);
}

class EventStoreDbStore implements EventStore {
  readonly #client: RetryingClient;
  readonly #options: Options;
  readonly #writeAccess: WriteAccess;
  readonly #deletedStreams: DeletedStreams | undefined;
  readonly #knownEnd = new KnownEnd();
  /** The log ID as read over a connection; the server of the next connection may have another log, also an empty one. */
  #identity: { connection: Connection; logId: string } | undefined;

  /** The last append's wait for the identity of the log. */
  #identifying = Promise.resolve();

  constructor(client: RetryingClient, options: Options) {
    this.#client = client;
    this.#options = options;
    this.#writeAccess = new WriteAccess(client, options.logger);
    if (!options.appends) return;
    void this.#writeAccess.check();
    this.#deletedStreams = new DeletedStreams(client, this, options.prefix);
  }

  get appendsRefused(): string | undefined {
    return this.#writeAccess.error;
  }

  async logId(): Promise<string> {
    this.#assertOpen();
    return this.#readLogId(this.#readTimeoutMs);
  }

  /** The first event of $all identifies the log. */
  async #readLogId(timeoutMs: number): Promise<string> {
    const { connection } = this.#client;
    if (this.#identity?.connection === connection) return this.#identity.logId;
    const first = await this.#client.call('readEdge', 'first', timeoutMs);
    this.#identity = first && { connection, logId: `e${first.id.slice(-12)}` };
    return this.#identity?.logId ?? NO_LOG_ID;
  }

  async lastPosition(): Promise<Position> {
    const deadline = performance.now() + this.#readTimeoutMs;
    for (;;) {
      const known = this.#knownEnd.position;
      const last = await this.#client.call('readEdge', 'last', deadline - performance.now());
      const position = last?.position ?? START;
      if (this.#knownEnd.accepts(position, known)) return position;
      if (performance.now() + BEHIND_DELAY_MS > deadline)
        throw new StoreUnavailable('the node does not have the last events: it was the leader before');
      await sleep(BEHIND_DELAY_MS, this.#client.closed);
    }
  }

  hadPosition(position: Position): void {
    this.#knownEnd.advance(position);
  }

  async readEvent(position: Position): Promise<RecordedEvent | undefined> {
    this.#assertOpen();
    if (!isPosition(position)) return undefined;
    const read = () => this.#client.call('readAt', position, this.#readTimeoutMs);
    return this.#confirmed(read, (event) => !event && position <= this.#knownEnd.position);
  }

  async readStream(stream: string, limit: number): Promise<RecordedEvent[]> {
    const read = () => this.#readStream(stream, limit, this.#readTimeoutMs);
    return this.#confirmed(read, (events) => events.length === 0);
  }

  /** A result that a node may only have since it is behind is read again, if the node was. */
  async #confirmed<T>(read: () => Promise<T>, isDoubtful: (result: T) => boolean): Promise<T> {
    const result = await read();
    if (!isDoubtful(result)) return result;
    const { node } = this.#client;
    await this.lastPosition();
    return this.#client.node === node ? result : read();
  }

  async #readStream(stream: string, limit: number, timeoutMs: number): Promise<RecordedEvent[]> {
    try {
      return await this.#client.call('readStream', { stream, limit }, timeoutMs);
    } catch (error) {
      throw isDeleted(error) ? new StreamDeleted(stream, { cause: error }) : error;
    }
  }

  readAll({ after, limit }: ForwardRange): Promise<Page> {
    const known = this.#knownEnd.position;
    const read = () => this.#readPage('readPage', { after, limit }, after);
    return this.#confirmed(read, ({ isEnd, position }) => isEnd && position < known);
  }

  readBackwards(range: BackwardRange): Promise<Page> {
    return this.#readPage('readPageBackwards', range, range.before);
  }

  async #readPage<O extends 'readPage' | 'readPageBackwards'>(
    operation: O,
    range: Parameters<Operations[O]>[0],
    position: Position = START,
  ): Promise<Page> {
    const read = async () =>
      isPosition(position) ? this.#client.call(operation, range, this.#options.timeoutMs) : undefined;
    const page = await this.#confirmed(read, (one) => !one && position <= this.#knownEnd.position);
    if (!page) throw new LogReplaced(`there is no event at position ${position}`);
    return page;
  }

  async append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    let outcome: AppendOutcome = 'failed';
    try {
      const appended = await this.#appendTo(stream, event, expectedRevision);
      this.#knownEnd.advance(appended.position);
      outcome = 'stored';
      return appended;
    } catch (error) {
      if (error instanceof WrongExpectedRevision) outcome = 'wrongRevision';
      throw error;
    } finally {
      this.#options.observer?.onAppends(outcome, 1);
    }
  }

  async #appendTo(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended> {
    const request = appendRequest(stream, event, expectedRevision);
    this.#writeAccess.assertGranted();
    const deadline = performance.now() + (this.#options.timeoutMs * 4) / 5;
    this.#identifying = this.#identify(deadline);
    await this.#identifying;
    if (expectedRevision === NO_STREAM) await this.#assertNotDeleted(stream, deadline);
    return this.#append(request, deadline);
  }

  /** The server would continue a deleted stream, although no stream is expected. @throws StreamDeleted */
  async #assertNotDeleted(stream: string, deadline: number): Promise<void> {
    const isDeleted = this.#deletedStreams?.has(stream);
    if (isDeleted) throw new StreamDeleted(stream);
    if (this.#deletedStreams && isDeleted === undefined)
      await this.#readStream(stream, 1, deadline - performance.now());
  }

  async *subscribe(options: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const range = { ...this.#options, ...options, logId: this.#identity?.logId ?? NO_LOG_ID };
    for await (const batch of catchUpSubscription(this.#client, this, range)) {
      this.#knownEnd.advance(batch.readTo?.position ?? batch.events.at(-1)?.position ?? START);
      yield batch;
    }
  }

  async close(): Promise<void> {
    await finishedWithin(CLOSE_TIMEOUT_MS, this.#identifying);
    await this.#client.close();
  }

  #assertOpen(): void {
    if (this.#client.closed.aborted) throw new StoreUnavailable('the log is closed');
  }

  get #readTimeoutMs(): number {
    return this.#options.timeoutMs / 5;
  }

  async #append(request: ReturnType<typeof appendRequest>, deadline: number): Promise<Appended> {
    try {
      return await this.#appendOnceGranted(request, deadline);
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      const { stream, expectedRevision } = request;
      if (isDeleted(error)) throw new StreamDeleted(stream, { cause: error });
      if (expectedRevision === NO_STREAM) await this.#firstEventReadable(stream, deadline);
      throw new WrongExpectedRevision(stream, expectedRevision, { cause: error });
    }
  }

  /** An append that is refused again, although the account may append, is to a stream with an ACL of its own. */
  async #appendOnceGranted(request: ReturnType<typeof appendRequest>, deadline: number): Promise<Appended> {
    for (let isGranted = false; ; isGranted = true) {
      try {
        return await this.#client.call('append', request, deadline - performance.now());
      } catch (error) {
        if (!(error instanceof AppendDenied)) throw error;
        const message = `the account may append, but not to stream ${request.stream}`;
        if (isGranted) throw new AppendDenied(message, { cause: error });
        await this.#writeAccess.confirm(error, deadline);
      }
    }
  }

  /** The server refuses another first event of a stream before the first one can be read. */
  async #firstEventReadable(stream: string, deadline: number): Promise<void> {
    const isReadable = async () => (await this.#readStream(stream, 1, this.#readTimeoutMs)).length > 0;
    for (let delay = FIRST_READABLE_DELAY_MS; !(await isReadable()); delay *= 2) {
      if (performance.now() + delay > deadline) return;
      await sleep(delay, this.#client.closed);
    }
  }

  /**
   * An empty log gets its first event before anything else is appended. Several appends, also of other
   * instances, may do so at once; one succeeds.
   */
  async #identify(deadline: number): Promise<void> {
    if ((await this.#readLogId(deadline - performance.now())) !== NO_LOG_ID) return;
    const begun = { id: crypto.randomUUID(), type: 'LogBegun', data: {}, metadata: {} };
    try {
      await this.#append(appendRequest(this.#options.identityStream, begun, NO_STREAM), deadline);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
    }
    await this.#readLogId(deadline - performance.now()); // so that later appends need no read
  }
}

function isDeleted(error: unknown): boolean {
  return error instanceof CallFailed && error.kind === 'streamDeleted';
}

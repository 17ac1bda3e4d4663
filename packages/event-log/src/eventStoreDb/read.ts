import {
  type AllStreamResolvedEvent,
  BACKWARDS,
  START as CLIENT_START,
  type Direction,
  END,
  ErrorType,
  type EventStoreDBClient,
  FORWARDS,
  type ReadPosition,
  type ReadStreamOptions,
  type ResolvedEvent,
  type StreamingRead,
} from '@eventstore/db-client';
import {
  type BackwardRange,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
} from '../eventStore.ts';
import { errorType, GRPC_STATUS } from './failures.ts';
import { CallFailed } from './protocol.ts';

/** Without an event for this time a read fails: the client takes a deadline and ignores it. */
const READ_TIMEOUT_MS = 3_000;

/** A follower may lag behind what has been acknowledged; the leader does not. */
const FROM_LEADER = { requiresLeader: true };

/**
 * Events that were read. `isCut`: they have the length at which reading ended, so there may be more. `writtenAt`: when
 * the last of them was written, by the clock of the server.
 */
type Collected = { events: RecordedEvent[]; isCut: boolean; writtenAt: Date | undefined };

/** Reads of streams and of $all. Each is whole, or fails. */
export class Reader {
  readonly #client: EventStoreDBClient;
  /** Pages have the events of streams with this prefix. */
  readonly #prefix: string;
  readonly #onNode: (node: string) => void;
  #node: string | undefined;

  /** `onNode` gets the address of the node that responds, when it changes: the leader, since reads require it. */
  constructor(client: EventStoreDBClient, prefix: string, onNode: (node: string) => void = () => {}) {
    this.#client = client;
    this.#prefix = prefix;
    this.#onNode = onNode;
  }

  /** The first events of a stream; none if it does not exist. @throws CallFailed if the first was deleted */
  async stream({ stream, limit }: { stream: string; limit: number }): Promise<RecordedEvent[]> {
    const events = await this.#unlessNotFound(stream, { maxCount: limit });
    if (events?.[0]?.revision === 0n || (!events && !(await this.#isTruncated(stream)))) return events ?? [];
    throw new CallFailed('streamDeleted', `the first event of ${stream} was deleted`);
  }

  /** A stream that was deleted softly looks as if it did not exist, except for its metadata. */
  async #isTruncated(stream: string): Promise<boolean> {
    const newest = { fromRevision: END, direction: BACKWARDS, maxCount: 1 } as const;
    const [metadata] = (await this.#unlessNotFound(`$$${stream}`, newest)) ?? [];
    return (metadata?.data as { $tb?: unknown } | undefined)?.$tb !== undefined;
  }

  async #unlessNotFound(stream: string, range: ReadStreamOptions): Promise<RecordedEvent[] | undefined> {
    try {
      return (await this.#collect(this.#client.readStream(stream, { ...range, ...FROM_LEADER }))).events;
    } catch (error) {
      if (errorType(error) === ErrorType.STREAM_NOT_FOUND) return undefined;
      throw error;
    }
  }

  /** The first, or the last, event of $all; undefined if there is none. */
  async edge(edge: 'first' | 'last'): Promise<RecordedEvent | undefined> {
    const { events } =
      edge === 'first' ? await this.#all(CLIENT_START, FORWARDS, 1) : await this.#all(END, BACKWARDS, 1);
    return events[0];
  }

  /** The event of $all at a position; undefined if there is none. */
  async at(position: Position): Promise<RecordedEvent | undefined> {
    return (await this.#from(position, 1))?.events[0];
  }

  /** The first event of $all at or after the position of a record; undefined if there is none. */
  async firstFrom(position: Position): Promise<RecordedEvent | undefined> {
    return (await this.#all(clientPosition(position), FORWARDS, 1)).events[0];
  }

  /** The events of the streams with the prefix in one page of $all, maybe none; undefined if no event is at `after`. */
  async page({ after, limit }: { after: Position; limit: number }): Promise<Page | undefined> {
    const skipped = after === START ? 0 : 1; // the event at `after` itself
    const page = await this.#from(after, limit + skipped);
    if (!page) return undefined;
    const { events, isCut, writtenAt } = page;
    return {
      events: events.slice(skipped).filter(({ stream }) => stream.startsWith(this.#prefix)),
      position: events.at(-1)?.position ?? after,
      isEnd: !isCut && events.length < limit + skipped,
      writtenAt,
    };
  }

  /** The same, newest event first. A backward read of $all starts before the position, a forward one at it. */
  async pageBackwards({ before, limit, prefix: narrower = '' }: BackwardRange): Promise<Page | undefined> {
    if (before === START) return { events: [], position: START, isEnd: true };
    const page = await this.#unlessInvalid(before ?? START, () =>
      this.#all(before === undefined ? END : clientPosition(before), BACKWARDS, limit),
    );
    if (!page) return undefined;
    const { events, isCut } = page;
    const position = events.at(-1)?.position ?? before;
    const isEnd = !isCut && events.length < limit;
    const first = isEnd ? await this.edge('first') : undefined;
    if (first && (position === undefined || position > first.position))
      throw new CallFailed('transient', 'the read ended before the start of the log');
    return {
      events: events.filter(({ stream }) => stream.startsWith(this.#prefix) && stream.startsWith(narrower)),
      position: position ?? START,
      isEnd,
    };
  }

  /** A page of $all from a position on, inclusive; undefined if no event starts at the position. */
  async #from(position: Position, maxCount: number): Promise<Collected | undefined> {
    const page = await this.#unlessInvalid(position, () =>
      this.#all(clientPosition(position), FORWARDS, maxCount),
    );
    return position === START || page?.events[0]?.position === position ? page : undefined;
  }

  /**
   * A read from a position; undefined if the server rejects the position. That error may have other causes: it counts
   * if a read of $all succeeds after it, and the same read fails again.
   */
  async #unlessInvalid(position: Position, read: () => Promise<Collected>): Promise<Collected | undefined> {
    try {
      return await read();
    } catch (error) {
      if (position === START || !isInvalidPosition(error as Error)) throw error;
    }
    await this.edge('last');
    try {
      return await read();
    } catch (error) {
      if (isInvalidPosition(error as Error)) return undefined;
      throw error;
    }
  }

  /** Events of $all from a position on, until they have the length of a page. */
  #all(fromPosition: ReadPosition, direction: Direction, maxCount: number): Promise<Collected> {
    const range = { fromPosition, direction, maxCount };
    return this.#collect(this.#client.readAll({ ...range, ...FROM_LEADER }), PAGE_LENGTH);
  }

  /**
   * The events of a bounded read, until they have a length in characters. The client ends a read that it has cancelled
   * without an error, so it is whole only if the server has completed it. @throws CallFailed if not, or not in time
   */
  async #collect(
    stream: StreamingRead<ResolvedEvent>,
    maxLength = Number.POSITIVE_INFINITY,
  ): Promise<Collected> {
    let isCompleted = false;
    stream.once('pipe', (piped) => {
      const call = piped as ReadCall;
      call.once('status', ({ code }) => {
        isCompleted = code === GRPC_STATUS.OK;
        if (!isCompleted || call.getPeer() === this.#node) return;
        this.#node = call.getPeer();
        this.#onNode(this.#node);
      });
    });
    stream.on('error', () => {}); // the loop throws the first error; a second one may follow
    const timer = setTimeout(() => {
      stream.destroy(new CallFailed('unavailable', `no response for ${READ_TIMEOUT_MS} ms`));
      void stream.cancel().catch(() => {});
    }, READ_TIMEOUT_MS);
    const events: RecordedEvent[] = [];
    let length = 0;
    let writtenAt: Date | undefined;
    try {
      for await (const { event } of stream) {
        timer.refresh();
        if (!event) continue;
        const recorded = toRecordedEvent(event);
        events.push(recorded);
        writtenAt = event.created;
        if (Number.isFinite(maxLength)) length += lengthOf(recorded.data) + lengthOf(recorded.metadata);
        if (length < maxLength || events.length < 2) continue; // the first one may be the last of the page before
        void stream.cancel().catch(() => {});
        return { events, isCut: true, writtenAt };
      }
    } finally {
      clearTimeout(timer);
    }
    if (!isCompleted) throw new CallFailed('transient', 'the read ended before the server had completed it');
    return { events, isCut: false, writtenAt };
  }
}

/** A gRPC call, as far as it is used here. Its status comes from the server, or from the client that ends it. */
type ReadCall = {
  once(event: 'status', listener: (status: { code: number }) => void): void;
  getPeer(): string;
};

/** EventStoreDB 23.10 responds "Unexpected ReadAllResult: Error" to a position between two events. */
function isInvalidPosition({ code, message }: Error & { code?: number }): boolean {
  const isUnknown = code === GRPC_STATUS.UNKNOWN && /position|ReadAllResult/i.test(message);
  return code === GRPC_STATUS.INVALID_ARGUMENT || isUnknown;
}

/** Of bytes, or of JSON: the client does not keep the text that it has parsed. */
function lengthOf(content: unknown): number {
  return content instanceof Uint8Array ? content.length : (JSON.stringify(content)?.length ?? 0);
}

export function clientPosition(position: Position) {
  return position === START ? CLIENT_START : { commit: position, prepare: position };
}

export function toRecordedEvent(
  event: NonNullable<ResolvedEvent['event'] | AllStreamResolvedEvent['event']>,
): RecordedEvent {
  const { position, streamId: stream, revision, id, type, data, metadata } = event;
  if (!position) throw new Error('the server returns no positions: it must be 23.10 or later');
  return {
    position: position.commit,
    stream,
    revision,
    id,
    type,
    data: cloneable(data),
    metadata: cloneable(metadata),
  };
}

/** Deeper nesting overflows the stack of a structured clone between threads. This service writes none. */
const MAX_NESTING = 500;

function cloneable<T>(value: T): T | undefined {
  return isDeeperThan(MAX_NESTING, value) ? undefined : value;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  return levels === 0 || Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}

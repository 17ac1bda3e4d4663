/** A position in the log. Positions increase from event to event, with gaps. */
export type Position = bigint;

/** The position before the first event. */
export const START: Position = 0n;

/** The expected revision of a stream that does not exist yet; a stream's first event has revision 0. */
export const NO_STREAM = -1n;

type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An event to append. `id` is a UUID, created once per command; a retry must send the same one. */
export type NewEvent = {
  id: string;
  type: string;
  data: { [key: string]: Json };
  metadata: { [key: string]: Json };
};

/** An event of the log. Another program may have written `data` and `metadata`: validate them before use. */
export type RecordedEvent = Readonly<{
  position: Position;
  stream: string;
  revision: bigint;
  id: string;
  type: string;
  data: unknown;
  metadata: unknown;
}>;

/** The stub that replaces the event at a position. */
export type Stub = Pick<RecordedEvent, 'position' | 'stream' | 'id' | 'type' | 'data' | 'metadata'>;

/** Where an event is: its position in the log with this ID, and its revision in its stream. */
export type Appended = { position: Position; revision: bigint; logId: string };

/** Consecutive events of a subscription. `caughtUp`: no event followed them when they were read. */
export type Batch = { events: readonly RecordedEvent[]; caughtUp: boolean };

/** A page ends when the data and metadata of its events have this number of characters, even with few events. */
export const PAGE_LENGTH = 256 * 1024;

/**
 * A page of the log, read up to `position`, which is the next page's `after`. `isEnd`: no event followed at that time.
 */
export type Page = {
  events: readonly RecordedEvent[];
  position: Position;
  isEnd: boolean;
};

/** At most `limit` events after an event's position. Only streams that start with `prefix` are of interest. */
export type ForwardRange = { after: Position; limit: number; prefix?: string | undefined };

/** At most `limit` events of streams with `prefix`, before an event's position or from the end of the log. */
export type BackwardRange = { before?: Position | undefined; limit: number; prefix?: string | undefined };

/** The ID of a log without an identity: an empty log in EventStoreDB. */
export const NO_LOG_ID = '';

/** Read access to the log. Every method rejects with StoreUnavailable if the log cannot be read, or is closed. */
export type EventLog = {
  /** Identifies the log for its whole lifetime; NO_LOG_ID while it has no identity. Never writes. */
  logId(): Promise<string>;

  /**
   * The position of the last event that a subscription delivers; START if there is none. EventStoreDB may also have
   * streams of other programs.
   */
  lastPosition(): Promise<Position>;

  /** Reports that the log has reached this position; a node without it may be stale. */
  hadPosition?(position: Position): void;

  /** The event at exactly this position; undefined if there is none. */
  readEvent(position: Position): Promise<RecordedEvent | undefined>;

  /**
   * The first `limit` events of a stream, oldest first; none if the stream does not exist.
   * @throws StreamDeleted if its first event was deleted
   */
  readStream(stream: string, limit: number): Promise<RecordedEvent[]>;

  /**
   * A page of the log: at most `limit` events after the position of an event, or after START. A page may have fewer
   * events, or none, before the end of the log: it ends after PAGE_LENGTH, and may skip streams that do not start with
   * `prefix`. @throws LogReplaced if EventStoreDB has no event at `after`; the embedded log reads from there
   */
  readAll(range: ForwardRange): Promise<Page>;

  /**
   * A page of the log, newest event first. Like a page of `readAll` it may have fewer events than `limit`, or none.
   * `position` is the earliest position that was read: the next page's `before`. `isEnd`: no event precedes the page; a
   * full page may be the last one without it. @throws LogReplaced like `readAll`
   */
  readBackwards(range: BackwardRange): Promise<Page>;

  /**
   * A catch-up subscription: every event after a position, or after START, in log order, then each new event. The first
   * batch arrives at once, empty if there are no events. The subscription reconnects when the log is unavailable, and
   * ends when `signal` aborts or the log is closed. @throws LogReplaced
   */
  subscribe(options: { after: Position; signal: AbortSignal }): AsyncIterable<Batch>;

  /** Waits for calls in flight, then closes the log. */
  close(): Promise<void>;
};

/** The append-only log, the single source of truth. */
export type EventStore = EventLog & {
  /** Why appends are refused, human-readable: the server refused the last append, or the log is damaged. */
  readonly appendsRefused?: string | undefined;

  /**
   * The same log for hashing. In the embedded log, a read differs if any byte of an event has changed; EventStoreDB's
   * reads have values of JSON, not its bytes. It is closed with the store.
   */
  readonly forHashing: EventLog;

  /**
   * Appends one event durably if the stream's last revision is `expectedRevision`. Appending the same event (by `id`)
   * again returns the first result, so an append with an unknown outcome can be retried.
   * @throws WrongExpectedRevision: after NO_STREAM, it has the stream's first event; StreamDeleted: the event may have been
   * stored, at a revision other than 0; StoreUnavailable: the outcome is unknown, retry with the same event; TypeError:
   * the stream has no name in well-formed Unicode, the event has no UUID or no type, or is not JSON
   */
  append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended>;
};

/** A log that knows the index of each event, from 0, without counting. */
export type IndexedLog = EventLog & {
  indexOf(position: Position): number;
  /** The position of the event at an index, if the log has it. */
  positionOf(index: number): Position;
};

export const hasIndices = (log: EventLog): log is IndexedLog => 'indexOf' in log;

/** A store that can overwrite events. */
export type ErasableStore = EventStore &
  IndexedLog & {
    /**
     * Replaces events with stubs and appends the first events of new streams, all durably or nothing. Resolves with the
     * positions of the appended events. @throws StoreUnavailable, also if a position has no event or a stub
     */
    erase(
      stubs: readonly Stub[],
      records: readonly { stream: string; event: NewEvent }[],
    ): Promise<Position[]>;

    /** The free space in bytes that erasing and scrubbing need, at most. */
    spaceToErase(): Promise<number>;

    /**
     * A step of removing the bytes of erased events from the files. False if another step must follow: a reader may need
     * old pages. Call it at every start, too. @throws Error, such as of a full disk
     */
    scrub(): Promise<boolean>;
  };

export const canErase = (store: EventStore): store is ErasableStore => 'erase' in store;

/** Observes an event store, for metrics. Its methods must not throw. */
export type StoreObserver = {
  /** Appends have ended with this outcome. */
  onAppends(outcome: AppendOutcome, count: number): void;
  /** A transaction has committed this number of appends; `seconds` from its start to its fsync. */
  onCommit(appends: number, seconds: number): void;
  /** The log was not closed after its last use: it is being checked. */
  onUncleanStop(): void;
  /** A connection to the server has ended; a new one is being opened. */
  onReconnect(): void;
  /** Another node of the cluster has become its leader. */
  onLeaderChange(): void;
  onSubscriptionDropped(): void;
};
export type AppendOutcome = 'stored' | 'wrongRevision' | 'failed';

/** The stream is not at the expected revision; nothing was appended. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision';
  /** After NO_STREAM: the first event of the stream, and the ID of its log. */
  readonly existing: Existing | undefined;
  constructor(stream: string, expected: bigint, options: ErrorOptions & { existing?: Existing } = {}) {
    super(`stream ${stream} is not at revision ${expected}`, options);
    this.existing = options.existing;
  }
}
type Existing = { first: RecordedEvent; logId: string };

/** The stream exists, but its first event cannot be read: an administrator has deleted or truncated the stream. */
export class StreamDeleted extends Error {
  override readonly name = 'StreamDeleted';
  constructor(stream: string, options?: ErrorOptions) {
    super(`the first event of ${stream} was deleted`, options);
  }
}

/** The log is unavailable. The outcome of an append is unknown: retry it with the same event. */
export class StoreUnavailable extends Error {
  override readonly name: string = 'StoreUnavailable';
}

/** The log has responded, but an event cannot be read, which may last. */
export class EventUnreadable extends StoreUnavailable {
  override readonly name = 'EventUnreadable';
}

/** The log's file is damaged: it may be partly unreadable, and accepts no more appends. */
export class LogDamaged extends StoreUnavailable {
  override readonly name = 'LogDamaged';
  constructor(reason: string, options?: ErrorOptions) {
    super(`the log is damaged: ${reason}`, options);
  }
}

/** The log is not the one that a subscription started with: the server has a different log, or an older backup. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}

/** A problem, at a position of the log if it has one. */
export type Problem = { position?: Position; problem: string };

/** An event of a known type that does not match its schema, or contradicts its stream. */
export class InvalidEvent extends Error {
  override readonly name = 'InvalidEvent';
  readonly eventId: string;
  constructor({ id, position, type }: RecordedEvent) {
    super(`event ${id} at position ${position} is not a valid ${type}`);
    this.eventId = id;
  }
}

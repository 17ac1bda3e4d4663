/** A position in the log. Positions increase from event to event, with gaps. */
export type Position = bigint;

/** The position before the first event. */
export const START: Position = 0n;

/** The expected revision of a stream that does not exist yet; a stream's first event has revision 0. */
export const NO_STREAM = -1n;

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An event to append. `id` is a UUID that is created once per command and kept when the append is retried. */
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

export type Appended = { position: Position; revision: bigint };

/** Consecutive events of a subscription. `caughtUp`: none followed them when they were read. */
export type Batch = { events: readonly RecordedEvent[]; caughtUp: boolean };

/** A page ends when data and metadata of its events have this number of characters, however few events that is. */
export const PAGE_LENGTH = 256 * 1024;

/**
 * A page of the log, read up to `position`, the next page's `after`. `isEnd`: nothing followed when it was read.
 */
export type Page = {
  events: readonly RecordedEvent[];
  position: Position;
  isEnd: boolean;
};

/** At most `limit` events after an event's position; `prefix` is that of the streams that are of interest. */
export type ForwardRange = { after: Position; limit: number; prefix?: string | undefined };

/** At most `limit` events before an event's position, or from the end of the log; `prefix` is that of their streams. */
export type BackwardRange = { before?: Position | undefined; limit: number; prefix?: string | undefined };

/** The log ID of a log that has no identity yet: one in EventStoreDB that is still empty. */
export const NO_LOG_ID = '';

/** Read access to the log. Every method rejects with StoreUnavailable if the log cannot be read, or is closed. */
export type EventLog = {
  /** Identifies the log for its whole lifetime; NO_LOG_ID as long as it has no identity. Never writes. */
  logId(): Promise<string>;

  /**
   * The position of the last event of the log's own streams, which a subscription delivers; START if there is none.
   * EventStoreDB may also have streams of other programs.
   */
  lastPosition(): Promise<Position>;

  /** The log has had this position: a node without it may be stale. */
  hadPosition?(position: Position): void;

  /** The number of events after a position, if the store knows it without reading them. */
  countAfter?(position: Position): number;

  /** The event at exactly this position, if there is one. */
  readEvent(position: Position): Promise<RecordedEvent | undefined>;

  /**
   * The first `limit` events of a stream, oldest first; none if the stream does not exist.
   * @throws StreamDeleted if the first one that can be read is not at revision 0, or none can
   */
  readStream(stream: string, limit: number): Promise<RecordedEvent[]>;

  /**
   * A page of the log: at most `limit` events after the position of an event, or after START. It may have fewer, or
   * none, also before the end of the log: it ends after PAGE_LENGTH. Events whose streams do not start with `prefix` may
   * be left out. @throws LogReplaced if no event is at `after`, in EventStoreDB; the embedded log reads what follows
   */
  readAll(range: ForwardRange): Promise<Page>;

  /**
   * A page of the log, newest event first; it may have fewer events than `limit`, or none, as that of `readAll`.
   * `position` is the earliest one read, and the next page's `before`. `isEnd`: nothing precedes it; a page that is
   * full may be the last one, too. @throws LogReplaced as `readAll`
   */
  readBackwards(range: BackwardRange): Promise<Page>;

  /**
   * A catch-up subscription: every event after a position, or after START, in log order, then each new one. The first
   * batch comes at once, empty if there are no events. Reconnects by itself when the log is unavailable, and ends when
   * `signal` aborts or the log is closed. @throws LogReplaced
   */
  subscribe(options: { after: Position; signal: AbortSignal }): AsyncIterable<Batch>;

  /** Waits for calls in flight, then closes the log. */
  close(): Promise<void>;
};

/** The append-only log, the single source of truth. */
export type EventStore = EventLog & {
  /** Why appends are refused: by the server, until it accepts one, or since the log is damaged; human-readable. */
  readonly appendsRefused?: string | undefined;

  /**
   * The same log, read such that no byte of an event can change without another result, as it is hashed.
   * Undefined if every read is like that. It is closed with the store.
   */
  readonly raw?: EventLog;

  /**
   * Appends one event durably if the stream's last revision is `expectedRevision`. Appending the same event
   * (by `id`) again returns the first result, so an append whose outcome is unknown can be retried.
   * @throws WrongExpectedRevision: if no stream was expected, its first event can be read now; StreamDeleted: the event
   * may have been stored, at a revision other than 0;
   * StoreUnavailable: the outcome is unknown, retry with the same event; TypeError: the stream name is not
   * well-formed Unicode, or the event is not JSON
   */
  append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended>;
};

/** Gets what happens in an event store, for metrics. It must not throw. */
export type StoreObserver = {
  /** Appends that have ended: stored, not at the expected revision, or failed. */
  onAppends(outcome: AppendOutcome, count: number): void;
  /** One transaction has committed this number of appends; `seconds` from its begin to its fsync. */
  onCommit(appends: number, seconds: number): void;
  /** The log had not been closed before it was opened: it is checked. */
  onUncleanStop(): void;
  /** A connection to the server has ended, and another one is opened. */
  onReconnect(): void;
  /** Another node of the cluster has become its leader. */
  onLeaderChange(): void;
  onSubscriptionDropped(): void;
};
export type AppendOutcome = 'stored' | 'wrongRevision' | 'failed';

/** EventStoreDB would replace lone surrogates, so that two stream names become one. @throws TypeError */
export function assertWellFormed(stream: string): void {
  if (!stream.isWellFormed()) throw new TypeError('the stream name is not well-formed Unicode');
}

/** The stream is not at the expected revision; nothing was appended. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision';
  constructor(stream: string, expected: bigint, options?: ErrorOptions) {
    super(`stream ${stream} is not at revision ${expected}`, options);
  }
}

/** The stream exists, and its first event cannot be read: an administrator has deleted or truncated it. */
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

/** The log's file is damaged: it can be read in part at most, and nothing is appended any more. */
export class LogDamaged extends StoreUnavailable {
  override readonly name = 'LogDamaged';
  constructor(reason: string, options?: ErrorOptions) {
    super(`the log is damaged: ${reason}`, options);
  }
}

/** A subscription finds another log than it began with: another server, or an older backup. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}

/** An event of a known type that does not match its schema, or contradicts its stream. */
export class InvalidEvent extends Error {
  override readonly name = 'InvalidEvent';
  readonly eventId: string;
  constructor({ id, position, type }: RecordedEvent) {
    super(`event ${id} at position ${position} is not a valid ${type}`);
    this.eventId = id;
  }
}

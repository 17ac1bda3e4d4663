/** A place in the log. Events have strictly increasing positions; gaps are allowed. */
export type Position = bigint;

/** Before the first event. */
export const START: Position = 0n;

/** The revision of a stream that does not exist: the first event of a stream has revision 0. */
export const NO_STREAM = -1n;

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** What a caller hands over. `id` is a UUID made once per command, however often the append is repeated. */
export type NewEvent = {
  id: string;
  type: string;
  data: { [key: string]: Json };
  metadata: { [key: string]: Json };
};

/** What the log holds. `data` and `metadata` may come from another writer: check before use. */
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

/** Consecutive events; `caughtUp` when nothing followed them at the time of reading. */
export type Batch = { events: readonly RecordedEvent[]; caughtUp: boolean };

/** The append-only log: the only truth. Every method may reject with `StoreUnavailable`. */
export type EventStore = EventLog & {
  /**
   * Appends one event, durably, if the stream's last revision is `expectedRevision` (`NO_STREAM`: no event yet).
   * The same event appended again gives its first result.
   * @throws WrongExpectedRevision; TypeError where the name of the stream or the event is not what JSON can carry
   */
  append(stream: string, event: NewEvent, expectedRevision: bigint): Promise<Appended>;
};

/** The log as its readers see it. */
export type EventLog = {
  /** Tells this log from every other; the same for as long as the log lives. */
  mark(): Promise<string>;

  /** The first `maxCount` events of a stream, oldest first; none when there is no such stream. */
  readStream(stream: string, maxCount: number): Promise<RecordedEvent[]>;

  /** The event at exactly this position. */
  eventAt(position: Position): Promise<RecordedEvent | undefined>;

  /** The position of the last event; `START` when there is none. */
  end(): Promise<Position>;

  /**
   * Every event after a position, in log order, for ever: first what is there, then each as it is appended.
   * The first batch comes at once, empty when there is nothing. Ends when `signal` aborts or the store closes.
   */
  subscribe(options: { after: Position; signal: AbortSignal }): AsyncIterable<Batch>;

  /** Settles what is in flight, then lets go of the log. */
  close(): Promise<void>;
};

/** Lone surrogates would be replaced on the way, and two names become one. @throws TypeError */
export function mustBeWellFormed(stream: string): void {
  if (!stream.isWellFormed()) throw new TypeError('the name of a stream must be well-formed text');
}

/** The stream is not where the caller thought it was; nothing was appended. */
export class WrongExpectedRevision extends Error {
  override readonly name = 'WrongExpectedRevision';
  constructor(stream: string, expected: bigint) {
    super(`stream ${stream} is not at revision ${expected}`);
  }
}

/** The log cannot be asked just now. After an append the outcome is unknown: repeat it with the same event. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
}

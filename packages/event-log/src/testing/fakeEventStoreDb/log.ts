import { randomUUID } from 'node:crypto';

export type FakeEvent = {
  /** The offset of the event in the log, in bytes: above 0, increasing, with gaps. */
  position: bigint;
  stream: string;
  revision: bigint;
  id: string;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
  /** Milliseconds since 1970. */
  created: number;
};

export type ProposedEvent = Pick<FakeEvent, 'id' | 'type' | 'contentType' | 'data' | 'metadata'>;

/** Bytes and text are stored unchanged, everything else as JSON. */
export type EventToWrite = {
  id?: string;
  type?: string;
  contentType?: string;
  data?: unknown;
  metadata?: unknown;
};

export type ExpectedRevision = 'any' | 'no_stream' | 'stream_exists' | bigint;

/** The stream is at another revision; -1 is no stream. */
export type WrongRevision = { current: bigint };

/** The minimum number of event IDs that are recognised without an exact expected revision. */
const REMEMBERED_IDS = 50_000;

/** The log, which the nodes of a fake cluster share. */
export class FakeLog {
  readonly all: readonly FakeEvent[];
  readonly #all: FakeEvent[] = [];
  readonly #streams = new Map<string, FakeEvent[]>();
  /** The number of deleted events of each stream that was deleted softly, or truncated. */
  readonly #deleted = new Map<string, number>();
  readonly #truncated = new Set<string>();
  readonly #tombstones = new Set<string>();
  #recent = new Map<string, FakeEvent>();
  #lessRecent = new Map<string, FakeEvent>();
  readonly #followers = new Set<() => void>();
  #end = 1_024;

  constructor() {
    this.all = this.#all;
  }

  stream(name: string): readonly FakeEvent[] {
    return this.#streams.get(name) ?? [];
  }

  /** The number of events at the start of a stream that cannot be read from it. */
  deletedOf(name: string): number {
    return this.#deleted.get(name) ?? 0;
  }

  /** Whether an administrator has deleted all of its events, and what is left of the stream. */
  deletionOf(name: string): 'soft' | 'truncated' | 'tombstone' | undefined {
    if (this.#tombstones.has(name)) return 'tombstone';
    if (this.deletedOf(name) < this.stream(name).length || this.stream(name).length === 0) return undefined;
    return this.#truncated.has(name) ? 'truncated' : 'soft';
  }

  /** The index in `all` of the first event at or after this position. */
  indexOf(position: bigint): number {
    let low = 0;
    let high = this.#all.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#all[middle] as FakeEvent).position < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls the follower after every append; returns a function that ends this. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** Appends without an expected revision. */
  append(stream: string, event: EventToWrite = {}): FakeEvent {
    const { id = randomUUID(), type = 'Written', contentType = 'application/json' } = event;
    const [data, metadata] = [bytes(event.data ?? {}), bytes(event.metadata ?? '')];
    const appended = this.#put(stream, { id, type, contentType, data, metadata });
    this.#notify();
    return appended;
  }

  /**
   * Appends with an expected revision, and returns the last event of the append. Events that were appended
   * before are not appended again (EventStoreDB, IndexWriter.CheckCommit): events of the same IDs that follow
   * the expected revision, or, without an exact expected revision, recent IDs in the same stream.
   */
  appendExpecting(
    stream: string,
    expected: ExpectedRevision,
    proposed: readonly ProposedEvent[],
  ): FakeEvent | WrongRevision {
    const events = this.stream(stream);
    const isEmpty = events.length === 0 || this.deletionOf(stream) === 'soft';
    const current = isEmpty ? -1n : BigInt(events.length) - 1n;
    const exact = expected === 'no_stream' ? -1n : expected;
    const repeated = proposed.map(({ id }, i) => {
      const earlier = typeof exact === 'bigint' ? events[Number(exact) + 1 + i] : this.#remembered(id);
      return earlier?.id === id && earlier.stream === stream ? earlier : undefined;
    });
    const last = repeated.at(-1);
    if (last !== undefined && !repeated.includes(undefined)) return last;
    const fits =
      typeof exact === 'bigint'
        ? exact === current
        : repeated[0] === undefined && (exact === 'any' || !isEmpty);
    if (!fits) return { current };
    const appended = proposed.map((event) => this.#put(stream, event)).at(-1);
    if (appended === undefined) throw new Error('an append without events is not implemented');
    this.#notify();
    return appended;
  }

  /** Deletes a stream softly: its events stay in `all`, and the stream continues at the next revision. */
  softDelete(stream: string): void {
    this.#deleted.set(stream, this.stream(stream).length);
    this.append(`$$${stream}`, { type: '$metadata', data: '{"$tb":9223372036854775807}' });
  }

  /** Truncates a stream: its events cannot be read from it, and it stays at its revision. */
  truncate(stream: string): void {
    const events = this.stream(stream).length;
    this.#deleted.set(stream, events);
    this.#truncated.add(stream);
    this.append(`$$${stream}`, { type: '$metadata', data: { $tb: events } });
  }

  /** Deletes a stream for ever: nothing can be read from it, or appended to it. */
  tombstone(stream: string): void {
    this.#tombstones.add(stream);
    this.append(stream, { type: '$streamDeleted' });
  }

  /** Removes an event from `all`; what follows it keeps its position. */
  remove({ position }: FakeEvent): void {
    this.#all.splice(this.indexOf(position), 1);
  }

  /** Removes all events but the first, which is the log ID; positions continue to increase. */
  clear(): void {
    const [first] = this.#all;
    this.#all.length = 0;
    this.#streams.clear();
    this.#deleted.clear();
    this.#truncated.clear();
    this.#tombstones.clear();
    this.#recent = new Map();
    this.#lessRecent = new Map();
    if (!first) return;
    this.#all.push(first);
    this.#streams.set(first.stream, [first]);
    this.#remember(first);
  }

  #put(stream: string, proposed: ProposedEvent): FakeEvent {
    const events = this.#streams.get(stream);
    const { type, data, metadata } = proposed;
    const revision = BigInt(events?.length ?? 0);
    const event = { ...proposed, position: BigInt(this.#end), stream, revision, created: Date.now() };
    this.#end += 100 + stream.length + type.length + data.length + metadata.length;
    this.#all.push(event);
    if (events) events.push(event);
    else this.#streams.set(stream, [event]);
    this.#remember(event);
    return event;
  }

  #remembered(id: string): FakeEvent | undefined {
    return this.#recent.get(id) ?? this.#lessRecent.get(id);
  }

  #remember(event: FakeEvent): void {
    if (this.#recent.size === REMEMBERED_IDS) {
      this.#lessRecent = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(event.id, event);
  }

  #notify(): void {
    for (const follower of this.#followers) follower();
  }
}

function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}

import { randomUUID } from 'node:crypto';

export type FakeEvent = {
  /** The byte offset of the event in the log: above 0, increasing, with gaps. */
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
  /** The server throws when it reads this event. */
  isUnreadable?: boolean | undefined;
};

export type ProposedEvent = Pick<
  FakeEvent,
  'id' | 'type' | 'contentType' | 'data' | 'metadata' | 'isUnreadable'
>;

/** Bytes and text are stored unchanged, everything else as JSON. */
export type EventToWrite = {
  id?: string;
  type?: string;
  contentType?: string;
  data?: unknown;
  metadata?: unknown;
  isUnreadable?: boolean | undefined;
};

/** The stream is at a different revision; -1 means no stream. */
type WrongRevision = { current: bigint };

/**
 * How an administrator deletes the events of a stream, which stay in $all. After a soft deletion the stream continues
 * at its next revision, after a truncation or beyond its maximum age it stays at its revision, and after a tombstone it
 * accepts no events.
 */
export type Deletion = 'softDelete' | 'truncate' | 'maxAge' | 'tombstone';

/** The log, which the nodes of a fake cluster share. */
export class FakeLog {
  readonly all: readonly FakeEvent[];
  readonly #all: FakeEvent[] = [];
  readonly #streams = new Map<string, FakeEvent[]>();
  /** For each stream with deleted events: their number, and how they were deleted. */
  readonly #deletions = new Map<string, { how: Deletion; events: number }>();
  readonly #followers = new Set<() => void>();
  #end = 1_024;

  constructor() {
    this.all = this.#all;
  }

  stream(name: string): readonly FakeEvent[] {
    return this.#streams.get(name) ?? [];
  }

  /** The number of events at the start of a stream that can no longer be read from it. */
  deletedEvents(name: string): number {
    return this.#deletions.get(name)?.events ?? 0;
  }

  /** How all events of a stream were deleted; undefined if it has events. */
  deletion(name: string): Deletion | undefined {
    const deletion = this.#deletions.get(name);
    return deletion?.events === this.stream(name).length ? deletion.how : undefined;
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

  /** Calls the follower after every append; returns a function that removes it. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** Appends without an expected revision. */
  append(stream: string, event: EventToWrite = {}): FakeEvent {
    const { id = randomUUID(), type = 'Written', contentType = 'application/json' } = event;
    const [data, metadata] = [bytes(event.data ?? {}), bytes(event.metadata ?? '')];
    const { isUnreadable } = event;
    const appended = this.#put(stream, { id, type, contentType, data, metadata, isUnreadable });
    this.#notify();
    return appended;
  }

  /**
   * Appends after an expected revision, -1 for no stream. An event with the same ID that already follows the revision
   * is not appended again (EventStoreDB, IndexWriter.CheckCommit).
   */
  appendExpecting(stream: string, expected: bigint, proposed: ProposedEvent): FakeEvent | WrongRevision {
    const events = this.stream(stream);
    const following = events[Number(expected) + 1];
    if (following?.id === proposed.id) return following;
    const current = this.deletion(stream) === 'softDelete' ? -1n : BigInt(events.length) - 1n;
    if (current !== expected) return { current };
    const appended = this.#put(stream, proposed);
    this.#notify();
    return appended;
  }

  /** Deletes the events of a stream, like an administrator. */
  delete(stream: string, how: Deletion): void {
    if (how === 'tombstone') this.append(stream, { type: '$streamDeleted' });
    const events = this.stream(stream).length;
    this.#deletions.set(stream, { how, events });
    const truncatedBefore = how === 'softDelete' ? '9223372036854775807' : `${events}`;
    const metadata = how === 'maxAge' ? '{"$maxAge":1}' : `{"$tb":${truncatedBefore}}`;
    if (how !== 'tombstone') this.append(`$$${stream}`, { type: '$metadata', data: metadata });
  }

  /** Removes an event from `all`, like scavenging after its stream was truncated; later events keep their positions. */
  scavenge({ position }: FakeEvent): void {
    this.#all.splice(this.indexOf(position), 1);
  }

  /** Removes all events except the first, which gives the log its ID; positions continue to increase. */
  clear(): void {
    const [first] = this.#all;
    this.#all.length = 0;
    this.#streams.clear();
    this.#deletions.clear();
    if (!first) return;
    this.#all.push(first);
    this.#streams.set(first.stream, [first]);
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
    return event;
  }

  #notify(): void {
    for (const follower of this.#followers) follower();
  }
}

function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}

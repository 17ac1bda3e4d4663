import { randomUUID } from 'node:crypto';

export type DoubleEvent = {
  /** Where the event begins in the log, in bytes: above 0, rising, with gaps. */
  position: bigint;
  stream: string;
  revision: bigint;
  id: string;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
  /** In milliseconds since 1970. */
  created: number;
};

export type ProposedEvent = Pick<DoubleEvent, 'id' | 'type' | 'contentType' | 'data' | 'metadata'>;

/** Bytes and text are stored as they are, everything else as JSON. */
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

/** So many event ids at least are recognised where no exact revision is expected. */
const REMEMBERED_IDS = 50_000;

/** What the nodes of one (pretended) cluster share: the log. */
export class DoubleLog {
  readonly all: readonly DoubleEvent[];
  readonly #all: DoubleEvent[] = [];
  readonly #streams = new Map<string, DoubleEvent[]>();
  #recent = new Map<string, DoubleEvent>();
  #lessRecent = new Map<string, DoubleEvent>();
  readonly #followers = new Set<() => void>();
  #end = 1_024;

  constructor() {
    this.all = this.#all;
  }

  stream(name: string): readonly DoubleEvent[] {
    return this.#streams.get(name) ?? [];
  }

  /** Where the first event stands in `all` that begins there or later. */
  indexOf(position: bigint): number {
    let low = 0;
    let high = this.#all.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#all[middle] as DoubleEvent).position < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Calls back after every append, until what it returns is called. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** Appends whatever the stream holds. */
  append(stream: string, event: EventToWrite = {}): DoubleEvent {
    const { id = randomUUID(), type = 'Written', contentType = 'application/json' } = event;
    const [data, metadata] = [bytes(event.data ?? {}), bytes(event.metadata ?? '')];
    const appended = this.#put(stream, { id, type, contentType, data, metadata });
    this.#tell();
    return appended;
  }

  /**
   * Appends as a client asks for it, and gives the last event of the append. What has been appended before is not
   * appended again (EventStoreDB, IndexWriter.CheckCommit): events of the same ids that follow the expected revision,
   * or, where no exact revision is expected, recent ids in the same stream.
   */
  appendExpecting(
    stream: string,
    expected: ExpectedRevision,
    proposed: readonly ProposedEvent[],
  ): DoubleEvent | WrongRevision {
    const events = this.stream(stream);
    const current = BigInt(events.length) - 1n;
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
        : repeated[0] === undefined && (exact === 'any' || events.length > 0);
    if (!fits) return { current };
    const appended = proposed.map((event) => this.#put(stream, event)).at(-1);
    if (appended === undefined) throw new Error('an append without events is not imitated');
    this.#tell();
    return appended;
  }

  /** Forgets all events but the first, which tells the log from others; positions go on rising. */
  clear(): void {
    const [first] = this.#all;
    this.#all.length = 0;
    this.#streams.clear();
    this.#recent = new Map();
    this.#lessRecent = new Map();
    if (!first) return;
    this.#all.push(first);
    this.#streams.set(first.stream, [first]);
    this.#remember(first);
  }

  #put(stream: string, proposed: ProposedEvent): DoubleEvent {
    const events = this.#streams.get(stream);
    const { id, type, contentType, data, metadata } = proposed;
    const event = {
      position: BigInt(this.#end),
      stream,
      revision: BigInt(events?.length ?? 0),
      id,
      type,
      contentType,
      data,
      metadata,
      created: Date.now(),
    };
    this.#end += 100 + stream.length + type.length + data.length + metadata.length;
    this.#all.push(event);
    if (events) events.push(event);
    else this.#streams.set(stream, [event]);
    this.#remember(event);
    return event;
  }

  #remembered(id: string): DoubleEvent | undefined {
    return this.#recent.get(id) ?? this.#lessRecent.get(id);
  }

  #remember(event: DoubleEvent): void {
    if (this.#recent.size === REMEMBERED_IDS) {
      this.#lessRecent = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(event.id, event);
  }

  #tell(): void {
    for (const follower of this.#followers) follower();
  }
}

function bytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}

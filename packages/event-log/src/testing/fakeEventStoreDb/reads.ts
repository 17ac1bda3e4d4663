import type { ReadReq, ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import type { ServerWritableStream } from '@grpc/grpc-js';
import type { FakeEvent, FakeLog } from './log.ts';
import {
  type CallError,
  caughtUp,
  checkpoint,
  confirmation,
  eventMessage,
  invalidPosition,
  streamDeleted,
  streamName,
  streamNotFound,
  type Version,
} from './messages.ts';

export type ReadCall = ServerWritableStream<ReadReq, ReadResp>;
type Options = ReadReq.Options;

/** Messages to send; undefined if there are none for now. */
type Messages = Iterator<ReadResp | undefined>;

/** Sends messages with backpressure, and continues whenever it is pumped. */
export class Feed {
  isMuted = false;
  /** Whether it has no message to send for now. */
  isIdle = false;
  #blocked = false;
  #isOver = false;
  readonly #call: ReadCall;
  readonly #messages: Messages;

  constructor(call: ReadCall, messages: Messages) {
    this.#call = call;
    this.#messages = messages;
    call.on('cancelled', () => {
      this.#isOver = true;
    });
    call.on('drain', () => {
      this.#blocked = false;
      this.pump();
    });
  }

  pump(): void {
    while (!(this.isMuted || this.#blocked || this.#isOver)) {
      const { value, done } = this.#next();
      this.isIdle = !done && value === undefined;
      if (done) this.end();
      else if (value === undefined) return;
      else this.#blocked = !this.#call.write(value);
    }
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.end();
  }

  fail(error: CallError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.emit('error', error);
  }

  #next(): IteratorResult<ReadResp | undefined> {
    try {
      return this.#messages.next();
    } catch (error) {
      this.fail(error as CallError);
      return { done: false, value: undefined };
    }
  }
}

/** Events from a position or revision, inclusive; backwards from a position of $all, exclusive. */
export function* read(
  log: FakeLog,
  options: Options,
  heldAfter: () => number,
  version: Version,
): Generator<ReadResp | undefined> {
  const backwards = options.getReadDirection() === 1;
  const events = source(log, options);
  const stream = streamName(options.getStream()?.getStreamIdentifier());
  const deletion = options.hasAll() ? undefined : log.deletionOf(stream);
  if (deletion === 'tombstone') throw streamDeleted(stream);
  if (deletion === 'truncated') return;
  if (deletion === 'soft' || (!options.hasAll() && events.length === 0)) {
    yield streamNotFound(stream);
    return;
  }
  const { at, exactly } = start(log, options, version);
  const count = Number(options.getCount());
  const step = backwards ? -1 : 1;
  let next = backwards && (options.hasAll() || !exactly) ? at - 1 : at;
  const isPage = options.hasAll() && count > 1;
  while (isPage && at >= Math.max(heldAfter(), 1)) yield undefined;
  for (let sent = 0; sent < count; sent++, next += step) {
    const event = events[next];
    if (event === undefined) return;
    yield eventMessage(options.hasAll(), event);
  }
}

/** The messages of a read, which pauses after so many of them, or before its end, as long as that is a number. */
export function* pausing(
  messages: Iterable<ReadResp | undefined>,
  pausesAfter: () => number | undefined,
): Generator<ReadResp | undefined> {
  let sent = 0;
  for (const message of messages) {
    while (sent >= (pausesAfter() ?? Number.POSITIVE_INFINITY)) yield undefined;
    yield message;
    if (message) sent++;
  }
  while (pausesAfter() !== undefined) yield undefined;
}

/** All events after a position or revision, including later ones. */
export class Subscription {
  #at = 0;
  #live = false;
  readonly #log: FakeLog;
  readonly #options: Options;
  readonly #caughtUp: boolean;
  readonly #version: Version;
  readonly #heldAfter: () => number;

  /**
   * With `caughtUp` it sends CaughtUp once, as servers do since 23.10; it pauses after `heldAfter` events.
   */
  constructor(log: FakeLog, options: Options, caughtUp: boolean, heldAfter: () => number, version: Version) {
    this.#version = version;
    this.#log = log;
    this.#options = options;
    this.#caughtUp = caughtUp;
    this.#heldAfter = heldAfter;
  }

  /** The number of pending events since it is live. */
  get behind(): number {
    return this.#live ? source(this.#log, this.#options).length - this.#at : 0;
  }

  *messages(id: string): Generator<ReadResp | undefined> {
    const { at, exactly } = start(this.#log, this.#options, this.#version);
    this.#at = exactly ? at + 1 : at;
    const { matches, interval } = filter(this.#options);
    while (this.#heldAfter() < 0) yield undefined;
    yield confirmation(id);
    for (let processed = 1; ; ) {
      if (this.#at >= this.#heldAfter()) {
        yield undefined;
        continue;
      }
      const event = source(this.#log, this.#options)[this.#at];
      if (event === undefined) {
        const first = !this.#live;
        this.#live = true;
        yield first && this.#caughtUp ? caughtUp() : undefined;
        continue;
      }
      this.#at++;
      if (matches(event)) yield eventMessage(this.#options.hasAll(), event);
      if (processed++ % interval === 0) yield checkpoint(event);
    }
  }
}

function source(log: FakeLog, options: Options): readonly FakeEvent[] {
  return options.hasAll() ? log.all : log.stream(streamName(options.getStream()?.getStreamIdentifier()));
}

/** The index to start at in the source, and whether it is exactly the requested position. */
function start(log: FakeLog, options: Options, version: Version): { at: number; exactly: boolean } {
  const from = options.getAll() ?? options.getStream();
  const stream = streamName(options.getStream()?.getStreamIdentifier());
  if (from?.hasStart()) return { at: options.hasAll() ? 0 : log.deletedOf(stream), exactly: false };
  if (from?.hasEnd()) return { at: source(log, options).length, exactly: false };
  if (!options.hasAll()) return { at: Number(options.getStream()?.getRevision()), exactly: true };
  const position = BigInt(options.getAll()?.getPosition()?.getCommitPosition() ?? 0);
  const at = log.indexOf(position);
  const exactly = log.all[at]?.position === position;
  const isBeyondEnd = at === log.all.length; // which only a backward read refuses
  if (position > 0n && !exactly && (!isBeyondEnd || options.getReadDirection() === 1))
    throw invalidPosition(version, options.hasSubscription());
  return { at, exactly };
}

function filter(options: Options) {
  const filter = options.getFilter();
  if (filter === undefined) return { matches: () => true, interval: Number.POSITIVE_INFINITY };
  const key = filter.hasStreamIdentifier() ? 'stream' : 'type';
  const expression = filter.getStreamIdentifier() ?? filter.getEventType();
  const regex = new RegExp(expression?.getRegex() || '^(?!)');
  const prefixes = expression?.getPrefixList() ?? [];
  return {
    matches: (event: FakeEvent) =>
      regex.test(event[key]) || prefixes.some((prefix) => event[key].startsWith(prefix)),
    interval: filter.getCheckpointintervalmultiplier() * (filter.hasMax() ? filter.getMax() : 32),
  };
}

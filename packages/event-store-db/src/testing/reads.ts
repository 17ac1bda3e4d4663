import { randomUUID } from 'node:crypto';
import type { ReadReq, ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import type { ServerWritableStream } from '@grpc/grpc-js';
import type { FakeEvent, FakeLog } from './log.ts';
import {
  type CallError,
  caughtUp,
  confirmation,
  eventMessage,
  invalidPosition,
  serverCheckpoint,
  streamDeleted,
  streamName,
  streamNotFound,
  type Version,
} from './messages.ts';

export type ReadCall = ServerWritableStream<ReadReq, ReadResp>;
type Options = ReadReq.Options;

/** Messages to send; undefined while there are none. */
type Messages = Generator<ReadResp | undefined>;

/** The log that a server reads, which pauses after `heldAfter` events. */
export type Served = { log: FakeLog; version: Version; heldAfter: () => number };

/** Sends messages with backpressure; `pump` continues. */
export class Feed {
  isMuted = false;
  /** Whether it has no message to send now. */
  isIdle = false;
  #blocked = false;
  #isOver = false;
  readonly #call: ReadCall;
  readonly #messages: Iterator<ReadResp | undefined>;

  constructor(call: ReadCall, messages: Iterator<ReadResp | undefined>) {
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

/** Reads $all from a position, inclusive, backwards exclusive; or a stream from its start, backwards from its end. */
export function* read(options: Options, { log, version, heldAfter }: Served): Messages {
  const isAll = options.hasAll();
  const stream = streamName(options.getStream()?.getStreamIdentifier());
  const events = isAll ? log.all : log.stream(stream);
  const deletion = isAll ? undefined : log.deletion(stream);
  if (deletion === 'tombstone') throw streamDeleted(stream);
  if (deletion === 'truncate' || deletion === 'maxAge') return;
  if (deletion === 'softDelete' || (!isAll && events.length === 0)) {
    yield streamNotFound(stream);
    return;
  }
  const isBackwards = options.getReadDirection() === 1;
  const start = isAll
    ? startInAll(log, options, version)
    : isBackwards
      ? events.length
      : log.deletedEvents(stream);
  const count = Number(options.getCount());
  const isPage = isAll && count > 1;
  while (isPage && start >= Math.max(heldAfter(), 1)) yield undefined;
  const matches = prefixFilter(options);
  for (let next = isBackwards ? start - 1 : start, sent = 0; sent < count; next += isBackwards ? -1 : 1) {
    const event = events[next];
    if (event === undefined) return;
    if (!matches(event)) continue;
    sent++;
    yield eventMessage(isAll, event);
  }
}

/** A filter for the streams that a call requests. */
function prefixFilter(options: Options): (event: FakeEvent) => boolean {
  if (!options.hasFilter()) return () => true;
  const prefixes = options.getFilter()?.getStreamIdentifier()?.getPrefixList() ?? [];
  return ({ stream }) => prefixes.some((prefix) => stream.startsWith(prefix));
}

/** The messages of a read. It pauses after `pauseAfter()` messages, or before its end, while this is a number. */
export function* pausing(
  messages: Messages,
  pauseAfter: () => number | undefined,
  onSent: () => void,
): Messages {
  let sent = 0;
  for (const message of messages) {
    while (sent >= (pauseAfter() ?? Number.POSITIVE_INFINITY)) yield undefined;
    yield message;
    if (!message) continue;
    sent++;
    onSent();
  }
  while (pauseAfter() !== undefined) yield undefined;
}

/** The events of $all after a position, then new events; pauses after `heldAfter` events. */
export function* subscription(options: Options, { log, version, heldAfter }: Served): Messages {
  const start = startInAll(log, options, version);
  const isAfterEvent = log.all[start]?.position === positionIn(options);
  const filter = options.getFilter();
  const matches = prefixFilter(options);
  const checkpointInterval = (filter?.getCheckpointintervalmultiplier() ?? 0) * (filter?.getMax() ?? 0);
  while (heldAfter() < 0) yield undefined;
  yield confirmation(randomUUID());
  let next = isAfterEvent ? start + 1 : start;
  for (let processed = 1, isLive = false; ; ) {
    const isHeld = next >= heldAfter();
    const event = isHeld ? undefined : log.all[next];
    if (event === undefined) {
      yield isHeld || isLive ? undefined : caughtUp();
      isLive ||= !isHeld;
      continue;
    }
    next++;
    if (matches(event)) yield eventMessage(true, event);
    if (processed++ % checkpointInterval === 0) yield serverCheckpoint(event);
  }
}

/** The index in $all of the event at which a read starts. */
function startInAll(log: FakeLog, options: Options, version: Version): number {
  if (options.getAll()?.hasStart()) return 0;
  if (options.getAll()?.hasEnd()) return log.all.length;
  const position = positionIn(options);
  const at = log.indexOf(position);
  const isBeyondEnd = at === log.all.length; // only a backward read refuses this
  if (log.all[at]?.position !== position && (!isBeyondEnd || options.getReadDirection() === 1))
    throw invalidPosition(version, options.hasSubscription());
  return at;
}

/** The position in $all at which a read starts; 0 for the start of the log. */
export const positionIn = (options: Options): bigint =>
  BigInt(options.getAll()?.getPosition()?.getCommitPosition() ?? 0);

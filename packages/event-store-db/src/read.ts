import {
  type BackwardRange,
  type ForwardRange,
  PAGE_LENGTH,
  type Page,
  type Position,
  type RecordedEvent,
  START,
} from '@event-sourced/event-log';
import { convertToCommandError, ErrorType, type EventStoreDBClient } from '@eventstore/db-client';
import { errorType, GRPC_STATUS, isInvalidPosition, unreadable } from './failures.ts';
import { CallFailed } from './protocol.ts';
import { openRead, outOfOrder, type ReadRange } from './readCall.ts';

/** A page, and the ID of the event before it; undefined at the start of the log. */
export type PageAfter = Page & { afterId: string | undefined };

/** A page has only events of streams with this prefix. */
type Filtered<Range> = Range & { prefix: string };

/** `isCut`: reading ended at the limit or the length of a page, so more events may follow. `isMissing`: no stream. */
type Collected = { events: RecordedEvent[]; isCut: boolean; isMissing: boolean };

/** Reads streams and $all. Each read is complete, or fails. */
export class Reader {
  readonly #client: EventStoreDBClient;
  readonly #onNode: (node: string) => void;
  #node: string | undefined;

  /** `onNode` gets the address of the node that responds, when it changes: the leader, since reads require it. */
  constructor(client: EventStoreDBClient, onNode: (node: string) => void = () => {}) {
    this.#client = client;
    this.#onNode = onNode;
  }

  /**
   * The first events of a stream; none if it does not exist; undefined if it exists without its first event: after a
   * deletion or a truncation, or beyond its maximum age or count.
   */
  async stream({ stream, limit }: { stream: string; limit: number }): Promise<RecordedEvent[] | undefined> {
    try {
      const { events, isMissing } = await this.#collect({ stream, limit });
      const isWhole = events[0]?.revision === 0n || (isMissing && !(await this.#isSoftDeleted(stream)));
      return isWhole ? events : undefined;
    } catch (error) {
      if (errorType(error) === ErrorType.STREAM_DELETED) return undefined;
      throw error;
    }
  }

  /** The server responds as if the stream did not exist; only its metadata differ. */
  async #isSoftDeleted(stream: string): Promise<boolean> {
    const newest = { stream: `$$${stream}`, from: 'end', backwards: true, limit: 1 } as const;
    const [metadata] = (await this.#collect(newest)).events;
    return (metadata?.data as { $tb?: unknown } | undefined)?.$tb !== undefined;
  }

  /** Reads $all from its end, where no event is: the server responds, and allows this user to read $all. */
  async ping(): Promise<void> {
    await this.#collect({ from: 'end', limit: 1 });
  }

  /** The first or the last event of $all; undefined if there is none. */
  async edge(edge: 'first' | 'last'): Promise<RecordedEvent | undefined> {
    const range: ReadRange = edge === 'first' ? {} : { from: 'end', backwards: true };
    return (await this.#collect({ ...range, limit: 1 })).events[0];
  }

  /** The event of $all at a position; undefined if there is none. */
  async at(position: Position): Promise<RecordedEvent | undefined> {
    const [event] = (await this.#unlessInvalid({ from: position, limit: 1 }))?.events ?? [];
    return event?.position === position ? event : undefined;
  }

  /** A page of $all; undefined if no event is at `after`. */
  async page({ after, limit, prefix }: Filtered<ForwardRange>): Promise<PageAfter | undefined> {
    const skipped = after === START ? 0 : 1; // the event at `after` itself, if it matches
    const page = await this.#unlessInvalid({ from: after, limit: limit + skipped, prefix });
    if (!page) return undefined;
    const [first] = page.events;
    const startsAtEvent = first?.position === after;
    const afterId = startsAtEvent ? first.id : (skipped && (await this.#idAt(after))) || undefined;
    if (skipped > 0 && afterId === undefined) return undefined;
    const events = page.events.slice(startsAtEvent ? 1 : 0, limit + skipped);
    return { events, position: events.at(-1)?.position ?? after, isEnd: !page.isCut, afterId };
  }

  /** The ID of the event at a position; undefined if there is none. Another program's event may be unreadable. */
  async #idAt(position: Position): Promise<string | undefined> {
    return this.at(position).then(
      (event) => event?.id,
      (error) => {
        if (error.kind === 'unreadable') return 'unreadable';
        throw error;
      },
    );
  }

  /** The same, newest event first. A backward read of $all starts before the position, a forward read at it. */
  async pageBackwards({ before, limit, prefix }: Filtered<BackwardRange>): Promise<Page | undefined> {
    if (before === START) return { events: [], position: START, isEnd: true };
    const page = await this.#unlessInvalid({ from: before ?? 'end', backwards: true, limit, prefix });
    if (!page) return undefined;
    const position = page.events.at(-1)?.position ?? before ?? START;
    return { events: page.events, position, isEnd: !page.isCut };
  }

  /**
   * A read of $all; undefined if the server rejects its position. Since the same error may have other causes, it counts
   * only if then a different read succeeds and the same read fails again.
   */
  async #unlessInvalid(range: ReadRange & { limit: number }): Promise<Collected | undefined> {
    for (let isRepeated = false; ; isRepeated = true) {
      try {
        return await this.#collect(range);
      } catch (error) {
        if (range.from === START || !isInvalidPosition(error as Error)) throw error;
        if (isRepeated) return undefined;
      }
      await this.ping();
    }
  }

  /**
   * The events of a read, up to its limit or the length of a page. Fewer events are complete only after the server has
   * completed the call. @throws the client's error, CallFailed
   */
  async #collect({ limit, ...range }: ReadRange & { limit: number }): Promise<Collected> {
    const call = await openRead(this.#client, { ...range, limit });
    let isCompleted = false;
    call.on('error', () => {}); // the loop throws the first error
    call.once('status', ({ code }: { code: number }) => {
      isCompleted = code === GRPC_STATUS.OK;
      if (isCompleted) this.#responds(call.getPeer());
    });
    const events: RecordedEvent[] = [];
    let length = 0;
    let isMissing = false;
    try {
      for await (const response of call) {
        isMissing ||= response.isStreamNotFound === true;
        const { event } = response;
        if (!event) continue;
        const previous = events.at(-1);
        const [earlier, later] = range.backwards ? [event, previous] : [previous, event];
        if (earlier && later && earlier.position >= later.position) throw outOfOrder(event);
        events.push(event);
        length += range.stream === undefined ? (response.length ?? 0) : 0;
        // The first event may be the last event of the previous page. After the limit, the server would go on
        // searching.
        if (events.length < limit && (length < PAGE_LENGTH || events.length < 2)) continue;
        this.#responds(call.getPeer());
        call.cancel();
        return { events, isCut: true, isMissing };
      }
    } catch (error) {
      const failure = convertToCommandError(error as Error);
      const unread = unreadable(failure, describeNext(range, events.at(-1)));
      // The next page starts with it, and fails; the first event may be the last event of the previous page.
      if (unread && range.stream === undefined && events.length > 1)
        return { events, isCut: true, isMissing };
      throw unread ?? failure;
    }
    if (!isCompleted) throw new CallFailed('transient', 'the read ended before the server had completed it');
    return { events, isCut: false, isMissing };
  }

  #responds(node: string): void {
    if (node === this.#node) return;
    this.#node = node;
    this.#onNode(node);
  }
}

/** The next event of a read, for messages; undefined where no event is. */
function describeNext({ stream, from = START, backwards, prefix }: ReadRange, last?: RecordedEvent) {
  const streams = prefix === undefined ? 'of the log' : `of the streams ${prefix}…`;
  const where = stream === undefined ? streams : `of the stream ${stream}`;
  if (last) return `the event ${backwards ? 'before' : 'after'} position ${last.position} ${where}`;
  if (from === 'end') return backwards ? `the last event ${where}` : undefined;
  if (from === START) return `the first event ${where}`;
  return `the event ${backwards ? 'before' : 'at'} position ${from} ${where}`;
}

import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  assertWellFormed,
  type Batch,
  type EventLog,
  type EventStore,
  type LogDamaged,
  type Position,
  type RecordedEvent,
  type StoreObserver,
  StoreUnavailable,
} from '../eventStore.ts';
import { AppendQueue } from './appendQueue.ts';
import { checkAfterCrash, openLogFile, recoverWal, unusable, wasNotClosed } from './file.ts';
import { BATCH_SIZE, logQueries, type QueryOptions, type ReadOptions } from './read.ts';

type Options = {
  file: string;
  now: () => Date;
  /** Called once if durability cannot be guaranteed any more; the process must end. */
  onFatal: (error: Error) => void;
  /** Called before a log that was not closed is checked: it takes a second or more per million events. */
  onCheck?: () => void;
  /** Called once if the log turns out to be damaged; then it accepts no appends. */
  onDamage?: (error: LogDamaged) => void;
  observer?: StoreObserver | undefined;
} & ReadOptions;

/**
 * The embedded log: one SQLite table, as in message-db. A writer thread commits the appends; this thread
 * reads, on a connection of its own that never waits for a commit.
 * @throws UnusableLog
 */
export async function openSqliteStore(options: Options): Promise<EventStore> {
  const { file, now, onFatal, onCheck, onDamage, observer, ...readOptions } = options;
  if (wasNotClosed(file)) {
    onCheck?.();
    observer?.onUncleanStop();
    recoverWal(file);
    checkAfterCrash(file);
  }
  const db = openLogFile(file);
  const closing = new AbortController();
  const damaged = new AbortController();
  const handleDamage = (error: LogDamaged): void => damaged.abort(error);
  const queries = openQueries(db, file, { ...readOptions, onDamage: handleDamage });
  const newest = new NewestEvents(queries.lastPosition);
  const queue = await AppendQueue.start({
    file,
    now,
    onFatal,
    onDamage: handleDamage,
    observer,
    onCommit: (events) => newest.add(events),
  }).catch((error) => {
    db.close();
    throw error;
  });
  damaged.signal.addEventListener('abort', () => {
    queue.refuse(damaged.signal.reason);
    onDamage?.(damaged.signal.reason);
  });

  const assertOpen = (): void => {
    if (closing.signal.aborted) throw new StoreUnavailable('the log is closed');
  };

  type Subscription = { after: Position; signal: AbortSignal };
  async function* subscribe(
    { readAll }: Pick<Queries, 'readAll'>,
    options: Subscription,
  ): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let position = options.after;
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const events = newest.after(position) ?? readAll({ after: position, limit: BATCH_SIZE }).events;
      position = events.at(-1)?.position ?? position;
      const caughtUp = position >= newest.position;
      if (events.length > 0 || isFirst) yield { events, caughtUp };
      if (position < newest.position)
        await nextTurn(); // catching up must not starve requests
      else await newest.added(signal);
    }
  }

  let closed: Promise<void> | undefined;
  async function close(): Promise<void> {
    closing.abort();
    db.close(); // reads are refused from now on
    await queue.close();
  }

  const logOver = (read: Queries): EventLog => ({
    async logId() {
      assertOpen();
      return read.logId;
    },
    async lastPosition() {
      assertOpen();
      return newest.position;
    },
    countAfter: (position) => Math.max(0, Number(newest.position - position)), // positions have no gaps
    readEvent: async (position) => read.readEvent(position),
    readStream: async (stream, limit) => read.readStream(stream, limit),
    readAll: async (range) => read.readAll(range),
    readBackwards: async (range) => read.readBackwards(range),
    subscribe: (range) => subscribe(read, range),
    close: () => (closed ??= close()),
  });

  return {
    ...logOver(queries.given),
    exact: logOver(queries.exact),
    get appendsRefused() {
      return damaged.signal.reason?.message;
    },
    async append(stream, event, expectedRevision) {
      assertWellFormed(stream);
      return queue.append(stream, event, expectedRevision);
    },
  };
}

type Queries = ReturnType<typeof logQueries>;

/** The queries of an open log, and its last position. @throws UnusableLog; then it is closed */
function openQueries(db: DatabaseSync, file: string, options: QueryOptions) {
  try {
    const given = logQueries(db, options);
    return { given, exact: logQueries(db, { ...options, exact: true }), lastPosition: given.lastPosition() };
  } catch (error) {
    db.close();
    throw unusable(file, error);
  }
}

/**
 * The events of the last commit, so that subscribers at the end of the log need not read them from the file.
 */
class NewestEvents {
  /** The last position of the log. */
  position: Position;
  #after: Position;
  #events: readonly RecordedEvent[] = [];
  #waiting = new Set<() => void>();

  constructor(position: Position) {
    this.position = position;
    this.#after = position;
  }

  add(events: readonly RecordedEvent[]): void {
    const [first, last] = [events[0] as RecordedEvent, events.at(-1) as RecordedEvent];
    // Another program may have written in between: then subscribers read the file.
    const isConsecutive = first.position === this.position + 1n;
    this.#after = isConsecutive ? this.position : last.position;
    this.#events = isConsecutive ? events : [];
    this.position = last.position;
    for (const wake of this.#waiting) wake();
  }

  /** The events after exactly this position; undefined if they have to be read. */
  after(position: Position): readonly RecordedEvent[] | undefined {
    return position === this.#after ? this.#events : undefined;
  }

  /** Resolves when an event is added, or the signal aborts. */
  async added(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener('abort', wake);
    });
  }
}

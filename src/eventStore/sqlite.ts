import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import {
  type Appended,
  type Batch,
  type EventStore,
  mustBeWellFormed,
  type NewEvent,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from './eventStore.ts';
import type { Append, Commit, Committed, Outcome } from './sqliteAppender.ts';
import { openLogFile, settleLogFile } from './sqliteFile.ts';
import { questionsTo } from './sqliteReading.ts';

type Waiting = {
  append: Append;
  event: NewEvent;
  resolve: (appended: Appended) => void;
  reject: (error: Error) => void;
};

/** Consecutive events just committed, so that a subscriber at the end of the log need not read them back. */
type Tail = { after: Position; events: RecordedEvent[] };

type Options = {
  file: string;
  now: () => Date;
  /** Called once when the disk can no longer be trusted. What follows can only be the end of the process. */
  onFatal: (error: Error) => void;
};

/**
 * The embedded log: one SQLite table in the manner of message-db. Appends are committed together (group commit) by
 * a thread of its own and answered after their fsync; reading happens here, on a connection that never waits for it.
 * @throws UnusableLog
 */
export async function openSqliteEventStore({ file, now, onFatal }: Options): Promise<EventStore> {
  settleLogFile(file);
  const db = openLogFile(file);
  const { mark, after, ofStream, at, last } = questionsTo(db);
  let end = last();
  let tail: Tail = { after: end, events: [] };
  const subscribers = new Set<() => void>();
  const closing = new AbortController();

  let waiting: Waiting[] = [];
  let committing: Waiting[] | undefined;
  let broken: Error | undefined;

  const worker = new Worker(new URL('./sqliteAppender.ts', import.meta.url), { workerData: file });
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  // Its first message says that it has opened the log; an error before that is thrown here.
  await once(worker, 'message').catch((error) => {
    db.close();
    throw error;
  });
  worker.on('error', (error) => fail(error as Error));
  worker.on('message', (committed: Committed) => {
    if ('untrusted' in committed) return fail(new Error(committed.untrusted));
    const answered = committing ?? [];
    committing = undefined;
    setImmediate(commitWaiting);
    if ('lost' in committed) {
      for (const { reject } of answered) reject(new StoreUnavailable(committed.lost));
    } else {
      publish(answered, committed.outcomes);
      for (const [i, one] of answered.entries()) settle(one, committed.outcomes[i] as Outcome);
    }
  });

  function commitWaiting(): void {
    if (committing || waiting.length === 0) return;
    committing = waiting;
    waiting = [];
    const commit: Commit = {
      appends: committing.map(({ append }) => append),
      recordedAt: now().toISOString(),
    };
    worker.postMessage(commit);
  }

  function publish(answered: Waiting[], outcomes: Outcome[]): void {
    const events: RecordedEvent[] = [];
    for (const [i, { event, append }] of answered.entries()) {
      const outcome = outcomes[i] as Outcome;
      if (!('position' in outcome) || outcome.repeated) continue;
      const { position, revision } = outcome;
      events.push({ position, stream: append[1], revision, ...event });
    }
    const newest = events.at(-1);
    if (!newest) return;
    // Somebody else may have written in between: then subscribers read the file.
    const isConsecutive = events[0]?.position === end + 1n;
    tail = isConsecutive ? { after: end, events } : { after: newest.position, events: [] };
    end = newest.position;
    for (const wake of subscribers) wake();
  }

  function fail(error: Error): void {
    if (broken) return;
    broken = error;
    const unavailable = new StoreUnavailable(error.message);
    for (const { reject } of [...(committing ?? []), ...waiting]) reject(unavailable);
    committing = undefined;
    waiting = [];
    onFatal(error);
  }

  async function* subscribe(options: { after: Position; signal: AbortSignal }): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([options.signal, closing.signal]);
    let position = options.after;
    let resume = () => {};
    const wake = () => resume();
    subscribers.add(wake);
    signal.addEventListener('abort', wake);
    try {
      for (let first = true; !signal.aborted; first = false) {
        const events = position === tail.after ? tail.events : after(position);
        position = events.at(-1)?.position ?? position;
        const caughtUp = position >= end;
        if (events.length > 0 || first) yield { events, caughtUp };
        if (position < end) {
          await nextTurn(); // catching up must not starve the requests
        } else if (!signal.aborted) {
          await new Promise<void>((resolve) => {
            resume = resolve;
          });
        }
      }
    } finally {
      subscribers.delete(wake);
      signal.removeEventListener('abort', wake);
    }
  }

  return {
    mark: async () => mark,
    async append(stream, event, expectedRevision) {
      if (broken || closing.signal.aborted)
        throw new StoreUnavailable(broken?.message ?? 'the log is closed');
      mustBeWellFormed(stream);
      const { id, type, data, metadata } = event;
      const append: Append = [
        id,
        stream,
        expectedRevision,
        type,
        JSON.stringify(data),
        JSON.stringify(metadata),
      ];
      return new Promise((resolve, reject) => {
        // The first of an event loop turn waits for the others of that turn: they share one commit.
        if (waiting.length === 0 && !committing) setImmediate(commitWaiting);
        waiting.push({ append, event, resolve, reject });
      });
    },
    readStream: async (stream, maxCount) => ofStream(stream, maxCount),
    eventAt: async (position) => at(position),
    end: async () => end,
    subscribe,
    async close() {
      if (closing.signal.aborted) return;
      closing.abort();
      while (!broken && (committing || waiting.length > 0)) await nextTurn();
      worker.postMessage('close');
      await ended;
      db.close();
    },
  };
}

function settle({ append, resolve, reject }: Waiting, outcome: Outcome): void {
  if ('position' in outcome) resolve({ position: outcome.position, revision: outcome.revision });
  else if ('wrongRevision' in outcome) reject(new WrongExpectedRevision(append[1], append[2]));
  else reject(new Error(outcome.refused));
}

import { parentPort, workerData } from 'node:worker_threads';
import {
  ErrorType,
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM as NO_STREAM_IN_CLIENT,
} from '@eventstore/db-client';
import { type Appended, type Batch, NO_STREAM, type Position, type RecordedEvent } from './eventStore.ts';
import {
  Failed,
  type Failure,
  failureOf,
  isPoisoned,
  STATUS,
  typeOf,
  wordsOf,
} from './eventStoreDbFailures.ts';
import { collect, OF_LEADER, readAll } from './eventStoreDbReading.ts';
import { Subscription } from './eventStoreDbSubscription.ts';

// The thread that holds @eventstore/db-client. In it a fault of the client, such as an answer that comes when its call
// has been given up, ends a thread and not the service; and whatever hangs in it is gone when the thread is.

export type Work = { url: string; prefix: string };

/** What can be asked; each takes one argument and gives one result. */
export type Operations = {
  append(append: {
    stream: string;
    id: string;
    type: string;
    data: string;
    metadata: string;
    expectedRevision: bigint;
  }): Appended;
  readStream(of: { stream: string; maxCount: number }): RecordedEvent[];
  readAll(of: { from: Position | 'start' | 'end'; backwards?: boolean; maxCount: number }): RecordedEvent[];
  subscribe(to: { subscription: number; after: Position }): void;
  /** Waits for what comes next. */
  next(subscription: number): Batch;
  unsubscribe(subscription: number): void;
};

export type Call = { call: number; operation: keyof Operations; argument: unknown };

export type Answer = { call: number; value?: unknown; failure?: Failure };

const { url, prefix } = workerData as Work;
let client: EventStoreDBClient;
let unusable: Failure | undefined;
try {
  client = EventStoreDBClient.connectionString(url);
} catch {
  // The client's own message may quote the connection string.
  const message = 'the client makes nothing of it: check tlsCAFile, userCertFile and userKeyFile';
  unusable = { kind: 'refused', message };
}
const subscriptions = new Map<number, Subscription>();

const operations: {
  [O in keyof Operations]: (a: Parameters<Operations[O]>[0]) => Promise<ReturnType<Operations[O]>>;
} = {
  async append({ stream, id, type, data, metadata, expectedRevision }) {
    const event = jsonEvent({ id, type, data: JSON.parse(data), metadata: JSON.parse(metadata) });
    const expected = expectedRevision === NO_STREAM ? NO_STREAM_IN_CLIENT : expectedRevision;
    const { success, nextExpectedRevision, position } = await client
      .appendToStream(stream, event, { expectedRevision: expected })
      .catch((error) => {
        throw isPoisoned(error) ? new Failed({ kind: 'unsound', message: wordsOf(error) }) : error;
      });
    // With throwOnAppendFailure=false in the connection string:
    if (!success || !position) throw new Failed({ kind: 'wrongRevision', message: '' });
    return { position: position.commit, revision: nextExpectedRevision };
  },
  async readStream({ stream, maxCount }) {
    try {
      return await collect(client.readStream(stream, { maxCount, ...OF_LEADER }));
    } catch (error) {
      if (typeOf(error) === ErrorType.STREAM_NOT_FOUND) return [];
      throw error;
    }
  },
  async readAll({ from, backwards = false, maxCount }) {
    try {
      return await readAll(client, from, backwards, maxCount);
    } catch (error) {
      // What a server says of a position that is none in its log.
      const { code, message } = error as Error & { code?: number };
      const isOfPosition =
        code === STATUS.INVALID_ARGUMENT || (code === STATUS.UNKNOWN && /position/i.test(message));
      if (typeof from === 'bigint' && isOfPosition) return [];
      throw error;
    }
  },
  async subscribe({ subscription, after }) {
    const subscribed = new Subscription(client, prefix, after);
    subscriptions.set(subscription, subscribed);
    await subscribed.confirmed;
  },
  async next(subscription) {
    return subscribedTo(subscription).next();
  },
  async unsubscribe(subscription) {
    subscriptions.get(subscription)?.end({ kind: 'passing', message: 'unsubscribed' });
    subscriptions.delete(subscription);
  },
};

function subscribedTo(subscription: number): Subscription {
  const subscribed = subscriptions.get(subscription);
  if (!subscribed) throw new Failed({ kind: 'passing', message: 'unsubscribed' });
  return subscribed;
}

let answers: Answer[] = [];

/** Answers of one event loop turn share one message. */
function answer(one: Answer): void {
  if (answers.length === 0) {
    setImmediate(() => {
      parentPort?.postMessage(answers);
      answers = [];
    });
  }
  answers.push(one);
}

parentPort?.on('message', (calls: Call[]) => {
  for (const { call, operation, argument } of calls) {
    if (unusable) {
      answer({ call, failure: unusable });
      continue;
    }
    const operate = operations[operation] as (argument: unknown) => Promise<unknown>;
    operate(argument).then(
      (value) => answer({ call, value }),
      (error: Error) => {
        const failure = failureOf(error);
        // What is still open on the channel to the follower would stay there for good.
        if (failure.kind === 'elsewhere') void client.dispose();
        answer({ call, failure });
      },
    );
  }
});

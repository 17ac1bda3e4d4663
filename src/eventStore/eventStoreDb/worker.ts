import { parentPort, workerData } from 'node:worker_threads';
import { NO_STREAM as CLIENT_NO_STREAM, EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { NO_STREAM } from '../eventStore.ts';
import { withGossipTimeout } from './connectionString.ts';
import { leavesClientBroken, OperationFailed, readableMessage, toFailure } from './failures.ts';
import type { Call, Failure, Operations, Replies, Reply, WorkerOptions } from './protocol.ts';
import { Reader } from './read.ts';
import { Subscription } from './subscription.ts';

// The thread that holds @eventstore/db-client. An error that the client does not catch, such as a reply to a
// call that was given up, ends this thread and not the service; and whatever hangs in the client ends with
// the thread.

const { url, prefix } = workerData as WorkerOptions;
let client: EventStoreDBClient;
let reader: Reader;
let unusable: Failure | undefined;
try {
  client = EventStoreDBClient.connectionString(withGossipTimeout(url));
  reader = new Reader(client, prefix);
} catch {
  // The client's own message may quote the connection string.
  const message = 'the client rejects the connection string: check tlsCAFile, userCertFile and userKeyFile';
  unusable = { kind: 'accessDenied', message };
}
const subscriptions = new Map<number, Subscription>();

const operations: {
  [O in keyof Operations]: (a: Parameters<Operations[O]>[0]) => Promise<ReturnType<Operations[O]>>;
} = {
  async append({ stream, id, type, data, metadata, expectedRevision }) {
    const event = jsonEvent({ id, type, data: JSON.parse(data), metadata: JSON.parse(metadata) });
    const expected = expectedRevision === NO_STREAM ? CLIENT_NO_STREAM : expectedRevision;
    const { success, nextExpectedRevision, position } = await client
      .appendToStream(stream, event, { expectedRevision: expected })
      .catch((error) => {
        throw leavesClientBroken(error)
          ? new OperationFailed('connectionBroken', readableMessage(error))
          : error;
      });
    // With throwOnAppendFailure=false in the connection string:
    if (!success || !position) throw new OperationFailed('wrongRevision', '');
    return { position: position.commit, revision: nextExpectedRevision };
  },
  readStream: ({ stream, limit }) => reader.stream(stream, limit),
  readEdge: (edge) => reader.edge(edge),
  readAt: (position) => reader.at(position),
  readPage: (range) => reader.page(range),
  readPageBackwards: (range) => reader.pageBackwards(range),
  async subscribe({ subscription, after, prefix }) {
    const subscribed = new Subscription(client, new Reader(client, prefix), prefix, after);
    subscriptions.set(subscription, subscribed);
    await subscribed.confirmed;
  },
  async next(subscription) {
    const subscribed = subscriptions.get(subscription);
    if (!subscribed) throw new OperationFailed('transient', 'unsubscribed');
    return subscribed.next();
  },
  async unsubscribe(subscription) {
    subscriptions.get(subscription)?.end({ kind: 'transient', message: 'unsubscribed' });
    subscriptions.delete(subscription);
  },
};

let replies: Reply[] = [];

/** The replies of one event loop turn share a message. */
function reply(one: Reply): void {
  if (replies.length === 0) {
    setImmediate(() => {
      parentPort?.postMessage({ replies, node: reader?.node } satisfies Replies);
      replies = [];
    });
  }
  replies.push(one);
}

parentPort?.postMessage({ replies, node: undefined } satisfies Replies);

parentPort?.on('message', (calls: Call[]) => {
  for (const { id, operation, argument } of calls) {
    if (unusable) {
      reply({ id, failure: unusable });
      continue;
    }
    const run = operations[operation] as (argument: unknown) => Promise<unknown>;
    run(argument).then(
      (value) => reply({ id, value }),
      (error: Error) => {
        const failure = toFailure(error, operation);
        // Calls that are still open on the channel to the follower would never end.
        if (failure.kind === 'notLeader') void client.dispose();
        reply({ id, failure });
      },
    );
  }
});

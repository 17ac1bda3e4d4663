import { NO_STREAM as CLIENT_NO_STREAM, type EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { type Appended, type Batch, NO_STREAM, type Position } from '../eventStore.ts';
import { serve, threadData } from '../threads/thread.ts';
import type { AppendRequest } from './appendRequest.ts';
import { openClient } from './connectionString.ts';
import { leavesClientBroken, OperationFailed, readableMessage, toFailure } from './failures.ts';
import type { NodeEvent, WorkerOptions } from './protocol.ts';
import { Reader } from './read.ts';
import { Subscription } from './subscription.ts';

// The thread that holds @eventstore/db-client. An error that the client does not catch, such as a reply to a
// call that was given up, ends this thread and not the service; and whatever hangs in the client ends with
// the thread.

function operationsOf(client: EventStoreDBClient, prefix: string) {
  const reader = new Reader(client, prefix, (node) => send({ node }));
  const subscriptions = new Map<string, Subscription>();
  return {
    async append({ stream, id, type, data, metadata, expectedRevision }: AppendRequest): Promise<Appended> {
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
    readStream: reader.stream.bind(reader),
    readEdge: reader.edge.bind(reader),
    readAt: reader.at.bind(reader),
    readPage: reader.page.bind(reader),
    readPageBackwards: reader.pageBackwards.bind(reader),
    async subscribe(to: { subscription: string; after: Position; prefix: string }): Promise<void> {
      const subscribed = new Subscription(client, new Reader(client, to.prefix), to.prefix, to.after);
      subscriptions.set(to.subscription, subscribed);
      await subscribed.confirmed;
    },
    /** The next batch of a subscription, as soon as there is one. */
    async next(subscription: string): Promise<Batch> {
      const subscribed = subscriptions.get(subscription);
      if (!subscribed) throw new OperationFailed('transient', 'unsubscribed');
      return subscribed.next();
    },
    async unsubscribe(subscription: string): Promise<void> {
      subscriptions.get(subscription)?.end({ kind: 'transient', message: 'unsubscribed' });
      subscriptions.delete(subscription);
    },
  };
}
export type Operations = ReturnType<typeof operationsOf>;

const { url, prefix } = threadData<WorkerOptions>();
const send = start();

function start(): (event: NodeEvent) => void {
  let client: EventStoreDBClient;
  try {
    client = openClient(url);
  } catch (error) {
    return serve(undefined, (error as Error).message);
  }
  const calls = Object.entries(operationsOf(client, prefix)).map(([name, operation]) => {
    const run = operation as (argument: unknown) => Promise<unknown>;
    return [
      name,
      (argument: unknown) =>
        run(argument).catch((error) => {
          const failure = toFailure(error, name);
          // Calls that are still open on the channel to the follower would never end.
          if (failure.kind === 'notLeader') void client.dispose();
          throw failure;
        }),
    ];
  });
  return serve(Object.fromEntries(calls), undefined);
}

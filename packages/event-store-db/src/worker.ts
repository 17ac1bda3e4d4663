import { type Appended, type AppendRequest, NO_STREAM, type Position } from '@event-sourced/event-log';
import { finish, serve, threadData } from '@event-sourced/node/threads';
import {
  NO_STREAM as CLIENT_NO_STREAM,
  ErrorType,
  type EventStoreDBClient,
  jsonEvent,
} from '@eventstore/db-client';
import { openClient } from './connectionString.ts';
import { errorType, toFailure } from './failures.ts';
import { CallFailed } from './protocol.ts';
import { Reader } from './read.ts';
import { type NewEvents, Subscription } from './subscription.ts';

// The thread that runs @eventstore/db-client. An error that the client does not catch, such as a reply to an abandoned
// call, ends this thread and not the service. Calls that hang in the client end with the thread.

/** Why the server compared an append with its stream, and stored nothing. */
type AppendRefusal = 'wrongRevision' | 'streamDeleted';

function clientOperations(client: EventStoreDBClient) {
  const reader = new Reader(client, (node) => send(node));
  let subscription: Subscription | undefined;
  return {
    async append(request: AppendRequest): Promise<Omit<Appended, 'logId'> | AppendRefusal> {
      const { stream, id, type, data, metadata, expectedRevision } = request;
      const event = jsonEvent({ id, type, data: JSON.parse(data), metadata: JSON.parse(metadata) });
      try {
        const { success, nextExpectedRevision, position } = await client.appendToStream(stream, event, {
          expectedRevision: expectedRevision === NO_STREAM ? CLIENT_NO_STREAM : expectedRevision,
        });
        // With throwOnAppendFailure=false in the connection string:
        if (!success || !position) return 'wrongRevision';
        return { position: position.commit, revision: nextExpectedRevision };
      } catch (error) {
        if (errorType(error) === ErrorType.WRONG_EXPECTED_VERSION) return 'wrongRevision';
        if (errorType(error) === ErrorType.STREAM_DELETED) return 'streamDeleted';
        throw error;
      }
    },
    readStream: reader.stream.bind(reader),
    ping: reader.ping.bind(reader),
    readEdge: reader.edge.bind(reader),
    readAt: reader.at.bind(reader),
    readPage: reader.page.bind(reader),
    readPageBackwards: reader.pageBackwards.bind(reader),
    /** Replaces the subscription of this connection. */
    async subscribe({ after, prefix }: { after: Position; prefix: string }): Promise<void> {
      subscription?.end(new CallFailed('transient', 'replaced by another subscription'));
      subscription = new Subscription(client, prefix, after);
      await subscription.confirmed;
    },
    /** Waits for the next events of the subscription. */
    async next(_: undefined): Promise<NewEvents> {
      if (!subscription) throw new CallFailed('transient', 'not subscribed');
      return subscription.next();
    },
  };
}
export type Operations = ReturnType<typeof clientOperations>;

const send = start(threadData<string>());

function start(url: string): (node: string) => void {
  let client: EventStoreDBClient;
  try {
    client = openClient(url);
  } catch (error) {
    finish((error as Error).message);
    return () => {};
  }
  let hasResponded = false;
  const calls = Object.entries(clientOperations(client)).map(([name, operation]) => {
    const run = operation as (argument: unknown) => Promise<unknown>;
    const call = async (argument: unknown): Promise<unknown> => {
      try {
        const result = await run(argument);
        hasResponded = true;
        return result;
      } catch (error) {
        // Open calls on the channel to the follower would never end.
        if (errorType(error) === ErrorType.NOT_LEADER) void client.dispose();
        const { kind, message } = toFailure(error as Error, name, hasResponded);
        throw { kind, message }; // a structured clone of an Error would lose the kind
      }
    };
    return [name, call];
  });
  return serve(Object.fromEntries(calls));
}

import { type Position, type RecordedEvent, START } from '@event-sourced/event-log';
import { EventStoreDBClient } from '@eventstore/db-client';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import stubs from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { ReadReq } from '@eventstore/db-client/generated/streams_pb.js';
import messages from '@eventstore/db-client/generated/streams_pb.js';
import { CallFailed } from './protocol.ts';
import { readResponse } from './readResponse.ts';

// Reads and subscriptions use the client's generated stub: the client's own methods have no filter for reads of $all,
// and end a cancelled read without an error. The client still connects, discovers the leader and sends the credentials.

/** What to read: a stream from its start, or $all from a position, inclusive. Backwards, the events before it. */
export type ReadRange = {
  stream?: string;
  from?: Position | 'end';
  backwards?: boolean;
  /** A subscription has no limit. */
  limit?: number;
  /** The server skips events of $all whose stream does not start with this prefix. */
  prefix?: string;
};

/** The number of events of $all that the server searches at once for a match. */
const SEARCH_WINDOW = 2_000;
/** The number of windows after which a subscription gets the position that the server has searched. */
const SERVER_CHECKPOINT_INTERVAL = 10;

export type ReadCall = Awaited<ReturnType<typeof Calls.read>>;

/** Reads from the leader: a follower may lack acknowledged events. */
export const openRead = (client: EventStoreDBClient, range: ReadRange): Promise<ReadCall> =>
  Calls.read(client, requestFor(range), true);

export const openSubscription = (client: EventStoreDBClient, range: ReadRange): Promise<ReadCall> =>
  Calls.read(client, requestFor(range), false);

/** A subclass, since the client's methods for calls are protected. */
abstract class Calls extends EventStoreDBClient {
  static read(client: EventStoreDBClient, request: ReadReq, requiresLeader: boolean) {
    const { GRPCStreamCreator, callArguments } = client as Calls;
    const options = callArguments({ requiresLeader }, { deadline: Number.POSITIVE_INFINITY });
    const { path, requestSerialize } = stubs.StreamsService.read;
    return GRPCStreamCreator(stubs.StreamsClient, 'read', (stub) =>
      stub.makeServerStreamRequest(path, requestSerialize, readResponse, request, ...options),
    )();
  }
}

const { Options } = messages.ReadReq;
const EMPTY = new shared.Empty();

function requestFor({ stream, from = START, backwards = false, limit, prefix }: ReadRange): ReadReq {
  const options = new Options()
    .setReadDirection(backwards ? 1 : 0)
    .setUuidOption(new Options.UUIDOption().setString(EMPTY));
  if (stream === undefined) options.setAll(setStart(new Options.AllOptions(), from));
  else {
    const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
    options.setStream(setStart(new Options.StreamOptions(), from).setStreamIdentifier(identifier));
  }
  if (limit === undefined) options.setSubscription(new Options.SubscriptionOptions());
  else options.setCount(`${limit}`);
  if (prefix === undefined) options.setNoFilter(EMPTY);
  else options.setFilter(prefixFilter(prefix));
  return new messages.ReadReq().setOptions(options);
}

function setStart<O extends ReadReq.Options.AllOptions | ReadReq.Options.StreamOptions>(
  options: O,
  from: Position | 'end',
): O {
  if (from === START) options.setStart(EMPTY);
  else if (from === 'end') options.setEnd(EMPTY);
  else if ('setPosition' in options)
    options.setPosition(new Options.Position().setCommitPosition(`${from}`).setPreparePosition(`${from}`));
  return options;
}

function prefixFilter(prefix: string): ReadReq.Options.FilterOptions {
  return new Options.FilterOptions()
    .setStreamIdentifier(new Options.FilterOptions.Expression().setPrefixList([prefix]))
    .setMax(SEARCH_WINDOW)
    .setCheckpointintervalmultiplier(SERVER_CHECKPOINT_INTERVAL);
}

/** Positions in $all ascend, or descend in a backward read. */
export const outOfOrder = ({ position }: RecordedEvent): CallFailed =>
  new CallFailed('transient', `the server sent position ${position} out of order`);

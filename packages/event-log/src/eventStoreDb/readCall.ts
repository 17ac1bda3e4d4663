import { EventStoreDBClient } from '@eventstore/db-client';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import stubs from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { ReadReq, ReadResp } from '@eventstore/db-client/generated/streams_pb.js';
import messages from '@eventstore/db-client/generated/streams_pb.js';
import { type Position, type RecordedEvent, START } from '../eventStore.ts';

// Reads and subscriptions are calls of the client's generated stub. The client's own methods offer no filter for reads
// of $all, and end a read that was cancelled without an error. The client still connects, discovers the leader and has
// the credentials.

/** What to read: a stream from its start, or $all from a position on, inclusive; backwards, the events before it. */
export type ReadRange = {
  stream?: string;
  from?: Position | 'end';
  backwards?: boolean;
  /** The newest events of a stream if it is read backwards. A subscription has no limit. */
  limit?: number;
  /** The server skips the events of $all whose stream does not start with it. */
  prefix?: string;
};

/** Events of $all that the server searches at once for one that matches. */
const SEARCH_WINDOW = 2_000;
/** Windows after which a subscription gets the position that was searched. */
const CHECKPOINT_INTERVAL = 10;

export type ReadCall = Awaited<ReturnType<typeof Calls.read>>;

/** A read from the leader: a follower may lag behind what has been acknowledged. */
export const openRead = (client: EventStoreDBClient, range: ReadRange): Promise<ReadCall> =>
  Calls.read(client, requestFor(range), true);

export const openSubscription = (client: EventStoreDBClient, range: ReadRange): Promise<ReadCall> =>
  Calls.read(client, requestFor(range), false);

/** The methods that the client has for its own calls are protected. */
abstract class Calls extends EventStoreDBClient {
  static read(client: EventStoreDBClient, request: ReadReq, requiresLeader: boolean) {
    const { GRPCStreamCreator, callArguments } = client as Calls;
    const options = callArguments({ requiresLeader }, { deadline: Number.POSITIVE_INFINITY });
    return GRPCStreamCreator(stubs.StreamsClient, 'read', (stub) => stub.read(request, ...options))();
  }
}

const { Options } = messages.ReadReq;
const EMPTY = new shared.Empty();

function requestFor({ stream, from = START, backwards = false, limit, prefix }: ReadRange): ReadReq {
  const options = new Options()
    .setReadDirection(backwards ? 1 : 0)
    .setUuidOption(new Options.UUIDOption().setString(EMPTY));
  if (stream === undefined) options.setAll(startOf(new Options.AllOptions(), from));
  else {
    const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
    options.setStream(startOf(new Options.StreamOptions(), from).setStreamIdentifier(identifier));
  }
  if (limit === undefined) options.setSubscription(new Options.SubscriptionOptions());
  else options.setCount(`${limit}`);
  if (prefix === undefined) options.setNoFilter(EMPTY);
  else options.setFilter(filterOf(prefix));
  return new messages.ReadReq().setOptions(options);
}

function startOf<O extends ReadReq.Options.AllOptions | ReadReq.Options.StreamOptions>(
  options: O,
  from: Position | 'end',
): O {
  if (from === START) options.setStart(EMPTY);
  else if (from === 'end') options.setEnd(EMPTY);
  else if ('setPosition' in options)
    options.setPosition(new Options.Position().setCommitPosition(`${from}`).setPreparePosition(`${from}`));
  return options;
}

function filterOf(prefix: string): ReadReq.Options.FilterOptions {
  return new Options.FilterOptions()
    .setStreamIdentifier(new Options.FilterOptions.Expression().setPrefixList([prefix]))
    .setMax(SEARCH_WINDOW)
    .setCheckpointintervalmultiplier(CHECKPOINT_INTERVAL);
}

/** The event in a response, and its length in bytes; undefined if the response has none. */
export function eventIn(response: ReadResp): { event: RecordedEvent; length: number } | undefined {
  const recorded = response.getEvent()?.getEvent();
  if (!recorded) return undefined;
  const attributes = recorded.getMetadataMap();
  const [data, metadata] = [recorded.getData_asU8(), recorded.getCustomMetadata_asU8()];
  const isJson = attributes.get('content-type') === 'application/json';
  const event = {
    position: BigInt(recorded.getCommitPosition()),
    stream: Buffer.from(recorded.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString(),
    revision: BigInt(recorded.getStreamRevision()),
    id: recorded.getId()?.getString() ?? '',
    type: attributes.get('type') ?? '',
    data: isJson ? parsed(data, (text) => text) : data,
    metadata: metadata.length > 0 ? parsed(metadata, () => metadata) : undefined,
  };
  return { event, length: data.length + metadata.length };
}

/** Deeper nesting overflows the stack of a structured clone between threads. This service writes none. */
const MAX_NESTING = 500;

/** The value of a JSON text; undefined if it is nested too deeply. */
function parsed(json: Uint8Array, otherwise: (text: string) => unknown): unknown {
  const text = Buffer.from(json).toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return otherwise(text);
  }
  return isDeeperThan(MAX_NESTING, value) ? undefined : value;
}

function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((part) => isDeeperThan(levels - 1, part));
}

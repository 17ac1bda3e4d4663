import type { MemberInfo } from '@eventstore/db-client/generated/gossip_pb.js';
import gossip from '@eventstore/db-client/generated/gossip_pb.js';
import features from '@eventstore/db-client/generated/serverfeatures_pb.js';
import type { StreamIdentifier } from '@eventstore/db-client/generated/shared_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import type { Status } from '@eventstore/db-client/generated/status_pb.js';
import rpc from '@eventstore/db-client/generated/status_pb.js';
import type {
  BatchAppendReq,
  BatchAppendResp,
  ReadResp,
} from '@eventstore/db-client/generated/streams_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { Metadata, status } from '@grpc/grpc-js';
import type { Message } from 'google-protobuf';
import protobufAny from 'google-protobuf/google/protobuf/any_pb.js';
import protobufEmpty from 'google-protobuf/google/protobuf/empty_pb.js';
import type { FakeEvent, ProposedEvent } from './log.ts';

/** The largest append that a server accepts by default, in bytes, in versions up to 25.0. */
export const MAX_APPEND_SIZE = 1_024 * 1_024;

export type Endpoint = { address: string; port: number };
export type Member = { port: number; state: 'leader' | 'follower'; isAlive?: boolean };

/** An error response: a gRPC status with trailers. */
export class CallError extends Error {
  readonly code: status;
  readonly details: string;
  readonly metadata = new Metadata();

  constructor(code: status, details: string, trailers: Record<string, string> = {}) {
    super(details);
    this.code = code;
    this.details = details;
    for (const [name, value] of Object.entries(trailers)) this.metadata.set(name, value);
  }
}

export const accessDenied = () =>
  new CallError(status.PERMISSION_DENIED, 'Access Denied', { exception: 'access-denied' });

export const notLeader = ({ address, port }: Endpoint) =>
  new CallError(status.NOT_FOUND, 'Leader info available', {
    exception: 'not-leader',
    'leader-endpoint-host': address,
    'leader-endpoint-port': `${port}`,
  });

export type Version = '23.10' | '24.2';

/** The error of a read or a subscription at a position where no event starts. */
export const invalidPosition = (version: Version, subscribes: boolean) =>
  version === '24.2'
    ? new CallError(status.INVALID_ARGUMENT, 'Trying to read from an invalid position.')
    : new CallError(
        status.UNKNOWN,
        subscribes ? 'Exception was thrown by handler.' : 'Unexpected ReadAllResult: Error',
      );

export function streamDeleted(stream: string): CallError {
  const metadata = { exception: 'stream-deleted', 'stream-name': stream };
  return new CallError(status.FAILED_PRECONDITION, `Event stream '${stream}' is deleted.`, metadata);
}

/** The outcome of an append. */
export type AppendOutcome =
  | { is: 'stored'; last: FakeEvent }
  | { is: 'wrong revision'; expected: bigint; current: bigint }
  | { is: 'deleted' }
  | { is: 'too large' }
  | { is: 'denied' }
  | { is: 'busy' }
  | { is: 'timed out' }
  | { is: 'failed'; error: CallError };

/** The response of a batch append to one request; an error ends the whole batch. */
export function batchResponse(request: BatchAppendReq, stream: string, outcome: AppendOutcome) {
  if (outcome.is === 'failed') return outcome.error;
  const response = new streams.BatchAppendResp()
    .setCorrelationId(request.getCorrelationId())
    .setStreamIdentifier(identifier(stream));
  return outcome.is === 'stored'
    ? response.setSuccess(batchSuccess(outcome.last))
    : response.setError(batchError(outcome, stream));
}

function batchSuccess({ revision, position }: FakeEvent): BatchAppendResp.Success {
  const at = new shared.AllStreamPosition();
  at.setCommitPosition(`${position}`).setPreparePosition(`${position}`);
  return new streams.BatchAppendResp.Success().setCurrentRevision(`${revision}`).setPosition(at);
}

function batchError(outcome: Exclude<AppendOutcome, { is: 'stored' | 'failed' }>, stream: string): Status {
  switch (outcome.is) {
    case 'wrong revision': {
      const { expected, current } = outcome;
      const wrong = new shared.WrongExpectedVersion();
      if (current < 0n) wrong.setCurrentNoStream(new protobufEmpty.Empty());
      else wrong.setCurrentStreamRevision(`${current}`);
      if (expected < 0n) wrong.setExpectedNoStream(new protobufEmpty.Empty());
      else wrong.setExpectedStreamPosition(`${expected}`);
      return rpcStatus(status.ALREADY_EXISTS, 'WrongExpectedVersion', wrong);
    }
    case 'deleted':
      return rpcStatus(
        status.FAILED_PRECONDITION,
        'StreamDeleted',
        new shared.StreamDeleted().setStreamIdentifier(identifier(stream)),
      );
    case 'too large': {
      const tooLarge = new shared.MaximumAppendSizeExceeded().setMaxappendsize(MAX_APPEND_SIZE);
      return rpcStatus(status.INVALID_ARGUMENT, 'MaximumAppendSizeExceeded', tooLarge);
    }
    case 'denied':
      return rpcStatus(status.PERMISSION_DENIED, 'AccessDenied', new shared.AccessDenied());
    case 'timed out':
      return rpcStatus(status.DEADLINE_EXCEEDED, 'Timeout', new shared.Timeout());
    case 'busy':
      return rpcStatus(status.OK, 'Server Is Busy', new protobufEmpty.Empty(), 'google.protobuf.Empty');
  }
}

function rpcStatus(code: status, message: string, details: Message, type = `event_store.client.${message}`) {
  const packed = new protobufAny.Any();
  packed.pack(details.serializeBinary(), type);
  return new rpc.Status()
    .setCode(code as number)
    .setMessage(message)
    .setDetails(packed);
}

export function proposedEvent(message: BatchAppendReq.ProposedMessage): ProposedEvent {
  return {
    id: message.getId()?.getString() ?? '',
    type: message.getMetadataMap().get('type') ?? '',
    contentType: message.getMetadataMap().get('content-type') ?? '',
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

/** The revision that an append expects; -1 means no stream. */
export const expectedRevision = (options: BatchAppendReq.Options): bigint =>
  options.hasNoStream() ? -1n : BigInt(options.getStreamPosition());

/** An event as read from $all, or from its stream. @throws CallError */
export function eventMessage(inAll: boolean, at: FakeEvent): ReadResp {
  if (at.isUnreadable) throw new CallError(status.UNKNOWN, 'Exception was thrown by handler.');
  const event = new streams.ReadResp.ReadEvent().setEvent(recorded(at));
  if (inAll) event.setCommitPosition(`${at.position}`);
  else event.setNoPosition(new shared.Empty());
  return new streams.ReadResp().setEvent(event);
}

function recorded(event: FakeEvent): ReadResp.ReadEvent.RecordedEvent {
  const message = new streams.ReadResp.ReadEvent.RecordedEvent()
    .setId(uuid(event.id))
    .setStreamIdentifier(identifier(event.stream))
    .setStreamRevision(`${event.revision}`)
    .setCommitPosition(`${event.position}`)
    .setPreparePosition(`${event.position}`)
    .setCustomMetadata(event.metadata)
    .setData(event.data);
  message
    .getMetadataMap()
    .set('type', event.type)
    .set('content-type', event.contentType)
    .set('created', `${event.created}0000`); // .NET ticks: 10 000 per millisecond
  return message;
}

export function confirmation(subscription: string): ReadResp {
  const confirmed = new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(subscription);
  return new streams.ReadResp().setConfirmation(confirmed);
}

export function serverCheckpoint({ position }: FakeEvent): ReadResp {
  const reached = new streams.ReadResp.Checkpoint();
  reached.setCommitPosition(`${position}`).setPreparePosition(`${position}`);
  return new streams.ReadResp().setCheckpoint(reached);
}

export function caughtUp(): ReadResp {
  return new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp());
}

export function streamNotFound(stream: string): ReadResp {
  const missing = new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifier(stream));
  return new streams.ReadResp().setStreamNotFound(missing);
}

export function supportedMethods() {
  const supported = new features.SupportedMethods().setEventStoreServerVersion('23.10.6');
  for (const method of ['read', 'append', 'batchappend']) {
    const name = 'event_store.client.streams.streams';
    supported.addMethods(new features.SupportedMethod().setServiceName(name).setMethodName(method));
  }
  return supported;
}

export function clusterInfo(members: readonly Member[], address: string) {
  const { LEADER, FOLLOWER } = gossip.MemberInfo.VNodeState;
  const message = ({ port, state, isAlive = true }: Member): MemberInfo =>
    new gossip.MemberInfo()
      .setInstanceId(uuid(`00000000-0000-4000-8000-${`${port}`.padStart(12, '0')}`))
      .setTimeStamp(`${Date.now()}0000`)
      .setState(state === 'leader' ? LEADER : FOLLOWER)
      .setIsAlive(isAlive)
      .setHttpEndPoint(new gossip.EndPoint().setAddress(address).setPort(port));
  return new gossip.ClusterInfo().setMembersList(members.map(message));
}

export function streamName(stream: StreamIdentifier | undefined): string {
  return Buffer.from(stream?.getStreamName_asU8() ?? []).toString();
}

function identifier(stream: string): StreamIdentifier {
  return new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
}

function uuid(text: string) {
  return new shared.UUID().setString(text);
}

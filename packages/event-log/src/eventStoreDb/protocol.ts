/**
 * The form of a connection string, to detect errors before the client is loaded: in a password with : or @, the client
 * would read a part as the host name.
 */
export const CONNECTION_STRING =
  '^(esdb|kurrentdb|kurrent|kdb)(\\+discover)?://([^:@]+:[^:@]+@)?[^:@/?][^@?]*(\\?|$)';

// The protocol between the adapter and the thread that runs @eventstore/db-client.

/** The ID of a log, and whether its identity stream has it. */
export type LogId = { id: string; isStored: boolean };

/** Why a call failed, and what to do. */
export type FailureKind =
  | 'wrongRevision'
  /** The stream exists, but its first event was deleted. */
  | 'streamDeleted'
  /** The client rejects the connection string. */
  | 'badConnectionString'
  /** Retrying does not help. */
  | 'permanent'
  /** The server refuses the account, or its certificate is not trusted. */
  | 'accessDenied'
  /** The server does not allow the account to append. */
  | 'appendDenied'
  /** Retry. */
  | 'transient'
  /** Retry: the client now connects to the leader. */
  | 'notLeader'
  /** Retry: the client opens a new channel. */
  | 'unavailable'
  /** Retry over a new connection: the client may be in a broken state. */
  | 'connectionBroken'
  /** No reply yet: the outcome is unknown. */
  | 'timeout';

export class CallFailed extends Error {
  override readonly name = 'CallFailed';
  readonly kind: FailureKind;
  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

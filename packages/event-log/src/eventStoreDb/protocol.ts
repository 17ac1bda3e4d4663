/**
 * The form of a connection string, for errors before the client is loaded. The client would take a part of a password
 * with : or @ for the name of a host.
 */
export const CONNECTION_STRING =
  '^(esdb|kurrentdb|kurrent|kdb)(\\+discover)?://([^:@]+:[^:@]+@)?[^:@/?][^@?]*(\\?|$)';

// Between the adapter and the thread that holds @eventstore/db-client.

/** Why a call failed, and what to do. */
export type FailureKind =
  | 'wrongRevision'
  /** The stream exists, and its first event was deleted. */
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

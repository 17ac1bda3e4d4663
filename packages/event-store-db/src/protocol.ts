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
  /** Retrying does not help. */
  | 'permanent'
  /** The server refuses the account, or its certificate is not trusted. Retry: it may not know its accounts yet. */
  | 'accessDenied'
  /** The server does not allow the account to append. Retry. */
  | 'appendDenied'
  /** Retry. */
  | 'transient'
  /** The server responded, but an event of the result cannot be sent or received. Retry: it may be for another reason. */
  | 'unreadable'
  /** Retry over a new connection: the client replaces its channel, or may be in a broken state. */
  | 'broken';

export class CallFailed extends Error {
  override readonly name = 'CallFailed';
  readonly kind: FailureKind;
  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

import { ErrorType, isCommandError, UnknownError } from '@eventstore/db-client';
import { CallFailed, type FailureKind } from './protocol.ts';

// Classifies the client's errors. Some are not CommandErrors, and some CommandErrors have no message.

/** The gRPC status codes that are handled (https://grpc.io/docs/guides/status-codes/). */
export const GRPC_STATUS = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  RESOURCE_EXHAUSTED: 8,
  UNAVAILABLE: 14,
};

type ClientError = Error & { code?: number };

/** The client's error type, for errors of the server. */
export function errorType(error: unknown): string | undefined {
  return isCommandError(error as Error) ? (error as { type?: string }).type : undefined;
}

/** The access that an operation requires; all other operations read $all. */
const ACCESS: Record<string, string> = { append: 'append events', readStream: 'read streams' };

/** `hasResponded`: the server has responded to this client before. */
export function toFailure(error: ClientError, operation: string, hasResponded: boolean): CallFailed {
  if (error instanceof CallFailed) return error;
  const isAppend = operation === 'append';
  const kind = isAppend && leavesClientBroken(error) ? 'broken' : classify(error, hasResponded);
  const reason = readableMessage(error);
  if (kind === 'permanent') return new CallFailed(kind, `EventStoreDB rejects this permanently: ${reason}`);
  if (kind !== 'accessDenied') return new CallFailed(kind, reason);
  if (errorType(error) !== ErrorType.ACCESS_DENIED)
    return new CallFailed(
      kind,
      `the TLS connection failed (${reason}): check tls, tlsCAFile and the host name`,
    );
  const access = ACCESS[operation] ?? 'read $all';
  const message = `the server refuses the user or the password, or does not allow this user to ${access}`;
  return new CallFailed(isAppend ? 'appendDenied' : kind, message);
}

/** EventStoreDB 23.10 responds "Unexpected ReadAllResult: Error" to a position between two events. */
export function isInvalidPosition({ code, message }: ClientError): boolean {
  const isUnknown = code === GRPC_STATUS.UNKNOWN && /position|ReadAllResult/i.test(message);
  return code === GRPC_STATUS.INVALID_ARGUMENT || isUnknown;
}

/**
 * The failure of a read because of one of its events; undefined for another error. The event may be larger than the
 * client's limit, or the server may throw: from version 25.1 on, it makes JSON of an event's properties at each read.
 */
export function unreadable(error: ClientError, what: string | undefined): CallFailed | undefined {
  const isOfServer = error.code === GRPC_STATUS.UNKNOWN && isCommandError(error) && !isInvalidPosition(error);
  const isUnreadable = error.code === GRPC_STATUS.RESOURCE_EXHAUSTED || isOfServer;
  if (what === undefined || !isUnreadable) return undefined;
  return new CallFailed('unreadable', `${what} cannot be read: ${readableMessage(error)}`);
}

/**
 * Before an append, the client fetches the server's features. It caches every failure except UNAVAILABLE. A message that
 * is too large ends the call of all appends.
 */
function leavesClientBroken(error: ClientError): boolean {
  if (isCommandError(error)) return error.code === GRPC_STATUS.RESOURCE_EXHAUSTED;
  return error.code !== GRPC_STATUS.UNAVAILABLE;
}

/** The message without gRPC's wrapping. */
function readableMessage(error: ClientError): string {
  const message = error.message
    .replace(/^\d+ [A-Z_]+: /, '')
    .replace(/^No connection established\. Last error: (\w*Error[^:]*: )?/, '')
    .replace(/\.?\s*Resolution note:.*$/s, '')
    .replace(/^.*SSL routines:[^:]*:([^:]+):.*$/s, '$1')
    .replace(/^Failed to discover.*$/, 'no node of the cluster responds')
    .replace(/^Failed to connect \(.*$/, 'no response over plaintext HTTP/2: tls=false');
  return message || `${error.name} (${errorType(error) ?? error.code ?? 'no code'})`;
}

/** gRPC reports a failed TLS handshake only in its message. */
const TLS_ERROR =
  /certificate|self.signed|wrong version number|EPROTO|packet length too long|SSL|servername/i;

function classify(error: ClientError, hasResponded: boolean): FailureKind {
  // A client that has not reached the server yet only connects again.
  const unavailable = hasResponded ? 'broken' : 'transient';
  switch (errorType(error)) {
    case ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED:
    case ErrorType.INVALID_ARGUMENT:
      return 'permanent';
    case ErrorType.ACCESS_DENIED:
      return 'accessDenied';
    case ErrorType.TIMEOUT:
    case ErrorType.DEADLINE_EXCEEDED:
    case ErrorType.NOT_LEADER:
      return 'transient';
    case ErrorType.CANCELLED:
      return unavailable;
  }
  // The client does not recognise "Server Is Busy" in the reply to a batch append.
  if (error instanceof UnknownError && error.code === undefined) return 'transient';
  if (error.code === GRPC_STATUS.CANCELLED) return 'transient'; // by this client, which connects to the leader
  if (error.code === GRPC_STATUS.INVALID_ARGUMENT) return 'permanent';
  if (error.code === GRPC_STATUS.RESOURCE_EXHAUSTED) return 'unreadable';
  // An exception in the server, for this request.
  if (error.code === GRPC_STATUS.UNKNOWN && isCommandError(error)) return 'transient';
  if (TLS_ERROR.test(error.message)) return 'accessDenied';
  return error.code === GRPC_STATUS.UNAVAILABLE || error.message.startsWith('Failed to discover')
    ? unavailable
    : 'broken';
}

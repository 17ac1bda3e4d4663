import { ErrorType, isCommandError, UnknownError } from '@eventstore/db-client';

// What the client's errors mean for whoever asked. Not all of them are errors of its own, and not all of those have words.

/**
 * Why a call failed. `wrongRevision`: as the port says. `impossible`: repeating will not help. `refused`: the settings
 * are wrong, as far as the server says. `passing`: repeat it. `elsewhere`: repeat it; the client now asks the leader.
 * `unreachable`: repeat it; the client makes a new channel.
 * `unsound`: repeat it, over a new connection. `unanswered`: so far.
 */
export type Failure = {
  kind:
    | 'wrongRevision'
    | 'impossible'
    | 'refused'
    | 'passing'
    | 'elsewhere'
    | 'unreachable'
    | 'unsound'
    | 'unanswered';
  message: string;
};

/** gRPC's status codes (https://grpc.io/docs/guides/status-codes/), as far as they matter here. */
export const STATUS = { UNKNOWN: 2, INVALID_ARGUMENT: 3, UNAVAILABLE: 14 };

/** A failure that is known as such where it arises. */
export class Failed extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** The client keeps a failed look-up of the server's features for good, unless the server was away. */
export function isPoisoned(error: Error & { code?: number }): boolean {
  return !isCommandError(error) && error.code !== STATUS.UNAVAILABLE;
}

/** The client's name for an error of the server. */
export function typeOf(error: unknown): string | undefined {
  return isCommandError(error as Error) ? (error as { type?: string }).type : undefined;
}

export function failureOf(error: Error & { code?: number }): Failure {
  if (error instanceof Failed) return error.failure;
  const kind = kindOf(error);
  const reason = wordsOf(error);
  if (kind !== 'refused') return { kind, message: reason };
  const message =
    typeOf(error) === ErrorType.ACCESS_DENIED
      ? 'the server does not take the user or the password, or does not let this user read $all'
      : `no TLS connection can be made (${reason}): check tls, tlsCAFile and the name of the host`;
  return { kind, message };
}

/** What gRPC says, without its frame. */
export function wordsOf(error: Error & { code?: number }): string {
  const words = error.message
    .replace(/^\d+ [A-Z_]+: /, '')
    .replace(/^No connection established\. Last error: (\w*Error[^:]*: )?/, '')
    .replace(/\.?\s*Resolution note:.*$/s, '')
    .replace(/^.*SSL routines:[^:]*:([^:]+):.*$/s, '$1')
    .replace(
      /^Failed to discover.*$/,
      'no node of the cluster answers: check hosts, tls and tlsCAFile in EVENTSTOREDB_URL',
    )
    .replace(
      /^Failed to connect \(.*$/,
      'no answer in plain HTTP/2: does tls=false in EVENTSTOREDB_URL fit?',
    );
  return words || `${error.name} (${typeOf(error) ?? error.code ?? 'no code'})`;
}

/** gRPC says so little of a failed handshake that its words are all there is to tell it by. */
const TLS_TROUBLE =
  /certificate|self.signed|wrong version number|EPROTO|packet length too long|SSL|servername/i;

function kindOf(error: Error & { code?: number }): Failure['kind'] {
  switch (typeOf(error)) {
    case ErrorType.WRONG_EXPECTED_VERSION:
      return 'wrongRevision';
    case ErrorType.STREAM_DELETED:
    case ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED:
    case ErrorType.INVALID_ARGUMENT:
      return 'impossible';
    case ErrorType.ACCESS_DENIED:
      return 'refused';
    case ErrorType.TIMEOUT:
    case ErrorType.DEADLINE_EXCEEDED:
      return 'passing';
    case ErrorType.NOT_LEADER:
      return 'elsewhere';
    case ErrorType.CANCELLED:
      return 'unreachable';
  }
  // On the batch path the server says "Server Is Busy" in words that the client does not know.
  if (error instanceof UnknownError && error.code === undefined) return 'passing';
  if (error.code === STATUS.INVALID_ARGUMENT) return 'impossible';
  if (TLS_TROUBLE.test(error.message)) return 'refused';
  return error.code === STATUS.UNAVAILABLE || error.message.startsWith('Failed to discover')
    ? 'unreachable'
    : 'unsound';
}

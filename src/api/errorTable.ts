import { ViewDamaged } from '../../projections/viewFile.ts';
import { ViewBehind } from '../../projections/waiting.ts';
import { BadFilter } from '../audit/eventFilter.ts';
import { LogContradictsTree, UnknownPlant } from '../audit/receipt.ts';
import { UnknownUser } from '../audit/replay.ts';
import { LogReplaced, StoreUnavailable, StreamDeleted } from '../eventStore/eventStore.ts';
import { BadPosition } from '../eventStore/position.ts';
import { type ErrorResponse, errorResponse, HTTP_ERRORS } from '../http/errors.ts';
import { RateLimitExceeded } from '../http/rateLimit.ts';
import type { TokenRefusal } from '../metrics/metrics.ts';
import { PlantIdTaken } from '../plants/createPlant.ts';
import { ExpiredToken, IdentityProviderUnavailable, InvalidToken } from '../tokens/tokenVerifier.ts';
import { CheckpointFileUnusable, LogContradictsCheckpoint } from '../transparency/checkpointSigner.ts';
import { NotAcceptable } from './eventRoutes.ts';
import { TooManyInFlight } from './inFlight.ts';

/** The error numbers of the API, besides those of HTTP itself. */
export const API_ERRORS = {
  plantIdTaken: 40003,
  badPosition: 40005,
  noToken: 40101,
  invalidToken: 40102,
  insufficientScope: 40301,
  unknownPlant: 40402,
  tooManyInFlight: 42901,
  rateLimitExceeded: 42902,
  eventLost: 50002,
  storeUnavailable: 50301,
  viewBehind: 50302,
  identityProviderUnavailable: 50303,
  notSigned: 50304,
} as const;

/** The token is valid, but its scope does not allow this (RFC 6750 section 3.1). */
export class InsufficientScope extends Error {
  override readonly name = 'InsufficientScope';
  readonly scope: string;
  constructor(scope: string) {
    super(`This requires a token whose scope contains ${scope}.`);
    this.scope = scope;
  }
}

/** The message of 50002. */
export const EVENT_LOST =
  'The log no longer has the event that created this plant. The service has logged it for its operators.';
const REALM = 'Bearer realm="plants"';
const RETRY = { 'retry-after': '1' };

/** The one place where the errors of the service become statuses, numbers and messages. */
export function errorTable(error: unknown): ErrorResponse | undefined {
  if (error instanceof PlantIdTaken)
    return errorResponse(API_ERRORS.plantIdTaken, 'You have another plant with this ID. Choose another ID.');
  if (error instanceof BadPosition) return errorResponse(API_ERRORS.badPosition, error.message);
  if (error instanceof BadFilter || error instanceof UnknownUser)
    return errorResponse(HTTP_ERRORS.invalidQuery, error.message);
  if (error instanceof NotAcceptable) return errorResponse(HTTP_ERRORS.notAcceptable, error.message);
  if (error instanceof InvalidToken)
    return unauthorized(API_ERRORS.invalidToken, error.message, 'invalid_token');
  if (error instanceof InsufficientScope) {
    const challenge = `${REALM}, error="insufficient_scope", scope="${error.scope}"`;
    return errorResponse(API_ERRORS.insufficientScope, error.message, { 'www-authenticate': challenge });
  }
  if (error instanceof UnknownPlant)
    return errorResponse(API_ERRORS.unknownPlant, 'There is no plant with this ID.');
  if (error instanceof TooManyInFlight)
    return errorResponse(API_ERRORS.tooManyInFlight, error.message, RETRY);
  if (error instanceof RateLimitExceeded) {
    const headers = { 'retry-after': String(error.retryAfterS) };
    return errorResponse(API_ERRORS.rateLimitExceeded, error.message, headers);
  }
  if (error instanceof LogContradictsTree || error instanceof StreamDeleted)
    return errorResponse(API_ERRORS.eventLost, EVENT_LOST);
  if (error instanceof StoreUnavailable || error instanceof LogReplaced) {
    const message =
      'The event store is unavailable. The request may have been stored, and can be repeated safely.';
    return errorResponse(API_ERRORS.storeUnavailable, message, RETRY);
  }
  if (error instanceof ViewBehind) return errorResponse(API_ERRORS.viewBehind, error.message, RETRY);
  if (error instanceof ViewDamaged)
    return errorResponse(API_ERRORS.viewBehind, 'The plant list is being rebuilt; retry.', RETRY);
  if (error instanceof IdentityProviderUnavailable) {
    const message = 'The identity provider is unavailable, so the token cannot be verified; retry.';
    return errorResponse(API_ERRORS.identityProviderUnavailable, message, RETRY);
  }
  if (error instanceof LogContradictsCheckpoint)
    return errorResponse(
      API_ERRORS.notSigned,
      'The log contradicts a checkpoint that it has signed, so nothing is signed. The service has logged it for its operators.',
      RETRY,
    );
  if (error instanceof CheckpointFileUnusable)
    return errorResponse(
      API_ERRORS.notSigned,
      'The checkpoint cannot be saved, so it is not signed; retry.',
      RETRY,
    );
  switch ((error as { code?: string }).code) {
    case 'FST_BEARER_AUTH_MISSING_AUTHORIZATION_HEADER':
    case 'FST_BEARER_AUTH_INVALID_AUTHORIZATION_HEADER':
      return unauthorized(API_ERRORS.noToken, 'This requires a bearer token.');
  }
  return undefined;
}

/** Why a token was refused, for metrics; undefined for other errors. */
export function tokenRefusal(error: unknown): TokenRefusal | undefined {
  if (error instanceof ExpiredToken) return 'expired';
  switch (errorTable(error)?.body.error) {
    case API_ERRORS.noToken:
      return 'missing';
    case API_ERRORS.invalidToken:
      return 'invalid';
    case API_ERRORS.insufficientScope:
      return 'insufficient_scope';
  }
  return undefined;
}

/** RFC 6750 section 3.1: without credentials, the challenge has no error code. */
function unauthorized(number: number, message: string, code?: string): ErrorResponse {
  const challenge = code === undefined ? REALM : `${REALM}, error="${code}", error_description="${message}"`;
  return errorResponse(number, message, { 'www-authenticate': challenge });
}

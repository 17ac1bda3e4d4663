import { type Static, Type } from 'typebox';
import { ViewBehind } from '../../projections/follow.ts';
import { ViewDamaged } from '../../projections/plantsByUser.ts';
import { BadFilter } from '../audit/eventFilter.ts';
import { UnknownUser } from '../audit/replay.ts';
import { StoreUnavailable } from '../eventStore/eventStore.ts';
import { BadPosition } from '../eventStore/position.ts';
import { PlantIdTaken } from '../plants/plant.ts';
import { IdentityProviderUnavailable, InvalidToken } from '../tokens/tokenVerifier.ts';
import { NotJson } from './json.ts';

/** The one shape of every 4xx and 5xx. */
export const ErrorBody = Type.Object(
  {
    error: Type.Integer({
      format: 'int32',
      description: 'The status × 100 + a number that names the cause and never changes.',
    }),
    message: Type.String({ description: 'What is wrong, in words that can be shown.' }),
  },
  { $id: 'Error' },
);
export type ErrorBody = Static<typeof ErrorBody>;

export type Answer = { status: number; body: ErrorBody; headers: Record<string, string> };

/** The request cannot be what it should be: refused at the edge, before any domain. */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
  readonly number: number;
  readonly headers: Record<string, string>;
  constructor(number: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.number = number;
    this.headers = headers;
  }
}

/** The token is good, but not for this (RFC 6750 section 3.1). */
export class InsufficientScope extends Error {
  override readonly name = 'InsufficientScope';
  readonly scope: string;
  constructor(scope: string) {
    super(`This needs a token whose scope contains ${scope}.`);
    this.scope = scope;
  }
}

export const NUMBERS = {
  notJson: 40001,
  notANewPlant: 40002,
  idTaken: 40003,
  badQuery: 40004,
  badPosition: 40005,
  malformedHttp: 40006,
  malformedUrl: 40007,
  noToken: 40101,
  badToken: 40102,
  insufficientScope: 40301,
  notFound: 40401,
  wrongMethod: 40501,
  notAcceptable: 40601,
  timeout: 40801,
  tooLarge: 41301,
  wrongMediaType: 41501,
  expectation: 41701,
  headersTooLarge: 43101,
  internal: 50001,
  storeUnavailable: 50301,
  viewBehind: 50302,
  providerUnavailable: 50303,
} as const;

const REALM = 'Bearer realm="plants"';
const RETRY = { 'retry-after': '1' };

/** The one place where errors become statuses, numbers and words. */
export function answerTo(error: unknown): Answer {
  if (error instanceof BadRequest) return answer(error.number, error.message, error.headers);
  if (error instanceof NotJson) return answer(NUMBERS.notJson, error.message);
  if (error instanceof PlantIdTaken) {
    return answer(NUMBERS.idTaken, 'You have another plant with this id. Choose another id.');
  }
  if (error instanceof BadPosition) return answer(NUMBERS.badPosition, error.message);
  if (error instanceof BadFilter || error instanceof UnknownUser)
    return answer(NUMBERS.badQuery, error.message);
  if (error instanceof InvalidToken) {
    const challenge = `${REALM}, error="invalid_token", error_description="${error.message}"`;
    return answer(NUMBERS.badToken, error.message, { 'www-authenticate': challenge });
  }
  if (error instanceof InsufficientScope) {
    const challenge = `${REALM}, error="insufficient_scope", scope="${error.scope}"`;
    return answer(NUMBERS.insufficientScope, error.message, { 'www-authenticate': challenge });
  }
  if (error instanceof StoreUnavailable) {
    const message =
      'The store cannot be reached. What was stored is stored once: repeating the request is safe.';
    return answer(NUMBERS.storeUnavailable, message, RETRY);
  }
  if (error instanceof ViewBehind) return answer(NUMBERS.viewBehind, error.message, RETRY);
  if (error instanceof ViewDamaged) {
    return answer(NUMBERS.viewBehind, 'The list of plants is being built anew. Try again.', RETRY);
  }
  if (error instanceof IdentityProviderUnavailable) {
    return answer(NUMBERS.providerUnavailable, 'Tokens cannot be checked just now. Try again.', RETRY);
  }
  return answerToFramework(error as { code?: string; statusCode?: number });
}

/** What Fastify and its plugins throw, by their codes (https://fastify.dev/docs/latest/Reference/Errors/). */
function answerToFramework({ code, statusCode }: { code?: string; statusCode?: number }): Answer {
  switch (code) {
    case 'FST_BEARER_AUTH_MISSING_AUTHORIZATION_HEADER':
    case 'FST_BEARER_AUTH_INVALID_AUTHORIZATION_HEADER':
      // RFC 6750 section 3.1: a request without credentials is told no error code
      return answer(NUMBERS.noToken, 'This needs a bearer token.', { 'www-authenticate': REALM });
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return answer(NUMBERS.tooLarge, 'The body is larger than 64 KiB.');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return answer(
        NUMBERS.wrongMediaType,
        'The body must be application/json in UTF-8, without a content encoding.',
      );
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return answer(NUMBERS.malformedHttp, 'The body is not as long as its Content-Length says.');
    case 'FST_ERR_BAD_URL':
      return answer(NUMBERS.malformedUrl, 'The URL is not well-formed.');
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return answer(statusCode * 100 + 1, 'The request cannot be handled.');
  }
  return answer(NUMBERS.internal, 'Something went wrong here. We have been told.');
}

/** What Node's HTTP parser and timers refuse before there is a request, by their codes. */
export function answerToParser({ code }: { code?: string }): Answer {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return answer(NUMBERS.timeout, 'The request took too long to arrive.');
    case 'HPE_HEADER_OVERFLOW':
      return answer(NUMBERS.headersTooLarge, 'The header fields are too large.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return answer(NUMBERS.tooLarge, 'The chunk extensions are too large.');
    default:
      return answer(NUMBERS.malformedHttp, 'This is not well-formed HTTP.');
  }
}

function answer(number: number, message: string, headers: Record<string, string> = {}): Answer {
  return { status: Math.floor(number / 100), body: { error: number, message }, headers };
}

import { type Static, Type } from 'typebox';
import { InsufficientScope, NO_TOKEN_CODES } from './auth.ts';
import { type InFlight, TooManyInFlight } from './inFlight.ts';
import { RateLimitExceeded } from './rateLimit.ts';
import { IdentityProviderUnavailable, InvalidToken } from './tokens/tokenVerifier.ts';

/** The maximum number of fields in an error. */
export const MAX_FIELDS = 8;

const FieldError = Type.Object({
  field: Type.String({
    description:
      'The name of the field of the body, or of the query parameter, cut to 64 characters; empty for the whole body.',
  }),
  message: Type.String({ description: 'What is wrong, to be shown beside the field.' }),
});
export type FieldError = Static<typeof FieldError>;

/** The body of every 4xx and 5xx response. */
export const ErrorBody = Type.Object(
  {
    error: Type.Integer({
      format: 'int32',
      description: 'The status × 100 + a number that identifies the cause. Codes never change.',
    }),
    message: Type.String({ description: 'A human-readable explanation.' }),
    details: Type.Optional(
      Type.Array(FieldError, {
        minItems: 1,
        maxItems: MAX_FIELDS,
        description: 'Only for 40002 and 40004: the invalid fields, each once.',
      }),
    ),
  },
  { $id: 'Error' },
);
export type ErrorBody = Static<typeof ErrorBody>;

type ErrorClass = abstract new (...given: never[]) => Error;
type HeaderValue = string | { format(error: Error): string }['format'];

/** An error response of the API. */
export type ErrorDefinition = Readonly<{
  /** The status × 100 + a number that identifies the cause. Codes never change. */
  code: number;
  /** When clients get the error. The OpenAPI document adds the code and a full stop. */
  description: string;
  message: string;
  /** Whether clients get the message of the thrown error; then `message` is an example. */
  isExample: boolean;
  /** The thrown errors: classes, or the `code` of errors of Node, Fastify and its plugins. */
  causes: readonly (ErrorClass | string)[];
  headers: Readonly<Record<string, HeaderValue>>;
  /** The invalid fields that the thrown error names. */
  details?: { format(error: Error): readonly FieldError[] }['format'];
  exampleDetails?: readonly FieldError[];
}>;
export type ErrorDefinitions = Readonly<Record<string, ErrorDefinition>>;

type More = Partial<Omit<ErrorDefinition, 'code' | 'description' | 'isExample'>> & { example?: string };

/** Defines an error. Without a message or an example, its message is its description. */
export function defineError(code: number, description: string, more: More = {}): ErrorDefinition {
  const { causes = [], headers = {}, example, message = example ?? sentence(description), ...details } = more;
  return { code, description, message, isExample: example !== undefined, causes, headers, ...details };
}

export function sentence(text: string): string {
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

export const RETRY = { 'Retry-After': '1' };

/** The errors of HTTP itself (https://fastify.dev/docs/latest/Reference/Errors/ has the codes). */
export const HTTP_ERRORS = {
  notJson: defineError(40001, 'the body is not JSON', { example: 'The body is not UTF-8.' }),
  invalidBody: defineError(40002, 'the body is invalid; details names the fields and their rules', {
    example: 'name must be a string.',
    exampleDetails: [{ field: 'name', message: 'must be a string' }],
  }),
  invalidQuery: defineError(40004, 'the query is invalid, or has an unknown parameter', {
    example: 'page is not a parameter; the parameters are limit, after.',
    exampleDetails: [{ field: 'page', message: 'is not a parameter' }],
  }),
  malformedHttp: defineError(40006, 'malformed HTTP'),
  malformedUrl: defineError(40007, 'the URL is malformed', { causes: ['FST_ERR_BAD_URL'] }),
  notFound: defineError(40401, 'not found'),
  methodNotAllowed: defineError(40501, 'the method is not allowed', {
    example: 'Method not allowed; use GET.',
  }),
  notAcceptable: defineError(40601, 'the client accepts none of the media types', {
    example: 'The media types are application/x-ndjson and text/event-stream.',
  }),
  requestTimeout: defineError(40801, 'the request was not received in time', {
    causes: ['ERR_HTTP_REQUEST_TIMEOUT'],
  }),
  bodyTooLarge: defineError(41301, 'the body is larger than 60 KiB'),
  chunkExtensionsTooLarge: defineError(41301, 'the chunk extensions are too large', {
    causes: ['HPE_CHUNK_EXTENSIONS_OVERFLOW'],
  }),
  unsupportedMediaType: defineError(41501, 'the body is not application/json in UTF-8', {
    causes: ['FST_ERR_CTP_INVALID_MEDIA_TYPE'],
    message: 'The body must be application/json in UTF-8, without a content encoding.',
  }),
  expectationFailed: defineError(41701, 'the Expect field is not supported', {
    message: 'The only supported Expect is 100-continue.',
  }),
  headersTooLarge: defineError(43101, 'the header fields are too large', { causes: ['HPE_HEADER_OVERFLOW'] }),
  tooManyInFlight: defineError(42901, 'too many responses of the user are in flight; read them, and retry', {
    causes: [TooManyInFlight],
    headers: RETRY,
    example: 'You have 8 responses in flight.',
  }),
  rateLimitExceeded: defineError(42902, 'the user sends more requests than the rate limit allows; retry', {
    causes: [RateLimitExceeded],
    headers: { 'Retry-After': ({ retryAfterS }: RateLimitExceeded) => String(retryAfterS) },
    example: 'The limit is 100 requests in 1 s. Wait, and retry.',
  }),
  internal: defineError(50001, 'internal error', { message: 'Internal server error.' }),
  http11Required: defineError(50501, 'the response has no known length, so the request must use HTTP/1.1', {
    message:
      'This response has no known length, and HTTP/1.0 cannot mark its end. Use HTTP/1.1, also in a proxy (nginx: proxy_http_version 1.1;).',
  }),
  identityProviderUnavailable: defineError(50303, 'the identity provider is unavailable; retry', {
    causes: [IdentityProviderUnavailable],
    headers: RETRY,
    message: 'The identity provider is unavailable, so the token cannot be verified; retry.',
  }),
};

/** The error of a route that limits its responses in flight. */
export function tooManyInFlight(...limits: [Limit, ...Limit[]]): ErrorDefinition {
  const [{ kind, max }] = limits;
  return {
    ...HTTP_ERRORS.tooManyInFlight,
    description: `${limits.map(({ max, kind }) => `${max} ${kind}`).join(', or ')} of the user are in flight; read them, and retry`,
    message: new TooManyInFlight(kind, max).message,
  };
}
type Limit = Pick<InFlight, 'kind' | 'max'>;

/** The errors of bearer tokens (RFC 6750 section 3.1). Without credentials, the challenge has no error code. */
export function tokenErrors(realm: string) {
  const challenge = `Bearer realm="${realm}"`;
  return {
    noToken: defineError(40101, 'the bearer token is missing', {
      causes: NO_TOKEN_CODES,
      headers: { 'WWW-Authenticate': challenge },
      message: 'This requires a bearer token.',
    }),
    invalidToken: defineError(40102, 'the bearer token is invalid', {
      causes: [InvalidToken],
      headers: {
        'WWW-Authenticate': ({ message }) =>
          `${challenge}, error="invalid_token", error_description="${message}"`,
      },
      example: 'The token has expired.',
    }),
    insufficientScope: defineError(40301, 'the scope of the token is insufficient', {
      causes: [InsufficientScope],
      headers: {
        'WWW-Authenticate': ({ scope }: InsufficientScope) =>
          `${challenge}, error="insufficient_scope"${scope === undefined ? '' : `, scope="${scope}"`}`,
      },
      example: 'This requires a token whose scope contains audit.',
    }),
  };
}

export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly code: number;
  readonly headers: Record<string, string>;
  readonly details: readonly FieldError[] | undefined;
  constructor(
    definition: ErrorDefinition,
    message = definition.message,
    headers: Record<string, string> = {},
    details?: readonly FieldError[],
  ) {
    super(message);
    this.code = definition.code;
    this.headers = headers;
    this.details = details;
  }
}

type ErrorResponse = { status: number; body: ErrorBody; headers: Record<string, string> };

/** The response to an error, from its definition, the 4xx status that Fastify set, or `fallback`. */
export function errorResponse(
  definitions: ErrorDefinitions,
  error: unknown,
  fallback: ErrorDefinition = HTTP_ERRORS.internal,
): ErrorResponse {
  if (error instanceof HttpError) return toResponse(error.code, error.message, error.headers, error.details);
  const { code, statusCode = 500 } = error as { code?: string; statusCode?: number };
  const definition = Object.values(definitions).find(({ causes }) =>
    causes.some((cause) => (typeof cause === 'string' ? code === cause : error instanceof cause)),
  );
  if (!definition && statusCode >= 400 && statusCode < 500)
    return toResponse(statusCode * 100 + 1, 'The request cannot be processed.');
  if (!definition) return toResponse(fallback.code, fallback.message);
  const headers = Object.entries(definition.headers).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : value(error as Error),
  ]);
  const message = definition.isExample ? (error as Error).message : definition.message;
  return toResponse(
    definition.code,
    message,
    Object.fromEntries(headers),
    definition.details?.(error as Error),
  );
}

function toResponse(
  code: number,
  message: string,
  headers: Record<string, string> = {},
  details?: readonly FieldError[],
): ErrorResponse {
  const body = { error: code, message, ...(details && { details: [...details] }) };
  return { status: Math.floor(code / 100), body, headers };
}

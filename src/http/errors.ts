import { type Static, Type } from 'typebox';

/** The body of every 4xx and 5xx response. */
export const ErrorBody = Type.Object(
  {
    error: Type.Integer({
      format: 'int32',
      description: 'The status × 100 + a number that identifies the cause and never changes.',
    }),
    message: Type.String({ description: 'What is wrong, human-readable.' }),
  },
  { $id: 'Error' },
);
export type ErrorBody = Static<typeof ErrorBody>;

export type ErrorResponse = { status: number; body: ErrorBody; headers: Record<string, string> };

/** The error numbers of HTTP itself; those of the API are in its error table. */
export const HTTP_ERRORS = {
  notJson: 40001,
  invalidBody: 40002,
  invalidQuery: 40004,
  malformedHttp: 40006,
  malformedUrl: 40007,
  notFound: 40401,
  methodNotAllowed: 40501,
  notAcceptable: 40601,
  requestTimeout: 40801,
  bodyTooLarge: 41301,
  unsupportedMediaType: 41501,
  expectationFailed: 41701,
  headersTooLarge: 43101,
  internal: 50001,
} as const;

/** An error with its number and its headers. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly number: number;
  readonly headers: Record<string, string>;
  constructor(number: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.number = number;
    this.headers = headers;
  }
}

/**
 * The response to an error: HttpErrors, and what Fastify and its plugins throw, by code
 * (https://fastify.dev/docs/latest/Reference/Errors/).
 */
export function toErrorResponse(error: unknown): ErrorResponse {
  if (error instanceof HttpError) return errorResponse(error.number, error.message, error.headers);
  const { code, statusCode } = error as { code?: string; statusCode?: number };
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return errorResponse(
        HTTP_ERRORS.unsupportedMediaType,
        'The body must be application/json in UTF-8, without a content encoding.',
      );
    case 'FST_ERR_BAD_URL':
      return errorResponse(HTTP_ERRORS.malformedUrl, 'The URL is malformed.');
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return errorResponse(statusCode * 100 + 1, 'The request cannot be processed.');
  return errorResponse(HTTP_ERRORS.internal, 'Internal server error.');
}

/** The response to what Node's HTTP parser and its timers reject, by code. */
export function toParserErrorResponse({ code }: { code?: string }): ErrorResponse {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return errorResponse(HTTP_ERRORS.requestTimeout, 'The request was not received in time.');
    case 'HPE_HEADER_OVERFLOW':
      return errorResponse(HTTP_ERRORS.headersTooLarge, 'The header fields are too large.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return errorResponse(HTTP_ERRORS.bodyTooLarge, 'The chunk extensions are too large.');
    default:
      return errorResponse(HTTP_ERRORS.malformedHttp, 'Malformed HTTP.');
  }
}

export function errorResponse(
  number: number,
  message: string,
  headers: Record<string, string> = {},
): ErrorResponse {
  return { status: Math.floor(number / 100), body: { error: number, message }, headers };
}

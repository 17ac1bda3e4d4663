import type { FastifySchema } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { ErrorBody, type ErrorEntries, type ErrorEntry } from './errors.ts';

// How routes describe their responses in the OpenAPI document.

export type Headers = Record<string, TSchema>;

/** Every response has them. */
const COMMON_HEADERS: Headers = {
  'Request-Id': Type.String({ format: 'uuid', description: 'Identifies this request in the logs.' }),
  'Cache-Control': Type.String({ description: 'Always no-store.' }),
};
const ERROR_HEADERS: Headers = {
  'Retry-After': Type.String({ description: 'Seconds to wait.' }),
  'WWW-Authenticate': Type.String({ description: 'The challenge (RFC 6750).' }),
};

/** What a media type of a response has. */
export type Media = { schema: TSchema; example?: unknown };
type Response = { description: string; headers: Headers; content: Record<string, Media> };

/** A JSON response. */
export function jsonResponse(description: string, media: Media, headers: Headers = {}): Response {
  return response(description, { 'application/json': media }, headers);
}

/** A response in one of several media types. */
export function response(description: string, content: Record<string, Media>, headers: Headers = {}) {
  return { description, headers, content };
}

/** The responses of a route to these errors, by status; `headers` are sent to authenticated callers. */
export type ErrorsOf<Name extends string = string> = (
  errors: readonly (Name | ErrorEntry)[],
  headers?: Headers,
) => Record<number, Response>;

/** Describes the error responses of routes; `common` are those that every route may have. */
export function errorsOf<Entries extends ErrorEntries, Name extends keyof Entries & string>(
  entries: Entries,
  common: readonly Name[],
): ErrorsOf<keyof Entries & string> {
  return (errors, headers = {}) => {
    const own = [...errors, ...common].map((one) => (typeof one === 'string' ? entries[one] : one));
    const byStatus = Map.groupBy(own as ErrorEntry[], ({ code }) => Math.floor(code / 100));
    return Object.fromEntries(
      [...byStatus].map(([status, causes]) => [
        status,
        errorsResponse(causes, status === 401 ? {} : headers),
      ]),
    );
  };
}

/** The response for one of several errors of a status; the example is that of the first. */
function errorsResponse(causes: readonly ErrorEntry[], headers: Headers): Response {
  const [first] = causes as [ErrorEntry];
  const description = [...causes]
    .sort((a, b) => a.code - b.code)
    .map(({ code, description }) => `${description} (${code})`)
    .join('; ');
  const names = causes.flatMap((cause) => Object.keys(cause.headers));
  const own = Object.fromEntries(names.map((name) => [name, ERROR_HEADERS[name] as TSchema]));
  const example = { error: first.code, message: first.message };
  return jsonResponse(
    `${description[0]?.toUpperCase()}${description.slice(1)}.`,
    { schema: ErrorBody, example },
    { ...own, ...headers },
  );
}

/** The schema of a route as the document shows it: with the headers of every response, and a token by default. */
export function describeRoute({ response = {}, ...schema }: FastifySchema): FastifySchema {
  const responses = Object.entries(response as Record<string, Response>).map(([status, one]) => [
    status,
    { ...one, headers: { ...COMMON_HEADERS, ...one.headers } },
  ]);
  return publish({ security: [{ bearer: [] }], ...schema, response: Object.fromEntries(responses) });
}

/**
 * A schema as the document shows it: named schemas by reference, and integers that are validated by a rule as
 * integers.
 */
export function publish<T>(schema: T): T {
  return JSON.parse(
    JSON.stringify(schema, (_key, value) => {
      if (typeof value?.$id === 'string' && value !== schema) return { $ref: `${value.$id}#` };
      if (/^int\d+$/.test(value?.format)) return { type: 'integer', ...value };
      return value;
    }),
  );
}

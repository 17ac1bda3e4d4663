import { type TSchema, Type } from 'typebox';
import { ErrorBody } from './errors.ts';

// How routes describe their responses in the OpenAPI document.

export type Headers = Record<string, TSchema>;

const COMMON_HEADERS: Headers = {
  'Request-Id': Type.String({ format: 'uuid', description: 'Identifies this request in the logs.' }),
  'Cache-Control': Type.String({ description: 'Always no-store.' }),
};

/** What a media type of a response has. */
export type Media = { schema: TSchema; example?: unknown };

/** A JSON response. */
export function jsonResponse(description: string, media: Media, headers: Headers = {}) {
  return response(description, { 'application/json': media }, headers);
}

/** A response in one of several media types. */
export function response(description: string, content: Record<string, Media>, headers: Headers = {}) {
  return { description, headers: { ...COMMON_HEADERS, ...headers }, content };
}

/** An error response; the status is that of the example. */
export type ErrorDescription = { description: string; example: ErrorBody; headers?: Headers };
/** The error responses of a route, by status. */
export type ErrorDescriptions = Record<number, ErrorDescription>;

/**
 * The error responses with these statuses; `headers` are sent to authenticated callers only, so not with 401.
 */
export function errorResponses(descriptions: ErrorDescriptions, headers: Headers, ...statuses: number[]) {
  return Object.fromEntries(
    statuses.map((status) => {
      const { description, example, headers: own = {} } = descriptions[status] as ErrorDescription;
      const sent = status === 401 ? own : { ...own, ...headers };
      return [status, jsonResponse(description, { schema: ErrorBody, example }, sent)];
    }),
  );
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

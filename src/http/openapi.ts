import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { type TSchema, Type } from 'typebox';
import { ErrorBody } from './errors.ts';

type Headers = Record<string, TSchema>;

const EVERYWHERE: Headers = {
  'Request-Id': Type.String({ format: 'uuid', description: 'Names this request in the service’s logs.' }),
  'Cache-Control': Type.String({ description: 'Always no-store.' }),
};

const REFUSED: Record<number, { description: string; headers?: Headers }> = {
  400: { description: 'The request is not what it should be; the message names the field and the rule.' },
  401: {
    description: 'The bearer token is missing (40101), or not valid (40102).',
    headers: { 'WWW-Authenticate': Type.String({ description: 'The challenge of RFC 6750.' }) },
  },
  403: {
    description: 'The scope of the token does not contain audit (40301).',
    headers: { 'WWW-Authenticate': Type.String({ description: 'The challenge of RFC 6750.' }) },
  },
  406: { description: 'Neither of the media types is acceptable to the client.' },
  408: { description: 'The request took too long to arrive.' },
  413: { description: 'The body is larger than 64 KiB.' },
  415: { description: 'The body is not application/json in UTF-8.' },
  417: { description: 'The Expect field asks for something unknown.' },
  431: { description: 'The header fields are too large.' },
  500: { description: 'Something went wrong inside.' },
  503: {
    description: 'The store (50301), the view (50302) or the identity provider (50303) is away. Try again.',
    headers: { 'Retry-After': Type.String({ description: 'Seconds to wait.' }) },
  },
};

/** A JSON answer and its headers, as a route lists it. */
export function json(description: string, schema: TSchema, headers: Headers = {}) {
  return answer(description, { 'application/json': schema }, headers);
}

/** An answer in one of several media types. */
export function answer(description: string, schemas: Record<string, TSchema>, headers: Headers = {}) {
  const content = Object.fromEntries(Object.entries(schemas).map(([type, schema]) => [type, { schema }]));
  return { description, headers: { ...headers, ...EVERYWHERE }, content };
}

/** The refusals with these statuses, all in the one shape; `known` are headers that only somebody known gets. */
export function failures(known: Headers, ...statuses: number[]) {
  return Object.fromEntries(
    statuses.map((status) => {
      const { description = '', headers } = REFUSED[status] ?? {};
      return [status, json(description, ErrorBody, status === 401 ? headers : { ...headers, ...known })];
    }),
  );
}

/** How @fastify/swagger makes /openapi.json from the schemas that validate. */
export const openapi: FastifyDynamicSwaggerOptions = {
  openapi: {
    openapi: '3.1.0',
    info: {
      title: 'OpenAPI Plant Store',
      version: '1.0.0',
      description: 'Create plants, and list your own.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
  },
  refResolver: { buildLocalReference: ({ $id }) => String($id) },
  transform: ({ schema, url }) => ({ schema: { security: [{ bearer: [] }], ...published(schema) }, url }),
};

/**
 * A schema as the document shows it: named ones by reference, and integers as such where the schema that validates
 * holds a rule of its own instead of a type.
 */
export function published<T>(schema: T): T {
  return JSON.parse(
    JSON.stringify(schema, (_key, value) => {
      if (typeof value?.$id === 'string' && value !== schema) return { $ref: `${value.$id}#` };
      if (/^int\d+$/.test(value?.format)) return { type: 'integer', ...value };
      return value;
    }),
  );
}

import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance, FastifySchema } from 'fastify';
import Negotiator from 'negotiator';
import { type TSchema, Type } from 'typebox';
import { chooseContent, type EncodedContent, encodeContent } from './contentEncoding.ts';
import { ErrorBody, type ErrorDefinition, type ErrorDefinitions, sentence } from './errors.ts';

// The descriptions of routes in the OpenAPI document.

declare module 'fastify' {
  interface FastifySchema {
    /** The errors of the route, besides the common ones. */
    errors?: readonly ErrorDefinition[];
    /** The headers of error responses to authenticated callers. */
    errorHeaders?: Headers;
    /** Whether the route destroys data: the API reference asks before it sends such a request. */
    'x-destructive'?: boolean;
  }
}

type Headers = Record<string, TSchema>;

const UUID = '0bf9000a-e593-43dc-9474-7457baaea011';

const COMMON_HEADERS: Headers = {
  'Request-Id': Type.String({
    format: 'uuid',
    description: 'Also in the log of the service.',
    examples: [UUID],
  }),
  'Cache-Control': Type.String({ description: 'Always no-store.', examples: ['no-store'] }),
};
const ERROR_HEADERS: Headers = {
  'Retry-After': Type.Integer({ description: 'Seconds to wait before a retry.', examples: [1] }),
  'WWW-Authenticate': Type.String({ description: 'The challenge (RFC 6750).', examples: ['Bearer'] }),
};

/** The headers of responses to authenticated callers, if there is a rate limit. */
export const RATE_LIMIT_HEADERS: Headers = {
  'RateLimit-Limit': Type.Integer({ description: 'The number of requests per window.', examples: [100] }),
  'RateLimit-Remaining': Type.Integer({
    description: 'The number of requests left in this window.',
    examples: [99],
  }),
  'RateLimit-Reset': Type.Integer({ description: 'Seconds until the next window.', examples: [1] }),
};

type Example = { summary: string; value: unknown };
type ErrorNames = ReadonlyMap<number, string>;
type Media = { schema: TSchema; example?: unknown; examples?: Record<string, Example> };
type Response = { description: string; headers: Headers; content: Record<string, Media> };

/** The error responses by status, with `headers` for authenticated callers. */
function errorResponses(
  errors: readonly ErrorDefinition[],
  headers: Headers,
  names: ErrorNames,
): Record<number, Response> {
  const byStatus = Map.groupBy(errors, ({ code }) => Math.floor(code / 100));
  return Object.fromEntries(
    [...byStatus].map(([status, causes]) => [
      status,
      errorsResponse(causes, status === 401 ? {} : headers, names),
    ]),
  );
}

function errorsResponse(causes: readonly ErrorDefinition[], headers: Headers, names: ErrorNames): Response {
  const description = [...causes]
    .sort((a, b) => a.code - b.code)
    .map(({ code, description }) => `${description} (${code})`)
    .join('; ');
  const fields = causes.flatMap((cause) => Object.keys(cause.headers));
  const own = Object.fromEntries(fields.map((name) => [name, ERROR_HEADERS[name] as TSchema]));
  const examples = firstByCode(causes).map(
    ({ code: error, message, description, exampleDetails: details }) => [
      names.get(error),
      { summary: sentence(description), value: { error, message, ...(details && { details }) } },
    ],
  );
  return {
    description: sentence(description),
    headers: { ...own, ...headers },
    content: { 'application/json': { schema: ErrorBody, examples: Object.fromEntries(examples) } },
  };
}

type OpenApi = NonNullable<FastifyDynamicSwaggerOptions['openapi']>;

/** The parts of the document that no route defines. */
export type ApiDescription = Required<Pick<OpenApi, 'info' | 'tags'>> & {
  schemas: readonly TSchema[];
  /** All errors, by name. */
  errors: ErrorDefinitions;
  /** The errors that every route can return. */
  commonErrors: readonly ErrorDefinition[];
  /** How to get a token. */
  token: string;
};

/** RFC 8288 and RFC 8631. */
const DESCRIPTION_LINK = '<openapi.json>; rel="service-desc"; type="application/json"';
const REFERENCE_LINK = '<docs>; rel="service-doc"; type="text/html"';
const HTML = 'text/html';

/**
 * Serves /openapi.json, generated from the schemas that validate requests, and `/`, which links to it, and redirects
 * browsers to the API reference if the service has one.
 */
export async function serveOpenapi(
  app: FastifyInstance,
  api: ApiDescription,
  { hasReference = false } = {},
): Promise<void> {
  await app.register(swagger, {
    stripBasePath: false, // the plugin cannot read a relative server URL
    openapi: {
      openapi: '3.1.0',
      info: api.info,
      servers: [{ url: '.' }], // relative to the document
      tags: api.tags,
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: api.token },
        },
      },
    },
    refResolver: { buildLocalReference: ({ $id }) => String($id) },
    transform: ({ schema, url }) => ({ schema: describeRoute(schema, api), url }),
  });
  for (const schema of [...api.schemas, errorSchema(api.errors)]) app.addSchema(publish(schema));
  const type = 'application/json';
  let document: Promise<EncodedContent> | undefined; // shared by all responses
  app.get('/openapi.json', { schema: { hide: true } }, async (request, reply) => {
    document ??= encodeContent(Buffer.from(JSON.stringify(app.swagger())), type);
    return reply.type(type).send(chooseContent(request, reply, await document));
  });
  const link = hasReference ? `${DESCRIPTION_LINK}, ${REFERENCE_LINK}` : DESCRIPTION_LINK;
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'Accept');
    // The first of equal media types wins: a client that accepts everything is not a browser.
    const isBrowser = new Negotiator(request).mediaType(['application/json', HTML]) === HTML;
    if (hasReference && isBrowser) return reply.redirect('docs');
    return reply.header('link', link).send({ title: api.info.title, openapi: 'openapi.json' });
  });
}

/** Completes the schema of a route for the document: all errors, common headers, and a token by default. */
function describeRoute(
  { response = {}, errors = [], errorHeaders = {}, ...schema }: FastifySchema,
  api: ApiDescription,
): FastifySchema {
  const described = errorResponses([...errors, ...api.commonErrors], errorHeaders, namesByCode(api.errors));
  const all = { ...(response as object), ...described };
  const responses = Object.entries<Response>(all).map(([status, response]) => [
    status,
    {
      ...response,
      headers: { ...COMMON_HEADERS, ...(status !== '401' && RATE_LIMIT_HEADERS), ...response.headers },
    },
  ]);
  return publish({ security: [{ bearer: [] }], ...schema, response: Object.fromEntries(responses) });
}

/** The body of an error, with every code, and its name in generated clients. */
function errorSchema(errors: ErrorDefinitions): TSchema {
  const byCode = firstByCode(Object.values(errors));
  const names = namesByCode(errors);
  const error = Type.Integer({
    ...ErrorBody.properties.error,
    enum: byCode.map(({ code }) => code),
    'x-enum-varnames': byCode.map(({ code }) => names.get(code)),
    'x-enum-descriptions': byCode.map(({ description }) => sentence(description)),
  });
  return Type.Object({ ...ErrorBody.properties, error }, { $id: 'Error' });
}

/** The first error of each code: a route's own comes before a common one. */
function firstByCode(errors: readonly ErrorDefinition[]): ErrorDefinition[] {
  const byCode = new Map(errors.toReversed().map((error) => [error.code, error]));
  return [...byCode.values()].sort((a, b) => a.code - b.code);
}

const namesByCode = (errors: ErrorDefinitions): ErrorNames =>
  new Map(
    Object.entries(errors)
      .toReversed()
      .map(([name, { code }]) => [code, name]),
  );

/** Converts a schema for the document: named schemas become references, integers with a rule become integers. */
function publish<T>(schema: T): T {
  return JSON.parse(
    JSON.stringify(schema, (_key, value) => {
      if (typeof value?.$id === 'string' && value !== schema) return { $ref: `${value.$id}#` };
      if (/^int\d+$/.test(value?.format)) return { type: 'integer', ...value };
      return value;
    }),
  );
}

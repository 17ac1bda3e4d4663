import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import { type ErrorBody, HTTP_ERRORS } from '../http/errors.ts';
import { type ErrorDescriptions, errorResponses, type Headers, publish } from '../http/openapi.ts';
import { API_ERRORS, EVENT_LOST } from './errorTable.ts';
import { type Kind, MAX_IN_FLIGHT, TooManyInFlight } from './inFlight.ts';

const RETRY_AFTER = { 'Retry-After': Type.String({ description: 'Seconds to wait.' }) };
const CHALLENGE = { 'WWW-Authenticate': Type.String({ description: 'The challenge (RFC 6750).' }) };

const example = (error: number, message: string): ErrorBody => ({ error, message });

/** What the statuses mean in this API. */
const ERRORS = {
  400: {
    description: 'The request is invalid; the message names the field and the rule.',
    example: example(40002, 'name must be a string.'),
  },
  401: {
    description: 'The bearer token is missing (40101) or invalid (40102).',
    example: example(40102, 'The token has expired.'),
    headers: CHALLENGE,
  },
  403: {
    description: 'The scope of the token does not contain audit (40301).',
    example: example(40301, 'This requires a token whose scope contains audit.'),
    headers: CHALLENGE,
  },
  404: {
    description: 'The path is not that of a tile, or the tree does not have the tile (40401).',
    example: example(40401, 'The tree of 1 events does not have it.'),
  },
  406: {
    description: 'The client accepts none of the media types.',
    example: example(40601, 'The media types are application/x-ndjson and text/event-stream.'),
  },
  408: {
    description: 'The request was not received in time.',
    example: example(40801, 'The request was not received in time.'),
  },
  413: {
    description: 'The body is larger than 60 KiB.',
    example: example(41301, 'The body is larger than 60 KiB.'),
  },
  415: {
    description: 'The body is not application/json in UTF-8.',
    example: example(41501, 'The body must be application/json in UTF-8, without a content encoding.'),
  },
  417: {
    description: 'The Expect field is not supported.',
    example: example(41701, 'The only supported Expect is 100-continue.'),
  },
  429: {
    description: 'The user sends more requests than the rate limit allows, if there is one (42902); retry.',
    example: example(42902, 'The limit is 100 requests in 1 s. Wait, and retry.'),
    headers: RETRY_AFTER,
  },
  431: {
    description: 'The header fields are too large.',
    example: example(43101, 'The header fields are too large.'),
  },
  500: { description: 'Internal server error.', example: example(50001, 'Internal server error.') },
  503: {
    description:
      'The event store (50301), the view (50302) or the identity provider (50303) is unavailable, or nothing is signed (50304); retry.',
    example: example(
      50301,
      'The event store is unavailable. The request may have been stored, and can be repeated safely.',
    ),
    headers: RETRY_AFTER,
  },
} satisfies ErrorDescriptions;

/** 400 for an invalid query: what is wrong with it, and an example. */
export const invalidQuery = (description: string, message: string) => ({
  400: { description, example: example(HTTP_ERRORS.invalidQuery, message) },
});

/** 429 of a route whose responses in flight are limited. */
export const tooManyInFlight = (...kinds: [Kind, ...Kind[]]) => ({
  429: {
    ...ERRORS[429],
    description: `${kinds.map((kind) => `${MAX_IN_FLIGHT[kind]} ${kind}`).join(', or ')} of the user are in flight (42901); read them, and retry. ${ERRORS[429].description}`,
    example: example(API_ERRORS.tooManyInFlight, new TooManyInFlight(kinds[0]).message),
  },
});

/** 500 of a route that reads the event of a plant. */
export const eventLost = {
  500: {
    description:
      'The log no longer has the event that created this plant (50002), or another internal error (50001).',
    example: example(API_ERRORS.eventLost, EVENT_LOST),
  },
};

/** The error responses that every route may have. */
const EVERYWHERE = [400, 401, 408, 417, 429, 431, 500, 503];

/** The error responses of a route: those of every route, those with these statuses, and its own. */
export function errorsOf(statuses: readonly number[], own: ErrorDescriptions = {}, headers: Headers = {}) {
  const all = [...EVERYWHERE, ...statuses, ...Object.keys(own).map(Number)];
  return errorResponses({ ...ERRORS, ...own }, headers, ...new Set(all));
}

/** The rest of a path, which OpenAPI cannot describe: it has slashes. */
const restOf = (url: string) =>
  Type.Object({
    tile: Type.String({
      description: 'As in the path of C2SP tlog-tiles, such as 0/x001/x234/067.p/5.',
      examples: [url.includes('entries') ? '000.p/1' : '0/000.p/1'],
    }),
  });

/** /openapi.json, generated from the schemas that validate. */
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
    tags: [
      { name: 'plants', description: 'The plants of the token’s user.' },
      { name: 'audit', description: 'The log of all users, for tokens with the scope audit.' },
    ],
    components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
  },
  refResolver: { buildLocalReference: ({ $id }) => String($id) },
  transform: ({ schema, url }) => ({
    schema: {
      security: [{ bearer: [] }],
      ...(url.endsWith('*') && { params: restOf(url) }),
      ...publish(schema),
    },
    url: url.replace('*', ':tile'),
  }),
};

import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { Type } from 'typebox';
import { type ErrorDescriptions, errorResponses, publish } from '../http/openapi.ts';

const RETRY_AFTER = { 'Retry-After': Type.String({ description: 'Seconds to wait.' }) };
const CHALLENGE = { 'WWW-Authenticate': Type.String({ description: 'The challenge (RFC 6750).' }) };

/** What 403 means. */
export const NO_AUDIT_SCOPE = 'The scope of the token does not contain audit (40301).';

/** What the statuses mean in this API. */
export const ERROR_DESCRIPTIONS: ErrorDescriptions = {
  400: { description: 'The request is invalid; the message names the field and the rule.' },
  401: { description: 'The bearer token is missing (40101) or invalid (40102).', headers: CHALLENGE },
  403: { description: NO_AUDIT_SCOPE, headers: CHALLENGE },
  406: { description: 'The client accepts none of the media types.' },
  408: { description: 'The request was not received in time.' },
  413: { description: 'The body is larger than 60 KiB.' },
  415: { description: 'The body is not application/json in UTF-8.' },
  417: { description: 'The Expect field is not supported.' },
  429: {
    description: 'The user sends more requests than the rate limit allows, if there is one (42902); retry.',
    headers: RETRY_AFTER,
  },
  431: { description: 'The header fields are too large.' },
  500: { description: 'Internal server error.' },
  503: {
    description:
      'The event store (50301), the view (50302) or the identity provider (50303) is unavailable; retry.',
    headers: RETRY_AFTER,
  },
};

/** The error responses of a route: those of every route, and these, by status. */
export function errorsOf(descriptions: Record<number, string>) {
  const own = Object.entries(descriptions).map(([status, description]) => {
    return [status, { ...ERROR_DESCRIPTIONS[Number(status)], description }];
  });
  const all = { ...ERROR_DESCRIPTIONS, ...Object.fromEntries(own) };
  const statuses = Object.keys(descriptions).map(Number);
  return errorResponses(all, {}, 400, 401, ...statuses, 408, 417, 429, 431, 500, 503);
}

/** The rest of a path, which OpenAPI cannot describe: it has slashes. */
const Tile = Type.Object({
  tile: Type.String({ description: 'As in the path of C2SP tlog-tiles, such as 0/x001/x234/067.p/5.' }),
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
    schema: { security: [{ bearer: [] }], ...(url.endsWith('*') && { params: Tile }), ...publish(schema) },
    url: url.replace('*', ':tile'),
  }),
};

import bearerAuth from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { fieldCount } from './fieldCount.ts';
import { type Claims, ExpiredToken, InvalidToken, type VerifyToken } from './tokens/tokenVerifier.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scopes whose tokens are restricted to routes that name them; see `restrictScope`. */
    scopes?: readonly string[];
  }
  interface FastifyRequest {
    /** Verifies the request's bearer token again. @throws InvalidToken, IdentityProviderUnavailable */
    verifyToken: () => Claims | Promise<Claims>;
  }
}

/** The token is valid, but its scope does not allow this (RFC 6750 section 3.1). */
export class InsufficientScope extends Error {
  override readonly name = 'InsufficientScope';
  /** The scope that allows it; undefined if another scope of the token forbids it. */
  readonly scope: string | undefined;
  constructor(message: string, scope?: string) {
    super(message);
    this.scope = scope;
  }
}

/** The codes of @fastify/bearer-auth for a request without a token. */
export const NO_TOKEN_CODES = [
  'FST_BEARER_AUTH_MISSING_AUTHORIZATION_HEADER',
  'FST_BEARER_AUTH_INVALID_AUTHORIZATION_HEADER',
];

type Options = { verifyToken: VerifyToken; isUser: (subject: string) => boolean };

/** Requires a bearer token for every route in this context; its subject becomes the request's user. */
export async function authenticate(app: FastifyInstance, { verifyToken, isUser }: Options): Promise<void> {
  app.decorateRequest('verifyToken');
  await app.register(bearerAuth, {
    keys: new Set<string>(),
    addHook: false,
    specCompliance: 'rfc6749',
    verifyErrorLogLevel: 'debug',
    auth: async (token, request) => {
      if (fieldCount(request.raw, 'authorization') > 1)
        throw new InvalidToken('The request must have one Authorization field.');
      request.verifyToken = () => verifyToken(token);
      const { subject } = await request.verifyToken();
      if (!isUser(subject)) throw new InvalidToken("The token's subject is not a valid user.");
      request.user = subject;
      return true;
    },
  });
  app.addHook('onRequest', app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>);
}

/**
 * A hook that throws InsufficientScope unless the token has one of these scopes. It runs before validation, so that callers
 * without the scope learn nothing.
 */
export const requireScope =
  (...scopes: [string, ...string[]]) =>
  async ({ verifyToken }: FastifyRequest): Promise<Claims> => {
    const claims = await verifyToken();
    if (scopes.some((scope) => claims.scopes.includes(scope))) return claims;
    throw new InsufficientScope(
      `This requires a token whose scope contains ${scopes.join(' or ')}.`,
      scopes[0],
    );
  };

/**
 * Restricts tokens with a scope, and without any of `unless`, to the routes of this context whose `config.scopes` has it.
 */
export function restrictScope(app: FastifyInstance, scope: string, unless: readonly string[]): void {
  app.addHook('onRequest', async ({ verifyToken, routeOptions }) => {
    const { scopes } = await verifyToken();
    if (!scopes.includes(scope) || scopes.some((one) => unless.includes(one))) return;
    if (!routeOptions.config.scopes?.includes(scope))
      throw new InsufficientScope(`A token with the scope ${scope} alone does not allow this.`);
  });
}

export const TOKEN_REJECTIONS = ['missing', 'invalid', 'expired', 'insufficient_scope'] as const;
export type TokenRejection = (typeof TOKEN_REJECTIONS)[number];

/** Why a token was rejected, for metrics; undefined for other errors. */
export function tokenRejection(error: unknown): TokenRejection | undefined {
  if (error instanceof ExpiredToken) return 'expired';
  if (error instanceof InvalidToken) return 'invalid';
  if (error instanceof InsufficientScope) return 'insufficient_scope';
  return NO_TOKEN_CODES.includes((error as { code?: string }).code ?? '') ? 'missing' : undefined;
}

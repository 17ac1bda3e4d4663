import bearerAuth from '@fastify/bearer-auth';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { fieldCount } from '../http/fieldCount.ts';
import { isUser } from '../plants/user.ts';
import { type Claims, InvalidToken, type VerifyToken } from '../tokens/tokenVerifier.ts';
import { InsufficientScope } from './errorTable.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Verifies the request's bearer token again. @throws InvalidToken, IdentityProviderUnavailable */
    verifyToken: () => Claims | Promise<Claims>;
  }
}

/** Requires a bearer token of every route in this context; its subject becomes the request's user. */
export async function authenticate(app: FastifyInstance, verifyToken: VerifyToken): Promise<void> {
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

/** The scope of tokens that may read every user's events. */
export const AUDIT_SCOPE = 'audit';

/** A hook before validation, so that callers without the scope learn nothing. @throws InsufficientScope */
export async function requireAuditScope(request: FastifyRequest): Promise<void> {
  assertScope(await request.verifyToken(), AUDIT_SCOPE);
}

/** @throws InsufficientScope */
export function assertScope({ scopes }: Claims, scope: string): void {
  if (!scopes.includes(scope)) throw new InsufficientScope(scope);
}

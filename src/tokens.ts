import {
  issueToken,
  NotAKeySet,
  PROVIDER_ALGORITHMS,
  type ProviderKeys,
  providerKeys,
  tokenVerifier,
  type VerifyToken,
} from '@event-sourced/http/tokens';
import { loadOrCreateKey } from '@event-sourced/transparency-log/files';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';

/**
 * The keys of the identity provider, if there is one. While it is unavailable, the service starts without them.
 * @throws Error if the URL is not that of a key set
 */
export async function fetchProviderKeys(
  { jwksUrl }: Config,
  logger: FastifyBaseLogger,
): Promise<ProviderKeys | undefined> {
  if (!jwksUrl) return undefined;
  const keys = providerKeys(jwksUrl);
  try {
    await keys.reload();
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof NotAKeySet)
      throw new Error(`JWKS_URL is not the URL of a key set: ${message}`, { cause: error });
    logger.warn({ reason: message }, 'the keys of the identity provider cannot be fetched yet');
  }
  return keys;
}

/** Verifies tokens by the keys of an identity provider, or by the service's own key, which it creates. */
export function createVerifier(
  { keyFile, issuer, audience }: Config,
  providerKeys: ProviderKeys | undefined,
  now: () => Date,
): VerifyToken {
  const key = providerKeys ?? loadOrCreateKey(keyFile).publicKey;
  const algorithms = providerKeys ? PROVIDER_ALGORITHMS : ['EdDSA'];
  return tokenVerifier({ key, algorithms, issuer, audience, now });
}

/** The one scope that routes require: those of auditors. */
export const SCOPE = 'audit';

/** A token for a user, signed with the service's own key, which is created if it does not exist. */
export function issueOwnToken(
  subject: string,
  claims: { lifetime: string; scope: string | undefined },
  { keyFile, issuer, audience }: Config,
): Promise<string> {
  return issueToken(loadOrCreateKey(keyFile).privateKey, { subject, ...claims, issuer, audience });
}

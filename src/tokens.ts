import { causeChain } from '@event-sourced/http';
import {
  issueToken,
  NotAKeySet,
  PROVIDER_ALGORITHMS,
  type ProviderKeys,
  providerKeys,
  tokenVerifier,
  type VerifyToken,
} from '@event-sourced/http/tokens';
import { loadOrCreateKey } from '@event-sourced/node/files';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';

/**
 * Fetches the keys of the identity provider, if one is configured. The service starts without them while the provider
 * is unavailable. @throws Error if the URL is not the URL of a key set
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
    if (error instanceof NotAKeySet)
      throw new Error(`JWKS_URL is not the URL of a key set: ${error.message}`, { cause: error });
    logger.warn(
      { reason: causeChain(error as Error) },
      'the keys of the identity provider cannot be fetched yet',
    );
  }
  return keys;
}

/**
 * Verifies tokens with the keys of the identity provider, or else with the service's own key; creates that key if it
 * does not exist, then `isNewKey`.
 */
export function createVerifier(
  { keyFile, issuer, audience }: Config,
  providerKeys: ProviderKeys | undefined,
  now: () => Date,
): { verifyToken: VerifyToken; isNewKey: boolean } {
  const options = { issuer, audience, now };
  if (providerKeys) {
    const verifyToken = tokenVerifier({ key: providerKeys, algorithms: PROVIDER_ALGORITHMS, ...options });
    return { verifyToken, isNewKey: false };
  }
  const { publicKey: key, isNew: isNewKey } = loadOrCreateKey(keyFile);
  return { verifyToken: tokenVerifier({ key, algorithms: ['EdDSA'], ...options }), isNewKey };
}

/** The scope that erasures require. */
export const ERASE_SCOPE = 'erase';
/** The scopes of the routes for auditors. A token with `monitor` alone reads the tree only, which has no content. */
export const AUDIT_SCOPE = 'audit';
export const MONITOR_SCOPE = 'monitor';
export const SCOPES = [AUDIT_SCOPE, ERASE_SCOPE, MONITOR_SCOPE];

/** Issues a token for a user, signed with the service's own key. Creates the key if it does not exist, then `isNewKey`. */
export async function issueOwnToken(
  subject: string,
  claims: { lifetime: string; scope: string | undefined },
  { keyFile, issuer, audience }: Config,
): Promise<{ token: string; isNewKey: boolean }> {
  const { privateKey, isNew: isNewKey } = loadOrCreateKey(keyFile);
  return { token: await issueToken(privateKey, { subject, ...claims, issuer, audience }), isNewKey };
}

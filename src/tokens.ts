import {
  issueToken,
  PROVIDER_ALGORITHMS,
  providerKeys,
  tokenVerifier,
  type VerifyToken,
} from '@event-sourced/http/tokens';
import { loadOrCreateKey } from '@event-sourced/transparency-log/files';
import type { Config } from './config.ts';

/** Verifies tokens by the keys of the identity provider, or by the service's own key, which it creates. */
export function createVerifier({ jwksUrl, keyFile, issuer, audience }: Config, now: () => Date): VerifyToken {
  const key = jwksUrl ? providerKeys(jwksUrl) : loadOrCreateKey(keyFile).publicKey;
  const algorithms = jwksUrl ? PROVIDER_ALGORITHMS : ['EdDSA'];
  return tokenVerifier({ key, algorithms, issuer, audience, now });
}

/** A token for a user, signed with the service's own key, which is created if it does not exist. */
export function issueOwnToken(
  subject: string,
  claims: { lifetime: string; scope: string | undefined },
  { keyFile, issuer, audience }: Config,
): Promise<string> {
  return issueToken(loadOrCreateKey(keyFile).privateKey, { subject, ...claims, issuer, audience });
}

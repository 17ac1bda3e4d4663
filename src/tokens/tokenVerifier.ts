import type { KeyObject } from 'node:crypto';
import { createRemoteJWKSet, errors, type JWTVerifyGetKey, type JWTVerifyOptions, jwtVerify } from 'jose';
import { LRUCache } from 'lru-cache';
import { sleep } from '../sleep.ts';
import { isUser } from '../user.ts';

/** The token is not to be trusted. The message is for the client and holds nothing of the token. */
export class InvalidToken extends Error {
  override readonly name = 'InvalidToken';
}

/** The identity provider's keys cannot be had, so nothing can be said about the token. */
export class IdentityProviderUnavailable extends Error {
  override readonly name = 'IdentityProviderUnavailable';
}

/** Whom a token speaks for, and what it allows (`scope`, RFC 9068 section 2.2.3); to be asked again after `until` (ms). */
export type Identity = Readonly<{ user: string; scopes: readonly string[]; until: number }>;

/** Says what a token is worth now. @throws InvalidToken, IdentityProviderUnavailable */
export type VerifyToken = (token: string) => Identity | Promise<Identity>;

type Trust = {
  /** The one public key, or a way to find the key a token names. */
  key: KeyObject | JWTVerifyGetKey;
  algorithms: string[];
  issuer?: string | undefined;
  audience?: string | undefined;
  now: () => Date;
};

/** How long a verified token is believed without its signature, in milliseconds: a withdrawn key dies with it. */
const REMEMBERED_FOR = 10 * 60 * 1000;
const REMEMBERED = 20_000;

/** Signature algorithms of an identity provider: asymmetric ones only. */
export const PROVIDER_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

/** The least time between two fetches of keys, in milliseconds, however many tokens name keys that nobody knows. */
const COOLDOWN = 1_000;

/**
 * The keys of an identity provider (JWKS, RFC 7517), fetched when needed and again when a token names a new one. A
 * token that does so right after a fetch waits for the next one.
 */
export function providerKeys(url: URL): JWTVerifyGetKey {
  const keys = createRemoteJWKSet(url, {
    cacheMaxAge: 60_000,
    cooldownDuration: COOLDOWN,
    timeoutDuration: 5_000,
  });
  let nextFetch: Promise<void> | undefined;
  const fetchAgain = (): Promise<void> => {
    nextFetch ??= sleep(COOLDOWN)
      .then(() => keys.reload())
      .finally(() => {
        nextFetch = undefined;
      });
    return nextFetch;
  };
  return async (header, token) => {
    const { coolingDown } = keys;
    try {
      return await keys(header, token);
    } catch (error) {
      if (!coolingDown || !(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await fetchAgain();
      return keys(header, token);
    }
  };
}

/** Checks JWTs (RFC 7519, RFC 8725): pinned algorithms, `sub` and `exp` required. */
export function tokenVerifier({ key, algorithms, issuer, audience, now }: Trust): VerifyToken {
  const verified = new LRUCache<string, Identity>({ max: REMEMBERED });

  async function verify(token: string): Promise<Identity> {
    const options: JWTVerifyOptions = { algorithms, requiredClaims: ['sub', 'exp'], currentDate: now() };
    if (issuer !== undefined) options.issuer = issuer;
    if (audience !== undefined) options.audience = audience;
    const getKey = typeof key === 'function' ? key : async () => key;
    const { sub, exp, scope } = await jwtVerify(token, getKey, options).then(
      ({ payload }) => payload,
      refuse,
    );
    if (!isUser(sub)) throw new InvalidToken('The token speaks for no valid user.');
    const until = Math.min((exp as number) * 1000, now().getTime() + REMEMBERED_FOR);
    const identity = { user: sub, scopes: typeof scope === 'string' ? scope.split(' ') : [], until };
    verified.set(token, identity);
    return identity;
  }

  return (token) => {
    const known = verified.get(token);
    return known && now().getTime() < known.until ? known : verify(token);
  };
}

/** Errors that say something about the token. Any other was met on the way to the keys. */
const ABOUT_THE_TOKEN = new Set([
  errors.JWTInvalid.code,
  errors.JWTClaimValidationFailed.code,
  errors.JWSInvalid.code,
  errors.JWSSignatureVerificationFailed.code,
  errors.JOSEAlgNotAllowed.code,
  errors.JOSENotSupported.code,
  errors.JWKSNoMatchingKey.code,
  errors.JWKSMultipleMatchingKeys.code,
]);

function refuse(error: unknown): never {
  if (error instanceof errors.JWTExpired) throw new InvalidToken('The token has expired.');
  if (error instanceof errors.JOSEError && ABOUT_THE_TOKEN.has(error.code)) {
    throw new InvalidToken('The token is not valid.');
  }
  throw new IdentityProviderUnavailable('the keys of the identity provider cannot be had', { cause: error });
}

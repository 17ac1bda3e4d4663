import type { KeyObject } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
} from 'jose';
import { LRUCache } from 'lru-cache';

/** The token is not valid. The message is for the client, `reason` for the operator. Neither quotes the token. */
export class InvalidToken extends Error {
  override readonly name: string = 'InvalidToken';
  readonly reason: string;
  constructor(message: string, reason = message) {
    super(message);
    this.reason = reason;
  }
}

export class ExpiredToken extends InvalidToken {
  override readonly name = 'ExpiredToken';
  constructor() {
    super('The token has expired.');
  }
}

/** The URL of the keys permanently returns something that is not a key set: the URL must be changed. */
export class NotAKeySet extends Error {
  override readonly name = 'NotAKeySet';
}

/** The keys of the identity provider could not be fetched, so the token cannot be verified. */
export class IdentityProviderUnavailable extends Error {
  override readonly name = 'IdentityProviderUnavailable';
}

/** `scopes` as in RFC 9068 section 2.2.3. After `verifyAgainAt`, in ms since 1970, the claims may have changed. */
export type Claims = Readonly<{ subject: string; scopes: readonly string[]; verifyAgainAt: number }>;

/** @throws InvalidToken, IdentityProviderUnavailable */
export type VerifyToken = (token: string) => Claims | Promise<Claims>;

type Options = {
  key: KeyObject | JWTVerifyGetKey;
  algorithms: string[];
  issuer?: string | undefined;
  audience?: string | undefined;
  now: () => Date;
};

const INVALID = 'The token is not valid.';
const MALFORMED = 'it is malformed';
/** By the codes of jose, whose messages may quote the token. */
const REASONS: Record<string, string> = {
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'its signature does not match the key',
  ERR_JWKS_NO_MATCHING_KEY: 'the identity provider has no key for it',
  ERR_JOSE_ALG_NOT_ALLOWED: 'its algorithm is not accepted',
};

/** The maximum time for which tokens of a withdrawn key are still accepted. */
const CACHE_TTL_MS = 10 * 60 * 1000;
/** Bounds the memory of verified tokens: the least recently used are evicted. */
const CACHE_BYTES = 16 * 1024 * 1024;
const cachedBytes = ({ scopes }: Claims, token: string): number =>
  2 * token.length + 40 * scopes.length + 400;

/** The signature algorithms of an identity provider: only asymmetric algorithms. */
export const PROVIDER_ALGORITHMS =
  'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

const KEY_SET_TTL_MS = 60_000;
/** Applies even if many tokens name unknown keys. */
const FETCH_INTERVAL_MS = 1_000;
const FETCH_TIMEOUT_MS = 5_000;
/** The clock of an identity provider may be ahead by this time, for `nbf`. */
const CLOCK_SKEW_S = 30;
/** The 4xx statuses of a temporary failure. */
const RETRIED_STATUSES = [408, 425, 429];
const MAX_KEY_SET_BYTES = 1024 * 1024;

/**
 * The `typ` of a JWT (RFC 7519 section 5.1) or an access token (RFC 9068 section 2.1), with or without the prefix that
 * RFC 7515 section 4.1.9 makes optional. Tokens for other purposes have a different `typ`.
 */
const TOKEN_TYPE = /^(application\/)?(at\+)?jwt$/i;

/** Finds the key of a token. `reload` fetches the keys. @throws NotAKeySet, Error */
export type ProviderKeys = JWTVerifyGetKey & { reload(): Promise<void> };

/** The keys of an identity provider (JWKS, RFC 7517), fetched on demand and when a key is unknown. */
export function providerKeys(url: URL): ProviderKeys {
  const keys = createRemoteJWKSet(url, {
    cacheMaxAge: KEY_SET_TTL_MS,
    cooldownDuration: FETCH_INTERVAL_MS,
    timeoutDuration: FETCH_TIMEOUT_MS,
    [customFetch]: fetchKeySet,
  });
  let nextFetch: Promise<void> | undefined;
  const fetchAgain = (): Promise<void> => {
    nextFetch ??= setTimeout(FETCH_INTERVAL_MS)
      .then(() => keys.reload())
      .finally(() => {
        nextFetch = undefined;
      });
    return nextFetch;
  };
  const getKey: JWTVerifyGetKey = async (header, token) => {
    const { coolingDown } = keys;
    try {
      return await keys(header, token);
    } catch (error) {
      if (!coolingDown || !(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await fetchAgain();
      return keys(header, token);
    }
  };
  return Object.assign(getKey, { reload: keys.reload });
}

async function fetchKeySet(url: string, options: RequestInit): Promise<Response> {
  const response = await fetch(url, options);
  const { status } = response;
  if (status !== 200) {
    const message = `it responds with status ${status}${status >= 300 && status < 400 ? ', a redirect' : ''}`;
    const isTemporary = status >= 500 || RETRIED_STATUSES.includes(status);
    throw isTemporary ? new Error(message) : new NotAKeySet(message);
  }
  let length = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      length += chunk.length;
      if (length > MAX_KEY_SET_BYTES) throw new NotAKeySet('it is larger than 1 MiB');
      controller.enqueue(chunk);
    },
  });
  const body = await new Response(response.body?.pipeThrough(limit)).text();
  if (!isKeySet(body)) throw new NotAKeySet('it returns no JSON object with an array "keys" of objects');
  return new Response(body);
}

function isKeySet(text: string): boolean {
  try {
    const keys: unknown = JSON.parse(text)?.keys;
    return Array.isArray(keys) && keys.every((key) => key instanceof Object);
  } catch {
    return false;
  }
}

/** Verifies JWTs (RFC 7519, RFC 8725) with pinned algorithms; `sub` and `exp` are required. */
export function tokenVerifier({ key, algorithms, issuer, audience, now }: Options): VerifyToken {
  const cache = new LRUCache<string, Claims>({ maxSize: CACHE_BYTES, sizeCalculation: cachedBytes });
  const getKey: JWTVerifyGetKey = async (header, jws) => {
    try {
      return typeof key === 'function' ? await key(header, jws) : key;
    } catch (error) {
      if (hasNoKey(error)) throw error;
      throw new IdentityProviderUnavailable('the keys of the identity provider could not be fetched', {
        cause: error,
      });
    }
  };

  async function verify(token: string): Promise<Claims> {
    if (!isCanonical(token)) throw new InvalidToken(INVALID, MALFORMED);
    const currentDate = now();
    const checks: JWTVerifyOptions = {
      algorithms,
      requiredClaims: ['sub', 'exp'],
      currentDate,
      clockTolerance: CLOCK_SKEW_S,
    };
    if (issuer !== undefined) checks.issuer = issuer;
    if (audience !== undefined) checks.audience = audience;
    const verified = await jwtVerify(token, getKey, checks)
      .catch((error) => tryEachKey(error, (key) => jwtVerify(token, key, checks)))
      .catch((error) => rethrow(error, { iss: issuer, aud: audience }));
    const { payload, protectedHeader } = verified;
    const { sub, exp, scope } = payload;
    if ((exp as number) * 1000 <= currentDate.getTime()) throw new ExpiredToken(); // the tolerance is for nbf
    if (typeof sub !== 'string') throw new InvalidToken(INVALID, '"sub" is not a string');
    if (!isTokenType(protectedHeader.typ))
      throw new InvalidToken(INVALID, '"typ" is wrong; expected "JWT" or "at+jwt"');
    const verifyAgainAt = Math.min((exp as number) * 1000, now().getTime() + CACHE_TTL_MS);
    const claims = { subject: sub, scopes: typeof scope === 'string' ? scope.split(' ') : [], verifyAgainAt };
    cache.set(token, claims);
    return claims;
  }

  return (token) => {
    const cached = cache.get(token);
    return cached && now().getTime() < cached.verifyAgainAt ? cached : verify(token);
  };
}

/**
 * Whether each part is canonical base64url (RFC 7515 section 2, RFC 4648 section 3.5): without padding, white space and
 * spare bits. jose also decodes other spellings, so the same token would have any number of valid texts.
 */
const isCanonical = (token: string): boolean =>
  token.split('.').every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);

const isTokenType = (typ: unknown): boolean =>
  typ === undefined || (typeof typ === 'string' && TOKEN_TYPE.test(typ));

/** A token without `kid` may be signed with any key for its algorithm. @throws the error if no key verifies it */
async function tryEachKey<T>(error: unknown, verify: (key: CryptoKey) => Promise<T>): Promise<T> {
  if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
  for await (const key of error) {
    try {
      return await verify(key);
    } catch (failure) {
      // A key that is too short, or malformed, is a TypeError.
      const concernsToken = failure instanceof errors.JOSEError;
      if (concernsToken && !(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure;
    }
  }
  throw error;
}

const hasNoKey = (error: unknown): boolean =>
  error instanceof errors.JWKSNoMatchingKey ||
  error instanceof errors.JWKSMultipleMatchingKeys ||
  error instanceof errors.JOSENotSupported;

type Expected = Record<string, string | undefined>;

function rethrow(error: unknown, expected: Expected): never {
  if (error instanceof errors.JWTExpired) throw new ExpiredToken();
  // A TypeError of jose means that the key does not fit the algorithm. No cause, since it could quote the token.
  if (error instanceof errors.JOSEError || error instanceof TypeError)
    throw new InvalidToken(INVALID, reasonOf(error, expected));
  throw error;
}

/** One of a few texts, which name the claim and its expected value. */
function reasonOf(error: InstanceType<typeof errors.JOSEError> | TypeError, expected: Expected): string {
  if (error instanceof TypeError) return 'its key does not fit its algorithm';
  if (!(error instanceof errors.JWTClaimValidationFailed)) return REASONS[error.code] ?? MALFORMED;
  const value = expected[error.claim];
  const claim = `"${error.claim}" is ${error.reason === 'missing' ? 'missing' : 'wrong'}`;
  return value === undefined ? claim : `${claim}; expected ${JSON.stringify(value)}`;
}

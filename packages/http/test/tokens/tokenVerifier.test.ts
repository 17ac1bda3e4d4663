import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { jwt, signedJwt } from '@event-sourced/testing/jwt';
import { describe, expect, test, vi } from 'vitest';
import { ExpiredToken, InvalidToken, tokenVerifier } from '../../src/tokens/tokenVerifier.ts';

const NOON = Date.parse('2026-03-01T12:00:00Z');
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const issuer = 'https://id.example';
const audience = 'https://plants.example';
const claims = { sub: 'alice', iss: issuer, aud: audience, exp: NOON / SECOND + 3600 };

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const other = generateKeyPairSync('ed25519');

/** A verifier with a settable clock and a counter of key lookups. */
function verifier() {
  const clock = { now: NOON };
  const key = vi.fn(async () => publicKey);
  const now = () => new Date(clock.now);
  const verify = tokenVerifier({ key, algorithms: ['EdDSA'], issuer, audience, now });
  return { clock, key, identify: verify, verify: async (token: string) => (await verify(token)).subject };
}

const hmac = (secret: string | Buffer, own: object = claims) =>
  jwt({ alg: 'HS256' }, own, (input) => createHmac('sha256', secret).update(input).digest());
const without = (claim: keyof typeof claims) => ({ ...claims, [claim]: undefined });
const signed = (changed: object = {}) => signedJwt(privateKey, { ...claims, ...changed });
const [header, payload, signature] = signed().split('.') as [string, string, string];

test.each([
  ['garbage', 'it is malformed', 'garbage'],
  ['a token without its signature', 'its signature does not match the key', `${header}.${payload}.`],
  [
    'a token whose claims were changed',
    'its signature does not match the key',
    `${header}.${signed({ sub: 'bob' }).split('.')[1]}.${signature}`,
  ],
  ['claims that are not an object', 'it is malformed', signedJwt(privateKey, ['alice'])],
  [
    'the signature of another key',
    'its signature does not match the key',
    signedJwt(other.privateKey, claims),
  ],
  ['alg none', 'its algorithm is not accepted', jwt({ alg: 'none' }, claims, () => Buffer.alloc(0))],
  [
    'an HMAC with the public key as PEM',
    'its algorithm is not accepted',
    hmac(publicKey.export({ type: 'spki', format: 'pem' })),
  ],
  [
    'an HMAC with the bytes of the public key',
    'its algorithm is not accepted',
    hmac(Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url')),
  ],
  ['an unknown critical header', 'it is malformed', signedJwt(privateKey, claims, { crit: ['x'], x: 1 })],
  [
    'the typ of a logout token',
    '"typ" is wrong; expected "JWT" or "at+jwt"',
    signedJwt(privateKey, claims, { typ: 'logout+jwt' }),
  ],
  ['an empty typ', '"typ" is wrong; expected "JWT" or "at+jwt"', signedJwt(privateKey, claims, { typ: '' })],
  [
    'a typ that is a list',
    '"typ" is wrong; expected "JWT" or "at+jwt"',
    signedJwt(privateKey, claims, { typ: ['JWT'] }),
  ],
  ['another issuer', `"iss" is wrong; expected "${issuer}"`, signed({ iss: 'https://evil.example' })],
  ['no issuer', `"iss" is missing; expected "${issuer}"`, signedJwt(privateKey, without('iss'))],
  ['another audience', `"aud" is wrong; expected "${audience}"`, signed({ aud: 'https://shop.example' })],
  ['no audience', `"aud" is missing; expected "${audience}"`, signedJwt(privateKey, without('aud'))],
  ['no expiry', '"exp" is missing', signedJwt(privateKey, without('exp'))],
  ['an expiry that is not a number', '"exp" is wrong', signed({ exp: '2030-01-01' })],
  ['an nbf further ahead than clocks differ', '"nbf" is wrong', signed({ nbf: NOON / SECOND + 31 })],
  ['no subject', '"sub" is missing', signedJwt(privateKey, without('sub'))],
  ['a subject that is a number', '"sub" is not a string', signed({ sub: 42 })],
])('%s is rejected; for the operator, %s', async (_what, reason, token) => {
  await expect(verifier().verify(token)).rejects.toThrow(new InvalidToken('The token is not valid.', reason));
});

test.each(['JWT', 'jwt', 'application/jwt', 'at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/At+Jwt'])(
  'a token with the typ %s is valid',
  async (typ) => {
    expect(await verifier().verify(signedJwt(privateKey, claims, { typ }))).toBe('alice');
  },
);

test('a token signed with an RSA key of less than 2048 bits is rejected', async () => {
  const rsa = (modulusLength: number) => generateKeyPairSync('rsa', { modulusLength });
  const subjectOf = async ({ privateKey, publicKey }: ReturnType<typeof rsa>) => {
    const verify = tokenVerifier({ key: publicKey, algorithms: ['RS256'], now: () => new Date(NOON) });
    return (await verify(jwt({ alg: 'RS256' }, claims, (input) => sign('sha256', input, privateKey))))
      .subject;
  };
  expect(await subjectOf(rsa(2048))).toBe('alice');
  await expect(subjectOf(rsa(1024))).rejects.toThrow(
    new InvalidToken('The token is not valid.', 'its key does not fit its algorithm'),
  );
});

test.each([
  ['in this second', 0],
  ['an hour ago', -3600],
])('a token that expired %s is rejected as expired', async (_when, seconds) => {
  await expect(verifier().verify(signed({ exp: NOON / SECOND + seconds }))).rejects.toThrow(
    new ExpiredToken(),
  );
});

test('one of several audiences is enough', async () => {
  expect(await verifier().verify(signed({ aud: ['https://shop.example', audience] }))).toBe('alice');
});

test('without a configured issuer and audience, tokens need none', async () => {
  const verify = tokenVerifier({ key: publicKey, algorithms: ['EdDSA'], now: () => new Date(NOON) });
  expect((await verify(signedJwt(privateKey, { sub: 'alice', exp: claims.exp }))).subject).toBe('alice');
});

// The last character of a 64-byte signature has four spare bits; this signature has both special characters.
const token = Array.from({ length: 1_000 }, (_, n) => signed({ n })).find(
  (one) => one.includes('-') && one.includes('_'),
) as string;
const parts = token.split('.');
const spare = (part: string): string | undefined => {
  const bytes = Buffer.from(part, 'base64url');
  const others = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
    .map((last) => part.slice(0, -1) + last)
    .filter((other) => other !== part && Buffer.from(other, 'base64url').equals(bytes));
  return others[0];
};

test.each([
  ['with a space', (part: string) => `${part.slice(0, 4)} ${part.slice(4)}`],
  ['with a line break', (part: string) => `\n${part}`],
  ['with padding', (part: string) => `${part}=`],
  ['in base64', (part: string) => part.replaceAll('-', '+').replaceAll('_', '/')],
  ['with other spare bits', (part: string) => spare(part) ?? part],
  ['with a character that base64url does not have', (part: string) => `${part}!`],
])('a token spelt in another way %s is rejected, in each part', async (_what, respell) => {
  const { verify } = verifier();
  const spellings = parts
    .map((part, i) => parts.with(i, respell(part)).join('.'))
    .filter((spelling) => spelling !== token);
  expect(spellings).not.toEqual([]);
  for (const spelling of spellings)
    await expect(verify(spelling)).rejects.toThrow(
      new InvalidToken('The token is not valid.', 'it is malformed'),
    );
  expect(await verify(token)).toBe('alice');
});

describe('the result', () => {
  test.each([
    ['audit', ['audit']],
    ['read audit write', ['read', 'audit', 'write']],
    ['audit,write', ['audit,write']],
    [undefined, []],
    [['audit'], []],
  ])('for the claim scope %j has the scopes %j', async (scope, scopes) => {
    for (const subject of ['alice', 'bob'])
      expect(await verifier().identify(signed({ sub: subject, scope }))).toMatchObject({ subject, scopes });
  });

  test('is that of its own token, even if another has the same user', async () => {
    const { identify } = verifier();
    const tokens = [signed({ scope: 'audit' }), signed(), signed({ sub: 'bob', scope: 'read' })];
    for (const _ of ['verified', 'cached'])
      expect(await Promise.all(tokens.map(identify))).toMatchObject([
        { subject: 'alice', scopes: ['audit'] },
        { subject: 'alice', scopes: [] },
        { subject: 'bob', scopes: ['read'] },
      ]);
  });

  test('must be verified again at the expiry of its token', async () => {
    const until = NOON + 5 * MINUTE;
    for (const end of [until, until + 500])
      expect((await verifier().identify(signed({ exp: end / SECOND }))).verifyAgainAt).toBe(end);
  });
});

describe('a verified token', () => {
  test('is cached for ten minutes, and not longer when it is used', async () => {
    const { clock, key, verify } = verifier();
    const token = signed();
    for (const ms of [0, 5 * MINUTE, 10 * MINUTE - 1]) {
      clock.now = NOON + ms;
      expect(await verify(token)).toBe('alice');
    }
    expect(key).toHaveBeenCalledTimes(1);
    clock.now = NOON + 10 * MINUTE;
    expect(await verify(token)).toBe('alice');
    expect(key).toHaveBeenCalledTimes(2);
  });

  test('is not cached after its expiry', async () => {
    const { clock, key, verify } = verifier();
    const token = signed({ exp: (NOON + 5 * MINUTE) / SECOND });
    await verify(token);
    clock.now = NOON + 5 * MINUTE - 1;
    expect(await verify(token)).toBe('alice');
    expect(key).toHaveBeenCalledTimes(1);
    clock.now = NOON + 5 * MINUTE;
    await expect(verify(token)).rejects.toThrow('The token has expired.');
  });
});

test('a provider whose clock is 30 seconds ahead is trusted, but no token is valid after its expiry', async () => {
  expect(await verifier().verify(signed({ nbf: NOON / SECOND + 30, iat: NOON / SECOND + 30 }))).toBe('alice');
  await expect(verifier().verify(signed({ exp: NOON / SECOND }))).rejects.toThrow('The token has expired.');
});

test('a rejected token is verified again', async () => {
  const { clock, verify } = verifier();
  const token = signed({ nbf: (NOON + MINUTE) / SECOND });
  await expect(verify(token)).rejects.toThrow(InvalidToken);
  clock.now = NOON + MINUTE;
  expect(await verify(token)).toBe('alice');
});

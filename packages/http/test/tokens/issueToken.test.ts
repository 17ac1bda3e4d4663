import { generateKeyPairSync } from 'node:crypto';
import { jwtVerify } from 'jose';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { issueToken } from '../../src/tokens/issueToken.ts';

const NOON = Date.parse('2026-03-01T12:00:00Z') / 1000;
const DAY = 24 * 60 * 60;
const { privateKey, publicKey } = generateKeyPairSync('ed25519');

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: NOON * 1000 }));
afterEach(() => void vi.useRealTimers());

async function claimsOf(grant: Partial<Parameters<typeof issueToken>[1]>) {
  const token = await issueToken(privateKey, { subject: 'alice', lifetime: '30d', ...grant });
  return (await jwtVerify(token, publicKey, { algorithms: ['EdDSA'] })).payload;
}

test('a token has only a subject, a time of issue and an expiry by default', async () => {
  expect(await claimsOf({})).toEqual({ sub: 'alice', iat: NOON, exp: NOON + 30 * DAY });
});

test('a token has the given scope, issuer and audience', async () => {
  const grant = { scope: 'plants:read plants:write', issuer: 'https://id.example', audience: 'plants' };
  expect(await claimsOf({ ...grant, subject: 'bob' })).toEqual({
    sub: 'bob',
    scope: 'plants:read plants:write',
    iss: 'https://id.example',
    aud: 'plants',
    iat: NOON,
    exp: NOON + 30 * DAY,
  });
});

test.each([
  ['90s', 90],
  ['15m', 15 * 60],
  ['12h', 12 * 60 * 60],
  ['30d', 30 * DAY],
  ['8w', 8 * 7 * DAY],
  ['1y', 365.25 * DAY],
])('the lifetime %s is accepted', async (lifetime, seconds) => {
  expect((await claimsOf({ lifetime })).exp).toBe(NOON + seconds);
});

test.each(['', 'd', '30', '0d', '-1d', '+1d', '1.5h', '030d', '30D', '30 d', '30 days', '1000000s', '1h\n'])(
  'the lifetime %j is rejected',
  async (lifetime) => {
    await expect(claimsOf({ lifetime })).rejects.toThrow(
      'the lifetime must be a number and a unit, such as 30d',
    );
  },
);

test.each(['', ' ', ' read', 'read ', 'read  write', 'read\twrite', 'read\n', '"read"', 'a\\b', 'lesen-ö'])(
  'the scope %j is rejected',
  async (scope) => {
    await expect(claimsOf({ scope })).rejects.toThrow('the scope must be names, separated by spaces');
  },
);

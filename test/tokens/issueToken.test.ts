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
  const token = await issueToken(privateKey, { user: 'alice', expires: '30d', ...grant });
  return (await jwtVerify(token, publicKey, { algorithms: ['EdDSA'] })).payload;
}

test('a token says whom it speaks for and for how long, and nothing else', async () => {
  expect(await claimsOf({})).toEqual({ sub: 'alice', iat: NOON, exp: NOON + 30 * DAY });
});

test('a token carries the scope, the issuer and the audience that were given', async () => {
  const grant = { scope: 'plants:read plants:write', issuer: 'https://id.example', audience: 'plants' };
  expect(await claimsOf({ ...grant, user: 'bob' })).toEqual({
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
])('%s is how long a token lasts', async (expires, seconds) => {
  expect((await claimsOf({ expires })).exp).toBe(NOON + seconds);
});

test.each(['🪴', '-', '/', '%', ' ', 'a'.repeat(255)])('%j may be a user', async (user) => {
  expect((await claimsOf({ user })).sub).toBe(user);
});

test.each(['', 'a'.repeat(256), 'alice\ud83e', 'alice\n', '\0'])('%j is no user', async (user) => {
  await expect(claimsOf({ user })).rejects.toThrow('a user has 1 to 255 characters');
});

test.each(['', 'd', '30', '0d', '-1d', '+1d', '1.5h', '030d', '30D', '30 d', '30 days', '1000000s', '1h\n'])(
  '%j is no time that a token can last',
  async (expires) => {
    await expect(claimsOf({ expires })).rejects.toThrow('--expires takes a number and a unit, such as 30d');
  },
);

test.each(['', ' ', ' read', 'read ', 'read  write', 'read\twrite', 'read\n', '"read"', 'a\\b', 'lesen-ö'])(
  '%j is no scope',
  async (scope) => {
    await expect(claimsOf({ scope })).rejects.toThrow('--scope takes names separated by a space');
  },
);

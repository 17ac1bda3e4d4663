import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';
import { expectRefused, typed } from './typed.ts';

const token = (args: string[], env: Record<string, string> = {}) => typed(['token', ...args], env);

const DAY = 24 * 60 * 60;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] }); // which stands: a token is issued and expires by two looks at it
  onTestFinished(() => void vi.useRealTimers());
});

describe('npm run -s token', () => {
  test('-- alice prints a token of alice and nothing else', async () => {
    const { code, stdout, stderr } = await token(['alice']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const { sub, iat = 0, exp = 0, scope } = decodeJwt(stdout.trim());
    expect({ sub, lifetime: exp - iat, scope }).toEqual({
      sub: 'alice',
      lifetime: 30 * DAY,
      scope: undefined,
    });
  });

  test('prints a token that the server of the same data directory takes, running or not', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const before = await token(['alice'], { DATA_DIR });
    const { url } = await startService({ DATA_DIR });
    const meanwhile = await token(['bob'], { DATA_DIR });
    for (const { stdout } of [before, meanwhile]) {
      const authorization = `Bearer ${stdout.trim()}`;
      expect((await fetch(`${url}/plants`, { headers: { authorization } })).status).toBe(200);
    }
  });

  test('makes the data directory and the key for their owner only', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    await token(['alice'], { DATA_DIR });
    expect(statSync(DATA_DIR).mode & 0o777).toBe(0o700);
    expect(statSync(join(DATA_DIR, 'key.json')).mode & 0o777).toBe(0o600);
  });

  test('--expires prints a token of that lifetime', async () => {
    const lifetimes = { '90s': 90, '15m': 15 * 60, '12h': 12 * 60 * 60, '2d': 2 * DAY, '3w': 21 * DAY };
    for (const [expires, lifetime] of Object.entries(lifetimes)) {
      const { iat = 0, exp = 0 } = decodeJwt((await token(['alice', '--expires', expires])).stdout.trim());
      expect({ expires, lifetime: exp - iat }).toEqual({ expires, lifetime });
    }
  });

  test('--scope prints a token with that scope', async () => {
    const { stdout } = await token(['alice', '--scope', 'plants:read plants:write']);
    expect(decodeJwt(stdout.trim())).toMatchObject({ sub: 'alice', scope: 'plants:read plants:write' });
  });

  test('names the issuer and the audience that the server wants', async () => {
    const { stdout } = await token(['alice'], { JWT_ISSUER: 'us', JWT_AUDIENCE: 'plants' });
    expect(decodeJwt(stdout.trim())).toMatchObject({ iss: 'us', aud: 'plants' });
  });

  test('takes a user of any spelling', async () => {
    for (const user of ['Zoë 🌱', 'a/b-c', '--', "O'Neill"])
      expect(decodeJwt((await token(['--', user])).stdout.trim()).sub).toBe(user);
  });
});

describe('npm run -s token refuses in one line, printing no token,', () => {
  test.for([
    ['an unknown option', ['alice', '--admin']],
    ['an option without its value', ['alice', '--expires']],
    ['a lifetime without a unit', ['alice', '--expires', '30']],
    ['a lifetime in words', ['alice', '--expires', 'soon']],
    ['a lifetime of nothing', ['alice', '--expires', '0d']],
    ['a negative lifetime', ['alice', '--expires=-5m']],
    ['a lifetime of nothing at all', ['alice', '--expires', '']],
    ['a scope that is no list of names', ['alice', '--scope', 'a"b']],
    ['an empty scope', ['alice', '--scope', '']],
    ['no user', []],
    ['an empty user', ['']],
    ['two users', ['alice', 'bob']],
    ['a user with a control character', ['ali\nce']],
    ['a user that is too long', ['a'.repeat(256)]],
  ] as const)('%s', async ([, args]) => {
    expectRefused(await token([...args]), /./);
  });

  test('a user where tokens come from an identity provider', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const refused = await token(['alice'], {
      DATA_DIR,
      JWKS_URL: 'https://id.example/keys',
      JWT_ISSUER: 'https://id.example',
      JWT_AUDIENCE: 'plants',
    });
    expectRefused(refused, /JWKS_URL/);
    expect(existsSync(DATA_DIR)).toBe(false);
  });
});

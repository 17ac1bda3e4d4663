import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@event-sourced/testing/tempDir';
import { decodeJwt } from 'jose';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { expectRefused, runCli, succeeded } from '../support/cli.ts';
import { startService } from '../support/service.ts';

const token = (args: string[], env: Record<string, string> = {}) => runCli(['token', ...args], env);

const FAILED = 'issued tokens cannot be logged until a restart';
const DAY = 24 * 60 * 60;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] }); // fixed time: the clock is read twice to issue a token
  onTestFinished(() => void vi.useRealTimers());
});

describe('token', () => {
  test('-- alice prints a token of alice, and on standard error whether it has created a key', async () => {
    const DATA_DIR = tempDir();
    const created = await token(['alice'], { DATA_DIR });
    expect(created).toMatchObject({ code: 0, stderr: `created the key ${DATA_DIR}/key.json\n` });
    const stdout = succeeded(await token(['alice'], { DATA_DIR }));
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const { sub, iat = 0, exp, scope } = decodeJwt(stdout.trim());
    expect({ sub, exp, scope }).toEqual({ sub: 'alice', exp: iat + 30 * DAY, scope: undefined });
  });

  test('prints a token that the server of the same data directory accepts, running or not', async () => {
    const DATA_DIR = join(tempDir(), 'data');
    const before = await token(['alice'], { DATA_DIR });
    expect(statSync(DATA_DIR).mode & 0o777).toBe(0o700);
    const { url } = await startService({ DATA_DIR });
    const meanwhile = await token(['bob'], { DATA_DIR });
    for (const { stdout } of [before, meanwhile]) {
      const authorization = `Bearer ${stdout.trim()}`;
      expect((await fetch(`${url}/plants`, { headers: { authorization } })).status).toBe(200);
    }
  });

  test('leaves a line in the log of the service, which may be stopped, and no file', async () => {
    const DATA_DIR = tempDir();
    const issued = async (service: Awaited<ReturnType<typeof startService>>) => {
      await expect.poll(() => readdirSync(join(DATA_DIR, 'issued'))).toEqual([]);
      return service
        .log()
        .filter(({ msg }) => msg === 'token issued')
        .map(({ user, scope, issuedAt, expiresAt }) => [
          user,
          scope,
          Date.parse(expiresAt) - Date.parse(issuedAt),
        ]);
    };
    const stopped = await token(['alice', '--expires', '15m', '--scope', 'erase'], { DATA_DIR });
    const file = join(DATA_DIR, 'issued', readdirSync(join(DATA_DIR, 'issued'))[0] ?? '');
    expect(statSync(file).mode & 0o077).toBe(0);
    expect(readFileSync(file, 'utf8')).not.toContain(stopped.stdout.trim().split('.')[2]);
    const first = await startService({ DATA_DIR });
    expect(await issued(first)).toEqual([['alice', 'erase', 15 * 60_000]]);
    await token(['bob'], { DATA_DIR });
    expect(await issued(first)).toEqual([
      ['alice', 'erase', 15 * 60_000],
      ['bob', undefined, DAY * 30_000],
    ]);
    await first.close();
    const second = await startService({ DATA_DIR });
    await token(['carol'], { DATA_DIR });
    expect(await issued(second)).toEqual([['carol', undefined, DAY * 30_000]]);
  });

  test('is not printed if it cannot be recorded for the service', async () => {
    const DATA_DIR = tempDir();
    writeFileSync(join(DATA_DIR, 'issued'), '');
    expectRefused(await token(['alice'], { DATA_DIR }), /issued/);
  });

  test('of a file that cannot be read is one line, and the service goes on', async () => {
    const DATA_DIR = tempDir();
    await token(['alice'], { DATA_DIR });
    writeFileSync(join(DATA_DIR, 'issued', 'x.json'), '{');
    const service = await startService({ DATA_DIR });
    const failed = () => service.log().filter(({ msg }) => msg === FAILED);
    await expect.poll(failed).toHaveLength(1);
    expect((await service.as('alice').get()).status).toBe(200);
    await service.close();
    expect(failed()).toHaveLength(1);
  });

  test('has the lifetime and scope of its options, and the issuer and audience that the server requires', async () => {
    const env = { JWT_ISSUER: 'us', JWT_AUDIENCE: 'plants' };
    const { stdout } = await token(['alice', '--expires', '15m', '--scope', 'audit'], env);
    const { iat = 0, ...claims } = decodeJwt(stdout.trim());
    expect(claims).toEqual({
      sub: 'alice',
      scope: 'audit',
      iss: 'us',
      aud: 'plants',
      exp: iat + 15 * 60,
    });
  });

  test('accepts any valid user name', async () => {
    for (const user of ['Zoë 🌱', 'a/b-c', '--', "O'Neill"])
      expect(decodeJwt((await token(['--', user])).stdout.trim()).sub).toBe(user);
  });
});

describe('token reports in one line, and prints no token, for', () => {
  test.for([
    ['an option without its value', ['alice', '--expires']],
    ['a lifetime without a unit', ['alice', '--expires', '30']],
    ['a scope that does not exist', ['alice', '--scope', 'admin']],
    ['several scopes', ['alice', '--scope', 'audit admin']],
    ['an empty scope', ['alice', '--scope', '']],
    ['an empty user', ['']],
    ['a user with a control character', ['ali\nce']],
  ] as const)('%s', async ([, args]) => {
    expectRefused(await token([...args]), /./);
  });

  test('a user if tokens are issued by an identity provider', async () => {
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

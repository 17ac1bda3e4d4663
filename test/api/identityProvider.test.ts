import { generateKeyPairSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import {
  AUDIENCE,
  type SigningKey,
  signingKey,
  startIdentityProvider,
} from '@event-sourced/testing/identityProvider';
import { listen } from '@event-sourced/testing/rawHttp';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { errors, SignJWT } from 'jose';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { issueToken } from '../../packages/http/src/tokens/issueToken.ts';
import {
  InvalidToken,
  PROVIDER_ALGORITHMS,
  providerKeys,
  tokenVerifier,
} from '../../packages/http/src/tokens/tokenVerifier.ts';
import { loadOrCreateKey } from '../../packages/node/src/files/keyFile.ts';
import { appOver } from '../support/appOver.ts';
import { startService } from '../support/service.ts';

const MINUTE = 60_000;

const firstKey = await signingKey('RS256');
const nextKey = await signingKey('ES256');

// The tests advance the date; timers and sockets keep real time.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(() => void vi.useRealTimers());
const pass = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

/** An identity provider, and the API that trusts it, without plants. */
async function start() {
  const provider = await startIdentityProvider(firstKey);
  const { issuer } = provider;
  const key = providerKeys(new URL(`${issuer}/jwks`));
  const now = () => new Date();
  const algorithms = PROVIDER_ALGORITHMS;
  const verifyToken = tokenVerifier({ key, algorithms, issuer, audience: AUDIENCE, now });
  const { url, log } = await appOver({}, { verifyToken });
  const list = (token: string): Promise<Response> =>
    fetch(`${url}/plants`, { headers: { authorization: `Bearer ${token}` } });
  return { provider, service: { list, log } };
}

/** Expects 503, since the keys of the provider could not be fetched. */
async function expectUnavailable(response: Response): Promise<void> {
  expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(response.headers.get('www-authenticate')).toBeNull();
  await refusedWith(50303, response);
}

const expectRefused = (response: Response) => refusedWith(40102, response);

test('its users create and list their own plants; the service has no key of its own, and accepts none', async () => {
  const provider = await startIdentityProvider(firstKey);
  const { issuer } = provider;
  const trust = { JWKS_URL: `${issuer}/jwks`, JWT_ISSUER: issuer, JWT_AUDIENCE: AUDIENCE };
  const { url, dir } = await startService(trust);
  const request = (token: string, init: RequestInit = {}): Promise<Response> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return fetch(`${url}/plants`, { ...init, headers });
  };
  const create = (token: string, plant: object) =>
    request(token, { method: 'POST', body: JSON.stringify(plant) });
  const alice = await provider.token('alice', AUDIENCE);
  const bob = await provider.token('bob', AUDIENCE);
  expect((await create(alice, { id: 1, name: 'Fern' })).status).toBe(200);
  expect((await create(bob, { id: 1, name: 'Oak' })).status).toBe(200);
  expect(await (await request(alice)).json()).toEqual([{ name: 'Fern' }]);
  expect(await (await request(bob)).json()).toEqual([{ name: 'Oak' }]);

  const file = join(dir, 'key.json');
  expect(existsSync(file)).toBe(false);
  const { privateKey } = loadOrCreateKey(file);
  const grant = { subject: 'alice', lifetime: '1h', issuer, audience: AUDIENCE };
  await expectRefused(await request(await issueToken(privateKey, grant)));
});

test('after a key rotation, new tokens work at once and old ones for ten minutes', async () => {
  const { provider, service } = await start();
  const old = await provider.token('alice', AUDIENCE);
  expect((await service.list(old)).status).toBe(200);

  await provider.close();
  const rotated = await startIdentityProvider(nextKey, provider.port);
  expect((await service.list(await rotated.token('alice', AUDIENCE))).status).toBe(200);
  expect((await service.list(old)).status).toBe(200);
  pass(10 * MINUTE);
  await expectRefused(await service.list(old));
});

test('the log says which claim of a token is wrong and what is expected, once a minute', async () => {
  const { provider, service } = await start();
  const wrong = await Promise.all(['plants', 'shop'].map((audience) => provider.token('alice', audience)));
  for (const token of wrong) await expectRefused(await service.list(token));
  const lines = service
    .log()
    .match(/.*token refused.*/g)
    ?.map((line) => JSON.parse(line));
  expect(lines).toMatchObject([
    { level: 40, reason: `"aud" is wrong; expected ${JSON.stringify(AUDIENCE)}` },
  ]);
  for (const token of wrong) expect(service.log()).not.toContain(token.split('.')[1]);
  await expectRefused(await service.list('garbage'));
  expect(service.log()).toContain('"reason":"it is malformed","msg":"token refused"');
});

test('a token without kid is verified with each key that its algorithm has', async () => {
  const keys = await Promise.all(['first', 'second', 'third'].map(() => signingKey('RS256')));
  const short = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey.export({ format: 'jwk' });
  const unusable = [short, { ...short, n: '!!' }, { kty: 'RSA' }];
  const published = JSON.stringify({ keys: [...unusable, ...keys.slice(0, 2).map((key) => key.public)] });
  const { port } = await listen((_request, response) => response.end(published));
  const key = providerKeys(new URL(`http://127.0.0.1:${port}`));
  const verify = tokenVerifier({ key, algorithms: PROVIDER_ALGORITHMS, now: () => new Date() });
  const token = (signer: SigningKey, claims = {}): Promise<string> =>
    new SignJWT({ sub: 'alice', exp: Date.now() / 1_000 + 60, ...claims })
      .setProtectedHeader({ alg: 'RS256' })
      .sign(signer.privateKey);
  const [first, second, third] = keys as [SigningKey, SigningKey, SigningKey];
  for (const signer of [first, second])
    expect(await verify(await token(signer))).toMatchObject({ subject: 'alice' });
  await expect(verify(await token(third))).rejects.toThrow(InvalidToken);
  await expect(verify(await token(second, { exp: 1 }))).rejects.toThrow('The token has expired.');
});

describe('the service does not start with a JWKS_URL that', () => {
  const settings = (port: number) => ({
    JWKS_URL: `http://127.0.0.1:${port}/`,
    JWT_ISSUER: 'https://login.example',
    JWT_AUDIENCE: AUDIENCE,
  });

  test.each<[string, string, RequestListener]>([
    [
      'redirects',
      'status 302, a redirect',
      (_, response) => response.writeHead(302, { location: '/' }).end(),
    ],
    ['has nothing', 'status 404', (_, response) => response.writeHead(404).end()],
    ['has no content', 'status 204', (_, response) => response.writeHead(204).end()],
    ['has keys that are no objects', 'of objects', (_, response) => response.end('{"keys":[null]}')],
    ['is too large', 'larger than 1 MiB', (_, response) => response.end(' '.repeat(2 ** 20 + 1))],
    [
      'is a discovery document',
      'no JSON object with an array "keys"',
      (_, response) => response.end('{"jwks_uri":"x"}'),
    ],
    ['is a page', 'no JSON object with an array "keys"', (_, response) => response.end('<!doctype html>')],
  ])('%s', async (_what, reason, listener) => {
    const { port } = await listen(listener);
    const dir = join(tempDir(), 'data');
    await expect(startService({ ...settings(port), DATA_DIR: dir })).rejects.toThrow(reason);
    expect(existsSync(dir)).toBe(false);
  });

  test('but starts while the provider is unavailable', async () => {
    const { port } = await listen((_, response) => response.writeHead(503).end());
    const { url } = await startService(settings(port));
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  });
});

test('a token with an unknown key is 503 while it is unavailable', async () => {
  const { provider, service } = await start();
  expect((await service.list(await provider.token('alice', AUDIENCE))).status).toBe(200);

  await provider.close();
  const rotated = await startIdentityProvider(nextKey, provider.port);
  const token = await rotated.token('alice', AUDIENCE);
  await rotated.close();
  pass(2_000);
  await expectUnavailable(await service.list(token));
  expect(service.log()).toContain('ECONNREFUSED');
  await startIdentityProvider(nextKey, provider.port);
  expect((await service.list(token)).status).toBe(200);
});

test.each<[string, RequestListener | undefined]>([
  ['rejects connections', undefined],
  ['returns 500', (_request, response) => response.writeHead(500).end('{"keys":[]}')],
  ['redirects', (_request, response) => response.writeHead(302, { location: '/login' }).end()],
  ['returns an invalid key set', (_request, response) => response.end('{"keys":"none"}')],
  ['never responds', () => {}],
])('while it %s, verified tokens are accepted and others are 503', async (_what, outage) => {
  const { provider, service } = await start();
  const known = await provider.token('alice', AUDIENCE);
  const unknown = await provider.token('bob', AUDIENCE);
  expect((await service.list(known)).status).toBe(200);

  await provider.close();
  const outageServer = outage && (await listen(outage, provider.port));
  pass(9 * MINUTE);
  const pendingResponse = service.list(unknown);
  expect((await service.list(known)).status).toBe(200);
  await expectUnavailable(await pendingResponse);
  await refusedWith(40102, await service.list('garbage'));
  expect(service.log()).not.toContain(unknown);

  await outageServer?.close();
  await startIdentityProvider(firstKey, provider.port);
  expect((await service.list(unknown)).status).toBe(200);
  expect((await service.list(known)).status).toBe(200);
});

test('a key set that is larger than 1 MiB is rejected while it arrives', async () => {
  const { provider, service } = await start();
  const token = await provider.token('alice', AUDIENCE);
  await provider.close();
  const closed = Promise.withResolvers<void>();
  await listen((_request, response) => {
    response.on('close', closed.resolve).write('{"keys":[],"x":"');
    const write = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', write);
    write();
  }, provider.port);
  await expectUnavailable(await service.list(token));
  await closed.promise; // it would never end by itself
  expect(service.log()).toContain('it is larger than 1 MiB');
});

test('its keys are fetched at most once per second, however many tokens have unknown keys', async () => {
  let fetches = 0;
  const provider = await listen((_request, response) => {
    fetches++;
    response.end('{"keys":[]}');
  });
  const keys = providerKeys(new URL(`http://127.0.0.1:${provider.port}`));
  const keyOf = (n: number) => keys({ alg: 'RS256', kid: `key-${n}` }, { payload: '', signature: '' });
  stopClock();
  await expect(keyOf(0)).rejects.toThrow(errors.JWKSNoMatchingKey);
  for (let second = 1; second <= 3; second++) {
    const lookups = Promise.allSettled(Array.from({ length: 50 }, (_, n) => keyOf(n)));
    const [outcomes, waited] = await untilSettled(lookups);
    expect(outcomes.map(({ status }) => status)).toEqual(Array(50).fill('rejected'));
    expect(waited).toBeGreaterThanOrEqual(1_000);
    expect(fetches).toBe(1 + second);
  }
});

import { AUDIENCE, signingKey } from '@event-sourced/testing/identityProvider';
import { expect, test } from 'vitest';
import { startService } from '../support/service.ts';
import { startOpenIdProvider } from './identityProvider.ts';

// packages/http/test/tokens/identityProvider.test.ts tests outages, with a fake provider.

test('users of an OpenID provider create and list their own plants, also after it has rotated its key', async () => {
  const provider = await startOpenIdProvider(await signingKey('RS256'));
  const { issuer } = provider;
  const trust = { JWKS_URL: `${issuer}/jwks`, JWT_ISSUER: issuer, JWT_AUDIENCE: AUDIENCE };
  const { url } = await startService(trust);
  const request = (token: string, init: RequestInit = {}): Promise<Response> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return fetch(`${url}/plants`, { ...init, headers });
  };
  const create = async (token: string, plant: object) =>
    expect((await request(token, { method: 'POST', body: JSON.stringify(plant) })).status).toBe(200);
  const alice = await provider.token('alice', AUDIENCE);
  await create(alice, { id: 1, name: 'Fern' });
  await create(await provider.token('bob', AUDIENCE), { id: 1, name: 'Oak' });
  expect((await request(await provider.token('alice', 'https://other.example'))).status).toBe(401);

  await provider.close();
  const rotated = await startOpenIdProvider(await signingKey('ES256'), provider.port);
  expect(await (await request(alice)).json()).toEqual([{ name: 'Fern' }]);
  const bob = await rotated.token('bob', AUDIENCE);
  expect(await (await request(bob)).json()).toEqual([{ name: 'Oak' }]);
});

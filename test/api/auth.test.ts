import { expect, test } from 'vitest';
import { appOver, claimsOf } from '../support/appOver.ts';
import { refusedWith } from '../support/refusal.ts';

test('a valid token whose subject is not a valid user is 40102', async () => {
  const { url } = await appOver({}, { verifyToken: () => claimsOf('alice\nbob', 'audit') });
  for (const path of ['/plants', '/events']) {
    const response = await fetch(`${url}${path}`, { headers: { authorization: 'Bearer token' } });
    expect(response.headers.get('www-authenticate')).toContain('error="invalid_token"');
    expect(await refusedWith(40102, response)).toBe("The token's subject is not a valid user.");
  }
});

import { join } from 'node:path';
import { signedJwt } from '@event-sourced/testing/jwt';
import { exchange, responseTo } from '@event-sourced/testing/rawHttp';
import { refusedWith } from '@event-sourced/testing/refusal';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { issueToken } from '../../packages/http/src/tokens/issueToken.ts';
import { loadOrCreateKey } from '../../packages/node/src/files/keyFile.ts';
import { serviceOfFile, startService } from '../support/service.ts';

const { url, dir } = await serviceOfFile();
const { token, expired } = await tokensOf(dir);
const call = callerOf(url);

/** A valid token for alice and an expired one, signed with the key in a data directory. */
async function tokensOf(dir: string) {
  const { privateKey } = loadOrCreateKey(join(dir, 'key.json'));
  const token = await issueToken(privateKey, { subject: 'alice', lifetime: '1h' });
  const expired = signedJwt(privateKey, { sub: 'alice', exp: Date.parse('2026-01-01') / 1000 });
  return { token, expired };
}

function callerOf(url: string) {
  return (path: string, authorization?: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (authorization !== undefined) headers.set('authorization', authorization);
    return fetch(`${url}${path}`, { ...init, headers });
  };
}

async function expectNoToken(response: Response): Promise<void> {
  expect(response.headers.get('www-authenticate')).toBe('Bearer realm="plants"');
  expect(await refusedWith(40101, response)).toContain('bearer token');
}

async function expectInvalid(response: Response, why: 'not valid' | 'expired'): Promise<void> {
  expect(response.headers.get('www-authenticate')).toMatch(
    /^Bearer realm="plants", error="invalid_token"(,|$)/,
  );
  expect(await refusedWith(40102, response)).toContain(why);
}

test.each(['GET', 'POST'])('%s /plants without a token is 40101 without further details', async (method) => {
  await expectNoToken(await call('/plants', undefined, { method }));
});

test('another authentication scheme, or a token in the query, is 40101', async () => {
  for (const authorization of ['Basic YWxpY2U6c2VjcmV0', `Token ${token}`, `Bearer${token}`, token, 'Bearer'])
    await expectNoToken(await call('/plants', authorization));
  await expectNoToken(await call(`/plants?access_token=${token}`));
});

test('a malformed or expired token, or one signed with another key, is 40102', async () => {
  const elsewhere = await tokensOf(tempDir());
  for (const bad of ['garbage', `${token}x`, `${token} ${token}`, elsewhere.token])
    await expectInvalid(await call('/plants', `Bearer ${bad}`), 'not valid');
  await expectInvalid(await call('/plants', `Bearer ${expired}`), 'expired');
});

test('two Authorization fields are always 401', async () => {
  const [valid, other] = [`Bearer ${token}`, `Bearer ${expired}`];
  for (const [first, second, error] of [
    [valid, valid, 40102],
    [valid, other, 40102],
    [other, valid, 40102],
    [valid, 'Basic YWxpY2U6c2VjcmV0', 40102],
    ['Basic YWxpY2U6c2VjcmV0', valid, 40101],
    ['', valid, 40101],
  ] as const) {
    const fields = `Authorization: ${first}\r\nauthorization: ${second}\r\n`;
    const request = `GET /plants HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${fields}\r\n`;
    await refusedWith(error, await responseTo(url, request));
  }
});

test('401 precedes every other error of a request', async () => {
  const json = { 'content-type': 'application/json' };
  const wrong: [number, string, RequestInit][] = [
    [40001, '', { method: 'POST', headers: json, body: '{' }],
    [40002, '', { method: 'POST', headers: json, body: '{"id":"1"}' }],
    [41301, '', { method: 'POST', headers: json, body: ' '.repeat(61_441) }],
    [41501, '', { method: 'POST', body: 'Fern' }],
    [40004, '?limit=-1', {}],
    [40005, '', { headers: { 'log-position': 'garbage' } }],
  ];
  for (const [error, query, init] of wrong) {
    const bodyWith = async (authorization?: string): Promise<unknown> =>
      (await call(`/plants${query}`, authorization, init)).json();
    expect(await bodyWith()).toMatchObject({ error: 40101 });
    expect(await bodyWith('Bearer garbage')).toMatchObject({ error: 40102 });
    expect(await bodyWith(`bEaReR ${token}`)).toMatchObject({ error }); // the scheme is case-insensitive
  }
});

test('no token is logged, valid or invalid, from any place in a request', async () => {
  const { url, dir, log } = await startService();
  const { token, expired } = await tokensOf(dir);
  const call = callerOf(url);
  for (const bearer of [token, expired, `${token}x`]) {
    for (const path of ['/plants', '/nothing', '/plants?limit=-1', '/%zz']) {
      await call(path, `Bearer ${bearer}`);
      await call(`${path}${path.includes('?') ? '&' : '?'}access_token=${bearer}`);
    }
    await call('/plants', `Basic ${bearer}`);
  }
  const malformed = `GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nno header\r\n\r\n`;
  await exchange(url, malformed);

  const requests = () => log().filter(({ msg }) => msg === 'request');
  await expect.poll(requests).toHaveLength(27);
  expect(log().filter(({ msg }) => msg === 'malformed request')).toHaveLength(1);
  const text = JSON.stringify(log());
  for (const part of [...token.split('.'), ...expired.split('.')]) expect(text).not.toContain(part);
});

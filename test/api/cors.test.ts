import { refusalIn } from '@event-sourced/testing/refusal';
import { describe, expect, test } from 'vitest';
import { serviceOfFile } from '../support/service.ts';

const APP = 'https://app.example';
const OTHER_APP = 'http://localhost:8080';
const UNLISTED = 'https://evil.example';

const open = await serviceOfFile({ MERKLE_TREE: 'on', CORS_ORIGINS: `${APP},${OTHER_APP}` });
const shut = await serviceOfFile({ MERKLE_TREE: 'on' });

const preflightOf = (origin: string, method = 'POST') => ({
  origin,
  'access-control-request-method': method,
  'access-control-request-headers':
    'authorization,content-type,idempotency-key,if-none-match,last-event-id,log-position,prefer',
});
const options = (url: string, headers: Record<string, string>) => fetch(url, { method: 'OPTIONS', headers });
const permissions = ({ headers }: Response): string[] =>
  [...headers.keys()].filter((name) => name.startsWith('access-control-'));
const listed = (response: Response, field: string): string[] =>
  (response.headers.get(field) ?? '').toLowerCase().split(/ *, */).toSorted();

test('without CORS_ORIGINS, no origin is allowed', async () => {
  const response = await options(`${shut.url}/plants`, preflightOf(APP));
  expect(permissions(response)).toEqual([]);
  expect(response.headers.get('allow')).toBe('GET, HEAD, POST');
  expect((await refusalIn(response)).error).toBe(40501);
  const list = await shut.as('alice').get('', { origin: APP });
  expect([list.status, permissions(list), list.headers.get('vary')]).toEqual([200, [], null]);
});

describe('with CORS_ORIGINS', () => {
  test.each([APP, OTHER_APP])(
    'allows GET and POST from %s, and exposes the response headers',
    async (origin) => {
      const response = await options(`${open.url}/plants`, preflightOf(origin));
      expect([response.status, await response.text()]).toEqual([204, '']);
      expect(response.headers.get('access-control-allow-origin')).toBe(origin);
      expect(listed(response, 'access-control-allow-methods')).toEqual(['get', 'head', 'post']);
      expect(listed(response, 'access-control-allow-headers')).toEqual(
        'authorization content-type idempotency-key if-none-match last-event-id log-position prefer traceparent'.split(
          ' ',
        ),
      );
      expect(response.headers.get('access-control-allow-credentials')).toBeNull();

      const body = '{"id":1,"name":"Fern"}';
      const created = await open.as(`alice of ${origin}`).post(body, { origin });
      const list = await open.as(`alice of ${origin}`).get('', { origin });
      for (const one of [created, list]) {
        expect(one.status).toBe(200);
        expect(one.headers.get('access-control-allow-origin')).toBe(origin);
        expect(listed(one, 'vary')).toContain('origin');
        expect(listed(one, 'access-control-expose-headers')).toEqual(
          'checkpoint content-disposition link log-position plant-created ratelimit-limit ratelimit-remaining ratelimit-reset request-id retry-after www-authenticate'.split(
            ' ',
          ),
        );
      }
    },
  );

  test.each([
    UNLISTED,
    'http://app.example',
    'https://app.example.evil.example',
    'https://app.example:444',
    'null',
  ])('does not allow the origin %s', async (origin) => {
    const response = await options(`${open.url}/plants`, preflightOf(origin));
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
    const list = await open.as('alice').get('', { origin });
    expect(list.headers.get('access-control-allow-origin')).toBeNull();
  });

  // One for each place that returns errors.
  test.each<[number, string, RequestInit?]>([
    [401, '/plants'],
    [401, '/tile/0/000'],
    [404, '/nothing'],
    [400, '/%zz'],
    [405, '/plants', { method: 'DELETE' }],
  ])('a %i of %s has an error body that only an allowed origin can read', async (status, path, init) => {
    for (const [origin, allowed] of [
      [APP, APP],
      [UNLISTED, null],
    ] as const) {
      const headers = { ...init?.headers, origin, 'content-type': 'application/json' };
      const response = await fetch(`${open.url}${path}`, { ...init, headers });
      expect(response.status).toBe(status);
      await refusalIn(response);
      expect(response.headers.get('access-control-allow-origin')).toBe(allowed);
      if (allowed)
        expect(listed(response, 'access-control-expose-headers')).toEqual(
          expect.arrayContaining(['request-id', 'www-authenticate']),
        );
    }
  });

  test.each<[number, string, Record<string, string>]>([
    [40501, '/plants', {}],
    [40501, '/plants', { origin: APP }],
    [40501, '/plants', { origin: UNLISTED }],
    [40501, '/plants', { 'access-control-request-method': 'POST' }],
    [40401, '/nothing', { origin: APP }],
    [40401, '/nothing', preflightOf(APP)],
  ])(
    'returns %i for OPTIONS %s that is not a preflight request for a known path: %j',
    async (error, path, headers) => {
      const response = await options(`${open.url}${path}`, headers);
      expect((await refusalIn(response)).error).toBe(error);
    },
  );
});

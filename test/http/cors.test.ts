import { describe, expect, test } from 'vitest';
import { refusalIn } from '../support/refusal.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';

const APP = 'https://app.example';
const OTHER_APP = 'http://localhost:8080';
const FOREIGN = 'https://evil.example';

const open = await serviceOfFile({ CORS_ORIGINS: `${APP},${OTHER_APP}` });
const shut = await serviceOfFile();

const preflight = (path: string, origin: string, method = 'POST') => ({
  path,
  init: {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'authorization,content-type,last-event-id,log-position',
    },
  },
});
const permissions = ({ headers }: Response): string[] =>
  [...headers.keys()].filter((name) => name.startsWith('access-control-'));
const listed = (answer: Response, field: string): string[] =>
  (answer.headers.get(field) ?? '').toLowerCase().split(/ *, */).toSorted();

/** Requests that are refused, one for each place that refuses. */
const REFUSED: [number, string, RequestInit?][] = [
  [401, '/plants'],
  [401, '/plants', { method: 'POST', body: '{}' }],
  [401, '/plants', { headers: { authorization: 'Bearer nonsense' } }],
  [401, '/events'],
  [404, '/nothing'],
  [405, '/plants', { method: 'DELETE' }],
  [405, '/health/live', { method: 'POST' }],
];

describe('without CORS_ORIGINS', () => {
  test('nothing is permitted', async () => {
    const { path, init } = preflight('/plants', APP);
    const answer = await fetch(`${shut.url}${path}`, init);
    expect(permissions(answer)).toEqual([]);
    expect(answer.headers.get('allow')).toBe('GET, HEAD, POST');
    expect((await refusalIn(answer)).error).toBe(40501);
    const list = await shut.as('alice').get('', { origin: APP });
    expect([list.status, permissions(list), list.headers.get('vary')]).toEqual([200, [], null]);
  });
});

describe('with CORS_ORIGINS', () => {
  test.each([APP, OTHER_APP])('a page of %s may ask and post, and read what matters', async (origin) => {
    const { path, init } = preflight('/plants', origin);
    const answer = await fetch(`${open.url}${path}`, init);
    expect([answer.status, await answer.text()]).toEqual([204, '']);
    expect(answer.headers.get('access-control-allow-origin')).toBe(origin);
    expect(listed(answer, 'access-control-allow-methods')).toEqual(['get', 'head', 'post']);
    expect(listed(answer, 'access-control-allow-headers')).toEqual([
      'authorization',
      'content-type',
      'last-event-id',
      'log-position',
    ]);
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull();

    const body = '{"id":1,"name":"Fern"}';
    const created = await open.as(`alice of ${origin}`).post(body, { origin });
    const list = await open.as(`alice of ${origin}`).get('', { origin });
    for (const one of [created, list]) {
      expect(one.status).toBe(200);
      expect(one.headers.get('access-control-allow-origin')).toBe(origin);
      expect(listed(one, 'vary')).toContain('origin');
      expect(listed(one, 'access-control-expose-headers')).toEqual([
        'link',
        'log-position',
        'request-id',
        'retry-after',
      ]);
    }
  });

  test.each([
    FOREIGN,
    'http://app.example',
    'https://app.example.evil.example',
    'https://app.example:444',
    'null',
  ])('a page of %s gets no permission', async (origin) => {
    const { path, init } = preflight('/plants', origin);
    const asked = await fetch(`${open.url}${path}`, init);
    expect(asked.headers.get('access-control-allow-origin')).toBeNull();
    const list = await open.as('alice').get('', { origin });
    expect(list.headers.get('access-control-allow-origin')).toBeNull();
  });

  test.each(['/events', '/nothing', '/health/live', '/openapi.json'])(
    'a preflight of %s holds what it may',
    async (path) => {
      const { init } = preflight(path, APP, 'GET');
      const answer = await fetch(`${open.url}${path}`, init);
      if (answer.status >= 400) await refusalIn(answer);
      else expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
    },
  );

  test.each(['/plants', '/nothing'])(
    'an OPTIONS of %s that is no preflight is not refused in another shape',
    async (path) => {
      for (const headers of [
        { origin: APP },
        { origin: FOREIGN },
        { 'access-control-request-method': 'POST' },
      ]) {
        const answer = await fetch(`${open.url}${path}`, { method: 'OPTIONS', headers });
        if (answer.status === 204) expect(await answer.text()).toBe('');
        else await refusalIn(answer);
      }
    },
  );

  test.each(REFUSED)(
    'a refusal with %i of %s keeps its shape, and the page can read it',
    async (status, path, init) => {
      const headers = { ...init?.headers, origin: APP, 'content-type': 'application/json' };
      const answer = await fetch(`${open.url}${path}`, { ...init, headers });
      expect(answer.status).toBe(status);
      await refusalIn(answer);
      expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
      expect(listed(answer, 'access-control-expose-headers')).toContain('request-id');
    },
  );

  test.each(REFUSED)(
    'a refusal with %i of %s keeps its shape for a foreign page',
    async (status, path, init) => {
      const headers = { ...init?.headers, origin: FOREIGN, 'content-type': 'application/json' };
      const answer = await fetch(`${open.url}${path}`, { ...init, headers });
      expect(answer.status).toBe(status);
      await refusalIn(answer);
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    },
  );

  test('what a user may not say is refused in the same shape', async () => {
    const bob = open.as('bob');
    const origin = { origin: APP };
    const posted = await bob.post('{"id":"1"}', origin);
    const asked = await bob.request('/events', { headers: origin });
    expect([(await refusalIn(posted)).error, (await refusalIn(asked)).error]).toEqual([40002, 40301]);
    for (const answer of [posted, asked]) expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
  });

  test.each<[number, string, RequestInit]>([
    [40501, '/plants', { method: 'OPTIONS' }],
    [40501, '/plants', { method: 'OPTIONS', headers: { origin: APP } }],
    [40401, '/nothing', preflight('/nothing', APP).init],
  ])('%i is the answer to OPTIONS %s that asks for no known thing', async (error, path, init) => {
    const answer = await fetch(`${open.url}${path}`, init);
    expect((await refusalIn(answer)).error).toBe(error);
  });
});

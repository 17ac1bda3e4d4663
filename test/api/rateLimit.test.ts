import { refusedWith } from '@event-sourced/testing/refusal';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { InvalidToken } from '../../packages/http/src/tokens/tokenVerifier.ts';
import { appOver, claimsOf } from '../support/appOver.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['Date', 'performance'] }));
afterEach(() => vi.useRealTimers());

/** The service, with two requests of a user in ten seconds. Every token is the name of a user. */
async function serve(more = {}) {
  const { url } = await appOver({}, { rateLimit: { maxRequests: 2, windowMs: 10_000 }, ...more });
  return (user: string, path = '/plants', init: RequestInit = {}) =>
    fetch(`${url}${path}`, { ...init, headers: { authorization: `Bearer ${user}`, ...init.headers } });
}

/** The limit, what is left of it, and the seconds until the next window, as a response has them. */
const limitIn = ({ headers }: Response) =>
  ['limit', 'remaining', 'reset'].map((name) => headers.get(`ratelimit-${name}`));

test('responses to users say how much of the limit is left', async () => {
  const request = await serve();
  expect(limitIn(await request('alice', '/events'))).toEqual(['2', '1', '10']); // though it is refused for its scope
  vi.advanceTimersByTime(1_001);
  expect(limitIn(await request('alice'))).toEqual(['2', '0', '9']);
  expect(limitIn(await request('bob'))).toEqual(['2', '1', '10']);
  expect(limitIn(await request('alice', '/health/live'))).toEqual([null, null, null]);
});

test('requests over the limit are 42902, until the window is over', async () => {
  const request = await serve();
  const statuses = async (count: number) => {
    const all = [];
    for (let i = 0; i < count; i++) all.push((await request('alice')).status);
    return all;
  };
  expect(await statuses(2)).toEqual([200, 200]);
  vi.advanceTimersByTime(3_500);
  const refused = await request('alice');
  expect(refused.headers.get('retry-after')).toBe('7');
  expect(limitIn(refused)).toEqual(['2', '0', '7']);
  expect(await refusedWith(42902, refused)).toBe('The limit is 2 requests in 10 s. Wait, and retry.');
  vi.advanceTimersByTime(6_499);
  expect(await statuses(1)).toEqual([429]);
  vi.advanceTimersByTime(1);
  expect(await statuses(3)).toEqual([200, 200, 429]);
});

test('a clock that is set back changes nothing', async () => {
  const request = await serve();
  for (const status of [200, 200, 429]) expect((await request('alice')).status).toBe(status);
  vi.setSystemTime(Date.now() - 3_600_000);
  expect((await request('alice')).headers.get('retry-after')).toBe('10');
  vi.advanceTimersByTime(10_000);
  expect((await request('alice')).status).toBe(200);
});

test('each user has a limit, for all operations together', async () => {
  const request = await serve();
  const body = {
    method: 'POST',
    body: '{"id":1,"name":"Fern"}',
    headers: { 'content-type': 'application/json' },
  };
  expect((await request('alice', '/plants', body)).status).toBe(200);
  expect((await request('alice')).status).toBe(200);
  await refusedWith(42902, await request('alice', '/plants', body));
  await refusedWith(42902, await request('alice', '/events'));
  expect((await request('bob')).status).toBe(200);
});

test('requests without a valid token do not count, whatever user they name', async () => {
  const verifyToken = (token: string) => {
    if (token === 'forged') throw new InvalidToken('The token is invalid.');
    return claimsOf(token);
  };
  const request = await serve({ verifyToken });
  for (let i = 0; i < 3; i++) await refusedWith(40102, await request('forged', '/plants?user=alice'));
  expect((await request('alice')).status).toBe(200);
});

test('neither health nor the document counts or is limited', async () => {
  const request = await serve();
  for (let i = 0; i < 3; i++) {
    expect((await request('alice', '/health/live')).status).toBe(200);
    expect((await request('alice', '/openapi.json')).status).toBe(200);
  }
  expect((await request('alice')).status).toBe(200);
});

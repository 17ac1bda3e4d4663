import { expect, test } from 'vitest';
import { limitRate } from '../src/rateLimit.ts';
import { openServer } from './openServer.ts';

test('above the maximum number of users, the user with the oldest request is evicted', async () => {
  const app = await openServer();
  app.addHook('onRequest', async (request) => {
    request.user = String(request.headers.user);
  });
  limitRate(app, { maxRequests: 1, windowMs: 3_600_000 }, 2);
  app.get('/', async () => '');
  const statuses = [];
  for (const user of ['alice', 'bob', 'alice', 'carol', 'alice', 'bob'])
    statuses.push((await app.inject({ url: '/', headers: { user } })).statusCode);
  expect(statuses).toEqual([200, 200, 429, 200, 429, 200]);
});

import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { HTTP_ERRORS } from '../../src/http/errors.ts';
import { limitRate } from '../../src/http/rateLimit.ts';
import { httpServer } from '../../src/http/server.ts';

test('of more users than are counted, the one with the oldest request is forgotten', async () => {
  const app = await httpServer({
    logger: pino({ level: 'silent' }),
    corsOrigins: [],
    errors: HTTP_ERRORS,
  });
  app.addHook('onRequest', async (request) => {
    request.user = String(request.headers.user);
  });
  limitRate(app, { maxRequests: 1, windowMs: 3_600_000 }, 2);
  app.get('/', async () => '');
  onTestFinished(() => app.close());
  const statuses = [];
  for (const user of ['alice', 'bob', 'alice', 'carol', 'alice', 'bob'])
    statuses.push((await app.inject({ url: '/', headers: { user } })).statusCode);
  expect(statuses).toEqual([200, 200, 429, 200, 429, 200]);
});

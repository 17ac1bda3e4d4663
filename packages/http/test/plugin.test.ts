import Fastify from 'fastify';
import { Type } from 'typebox';
import { expect, onTestFinished, test } from 'vitest';
import { HTTP_ERRORS } from '../src/errors.ts';
import { http } from '../src/server.ts';

/** An app with a route of its own, and with `http` for routes below /api. */
async function appWithHttp() {
  const app = Fastify();
  onTestFinished(() => app.close());
  const querystring = { type: 'object', properties: { n: { type: 'integer' } } };
  app.get('/own', { schema: { querystring } }, async ({ query }) => query);
  await app.register(
    async (api) => {
      await api.register(http, { errors: HTTP_ERRORS, corsOrigins: [] });
      const body = Type.Object({ id: Type.Unsafe<bigint>({ format: 'int64' }) });
      api.post<{ Body: { id: bigint } }>('/beds', { schema: { body } }, async (request) =>
        String(request.body.id),
      );
    },
    { prefix: '/api' },
  );
  return app;
}

test('below a prefix of an app that exists, JSON is exact, and errors have one shape', async () => {
  const app = await appWithHttp();
  const post = (payload: string) =>
    app.inject({
      method: 'POST',
      url: '/api/beds',
      headers: { 'content-type': 'application/json' },
      payload,
    });
  const created = await post('{"id":9223372036854775807}');
  expect([created.statusCode, created.body]).toEqual([200, '9223372036854775807']);
  expect(created.headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
  expect((await post('{}')).json()).toMatchObject({ error: 40002, message: 'id is required.' });
  expect((await app.inject('/api/nothing')).json()).toMatchObject({ error: 40401 });
  const other = await app.inject('/api/beds');
  expect([other.headers.allow, other.json().error]).toEqual(['POST', 40501]);
});

test('the other routes of the app stay as they are', async () => {
  const app = await appWithHttp();
  const own = await app.inject('/own?n=1');
  expect([own.json(), own.headers['x-content-type-options']]).toEqual([{ n: 1 }, undefined]);
  expect((await app.inject('/nothing')).json()).toMatchObject({ statusCode: 404 });
});

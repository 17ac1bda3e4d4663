import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { httpServer } from '../../src/http/server.ts';

const APP = 'https://app.example';

/** A server with routes that have parameters. */
async function serve(): Promise<string> {
  const app = await httpServer({
    logger: pino({ level: 'silent' }),
    corsOrigins: [APP],
    errorTable: () => undefined,
  });
  app.get('/beds/:bed', async ({ params }) => params);
  app.put('/beds/:bed/plants/:plant', async ({ params }) => params);
  app.delete('/beds/:bed/plants/:plant', async ({ params }) => params);
  onTestFinished(() => app.close());
  return app.listen({ port: 0, host: '127.0.0.1' });
}

test.each([
  ['/beds/1', 'GET, HEAD'],
  ['/beds/a%2Fb', 'GET, HEAD'],
  ['/beds/1/plants/2', 'DELETE, PUT'],
  ['/bed%73/%31/plants/2', 'DELETE, PUT'],
])('another method for %s is 405, and Allow is %s', async (path, allow) => {
  const url = await serve();
  const { status, headers } = await fetch(`${url}${path}`, { method: 'POST' });
  expect([status, headers.get('allow')]).toEqual([405, allow]);
});

test.each(['/', '/beds', '/beds/1/2', '/beds/1/plants', '/x/beds/1'])('%s is 404', async (path) => {
  const url = await serve();
  const { status, headers } = await fetch(`${url}${path}`, { method: 'POST' });
  expect([status, headers.get('allow')]).toEqual([404, null]);
});

test('a CORS preflight request permits the methods of the path', async () => {
  const url = await serve();
  const headers = { origin: APP, 'access-control-request-method': 'PUT' };
  const answer = await fetch(`${url}/beds/1/plants/2`, { method: 'OPTIONS', headers });
  expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([204, APP]);
  expect(answer.headers.get('access-control-allow-methods')).toBe('DELETE, PUT');
});

test('a parameter may be long, and is decoded', async () => {
  const url = await serve();
  const bed = `a/b ${'ü'.repeat(1_000)}`;
  const answer = await fetch(`${url}/beds/${encodeURIComponent(bed)}`);
  expect([answer.status, await answer.json()]).toEqual([200, { bed }]);
});

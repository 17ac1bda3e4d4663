import { expect, test } from 'vitest';
import { servePage } from '../src/pages.ts';
import { openServer } from './openServer.ts';

/** A server with a page and another route. */
async function server() {
  const app = await openServer();
  await servePage(app, { path: '/page', readFiles: () => [{ path: '', type: 'text/html', body: '' }] });
  app.get('/plants', async () => []);
  return app;
}

const policyOf = (headers: Record<string, unknown>) =>
  Object.fromEntries(
    String(headers['content-security-policy'])
      .split(';')
      .map((directive) => [directive.split(' ')[0], directive.split(' ').slice(1).join(' ')]),
  );

test.each(['/page', '/page/nothing'])('%s has a strict policy, and cannot be framed', async (path) => {
  const { headers } = await (await server()).inject(path);
  expect(policyOf(headers)).toEqual({
    'default-src': "'none'",
    'script-src': "'self'",
    'style-src': "'self'",
    'img-src': "'self'",
    'connect-src': "'self'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  });
});

test('other routes may load nothing', async () => {
  const { headers } = await (await server()).inject('/plants');
  expect(policyOf(headers)).toEqual({ 'default-src': "'none'", 'frame-ancestors': "'none'" });
});

test.each<[string, (etag: string) => string]>([
  ['itself', (etag) => etag],
  ['itself as a weak one, of a proxy that compresses', (etag) => `W/${etag}`],
  ['a list with it', (etag) => `"other", W/"another",${etag}`],
  ['any', () => '*'],
])('a page whose tag the client has is 304: %s', async (_, conditionOf) => {
  const app = await server();
  const { etag = '' } = (await app.inject('/page')).headers;
  const get = (condition: string) =>
    app.inject({ url: '/page', headers: { 'if-none-match': condition, 'cache-control': 'no-cache' } });
  const { statusCode, headers, body } = await get(conditionOf(String(etag)));
  expect([statusCode, headers.etag, body]).toEqual([304, etag, '']);
  expect((await get('"other"')).statusCode).toBe(200);
});

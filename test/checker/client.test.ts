import { Random } from '@event-sourced/testing/random';
import { expect, test } from 'vitest';
import { RandomClient } from './client.ts';
import { History, type Request } from './history.ts';

/** What a client records of a response. */
const recorded = (request: Request, response: () => Promise<Response>) => {
  const instance = { number: 0, run: 1, request: response };
  const options = {
    instances: [instance],
    history: new History(),
    vkey: 'key+1+Zm9v',
    users: ['alice', 'bob'],
  };
  return new RandomClient({ ...options, random: new Random(1), after: 0n }).record(instance, request);
};

const list: Request = { kind: 'list', user: 'alice' };
const receipt: Request = { kind: 'receipt', user: 'alice', plant: 1 };
const cut = () => {
  const body = new ReadableStream({ pull: (controller) => controller.error(new TypeError('terminated')) });
  return Promise.resolve(new Response(body));
};

test.each<[string, Request, Response]>([
  ['a list that ends early', list, new Response('[{"name":"Fe')],
  [
    'a replay that ends within a line',
    { kind: 'replay', after: 0n },
    new Response('{"position":"1"}\n{"posi'),
  ],
  ['a page without positions', { kind: 'newest', limit: 1, pages: 1 }, new Response('{}\n')],
  ['a position that is no number', list, new Response('[]', { headers: { 'log-position': 'log.x' } })],
  ['a proof that does not verify', receipt, new Response('c2sp.org/tlog-proof@v1\nextra e30=\nindex 0\n\n')],
  ['a checkpoint that is not signed', { kind: 'checkpoint' }, new Response('log\n1\nroot\n\n')],
  ['an error that is no JSON', list, new Response('Bad gateway', { status: 502 })],
])('%s is recorded as malformed', async (_, request, response) => {
  const result = await recorded(request, async () => response);
  expect(result).toEqual({ error: 'malformed', why: expect.stringMatching(/\w/) });
});

test('an error, a cut response and a broken connection are recorded as such', async () => {
  const refused = async () => Response.json({ error: 50302 }, { status: 503 });
  expect(await recorded(list, refused)).toEqual({ error: 50302 });
  expect(await recorded(list, cut)).toEqual({ error: 'cut' });
  expect(await recorded(list, () => Promise.reject(new TypeError('fetch failed')))).toEqual({
    error: 'disconnected',
  });
});

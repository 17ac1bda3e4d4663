import { untilAvailable } from './instances.ts';
import { serviceOfFile } from './service.ts';

export const post = (body: string): RequestInit => {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body };
};

/** Requests that the OpenAPI document allows: the status, what it is, the path, and the scope of the token. */
export const DOCUMENTED: readonly [number, string, string, RequestInit, string?][] = [
  [200, 'create a plant', '/plants', post('{"id":3,"name":"Oak","tag":"garden"}')],
  [200, 'create it again', '/plants', post('{"id":1,"name":"Fern"}')],
  [400, 'create another with its ID', '/plants', post('{"id":1,"name":"Oak"}')],
  [413, 'create a large one', '/plants', post(`{"id":4,"name":"${'x'.repeat(70_000)}"}`)],
  [200, 'list plants', '/plants', {}],
  [200, 'list a page', '/plants?limit=1', {}],
  [200, 'list with IDs', '/plants?fields=id,name,tag', {}],
  [400, 'list from a wrong position', '/plants?after=x', {}],
  [401, 'list with an invalid token', '/plants', { headers: { authorization: 'Bearer x' } }],
  [200, 'erase a user', '/erasures', post('{"user":"zoe"}'), 'erase'],
  [400, 'erase an invalid user', '/erasures', post('{"user":""}'), 'erase'],
  [403, 'erase without the scope erase', '/erasures', post('{"user":"zoe"}')],
  [200, 'replay', '/events', {}],
  [200, 'replay no event', '/events?limit=0', {}],
  [200, 'replay up to its end', '/events?end=true', {}],
  [200, 'stream one event', '/events?limit=1', { headers: { accept: 'text/event-stream' } }],
  [200, 'count events', '/events/histogram', {}],
  [400, 'count events before a wrong position', '/events/histogram?before=x', {}],
  [400, 'replay an unknown user', '/events?user=nobody', {}],
  [406, 'replay as JSON', '/events', { headers: { accept: 'application/json' } }],
  [200, 'get the key of the log', '/log-key', {}],
  [200, 'get a checkpoint', '/checkpoint', {}],
  [200, 'get a tile', '/tile/0/000.p/1', {}],
  [404, 'get no tile', '/tile/0/999', {}],
  [200, 'get entries', '/tile/entries/000.p/1', {}],
  [404, 'get no entries', '/tile/entries/999', {}],
  [200, 'get a receipt', '/proofs/plants?id=1', {}],
  [400, 'get a receipt of a wrong ID', '/proofs/plants?id=x', {}],
  [404, 'get no receipt', '/proofs/plants?id=9', {}],
  [403, 'replay without the scope audit', '/events', {}, 'read'],
  [403, 'count events without it', '/events/histogram', {}, 'read'],
  [403, 'get a checkpoint without it', '/checkpoint', {}, 'read'],
  [403, 'get a tile without it', '/tile/0/000', {}, 'read'],
  [403, 'get entries without it', '/tile/entries/000', {}, 'read'],
  [403, 'get a receipt of another user without it', '/proofs/plants?id=1&user=bob', {}, 'read'],
];

/** The service for them, and a request to it or a proxy, by alice with this scope. */
export async function documentedService() {
  const service = await serviceOfFile({ MERKLE_TREE: 'on' });
  await service.as('alice').create(1, { name: 'Fern' });
  await service.as('alice').create(2, { name: 'Moss', tag: 'indoor' });
  const request = async (to: unknown, scope: string, path: string, init: RequestInit = {}) => {
    const headers = { authorization: await service.bearer('alice', scope), ...init.headers };
    return untilAvailable(() => fetch(`${to}${path}`, { ...init, headers }));
  };
  return { ...service, request };
}

import { plantOf, writeTo } from '@event-sourced/testing/logs';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, test } from 'vitest';
import type { FakeEvent } from '../../packages/event-store-db/src/testing/server.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { ready, twoInstances, untilAvailable } from '../support/instances.ts';
import type { Plant } from '../support/service.ts';

async function plantsIn(response: Response): Promise<Plant[]> {
  expect(response.status).toBe(200);
  return response.json() as Promise<Plant[]>;
}

describe('a list of one instance with the Log-Position of the other', () => {
  test('has the first plant of the log, even if the instance has received no event yet', async () => {
    const server = await startFakeServer();
    const service = await serviceOver(server.url);
    await ready(service);
    server.holdAfter(0);
    const { id } = server.write('plantstore', { type: 'LogBegun' });
    const { position } = writeTo(server, plantOf('alice', 1, 'Fern'))[0] as FakeEvent;
    expect(await service.alice.list()).toEqual([]);
    const pending = service.alice.get('', { 'log-position': `e${id.slice(-12)}.${position}` });
    server.holdAfter(Number.POSITIVE_INFINITY);
    writeTo(server, plantOf('bob', 1, 'Oak'));
    expect(await plantsIn(await pending)).toEqual([{ name: 'Fern' }]);
  });

  test('continues a pagination started there, with the same token if they share a key file', async () => {
    const node = await startFakeServer();
    const otherNode = await startFakeServer({ log: node.log });
    const [here, there] = await twoInstances(node.url, otherNode.url);
    for (const [id, name] of ['Fern', 'Ivy', 'Moss'].entries()) await here.as('alice').create(id, { name });
    const authorization = await here.bearer('alice');
    const get = (url: string, headers = {}) =>
      untilAvailable(() => fetch(url, { headers: { authorization, ...headers } }));
    const page = await get(`${here.url}/plants?limit=2`);
    const next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1] ?? '';
    const upTo = { 'log-position': page.headers.get('log-position') ?? '' };
    expect(await plantsIn(await get(`${there.url}/${next}`, upTo))).toEqual([{ name: 'Moss' }]);
  });
});

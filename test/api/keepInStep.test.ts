import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { expect, test } from 'vitest';
import { positionIn } from '../support/eventStoreDbService.ts';
import { twoInstances, untilAvailable } from '../support/instances.ts';
import { startService } from '../support/service.ts';

type Service = Awaited<ReturnType<typeof startService>>;

/** A client of alice that requests what was created since the last response, on any instance. */
function follower() {
  let after: string | undefined;
  return async ({ as }: Service): Promise<string[]> => {
    const query = after === undefined ? '' : `&after=${after}`;
    const response = await untilAvailable(() => as('alice').get(`?fields=id,name,tag${query}`));
    expect([response.status, response.headers.get('link')]).toEqual([200, null]);
    after = positionIn(response);
    return ((await response.json()) as { id: number; name: string }[]).map(({ id, name }) => `${id} ${name}`);
  };
}

/** Creates a plant of alice, between plants of bob. */
async function create({ as }: Service, id: number, name: string): Promise<void> {
  for (const [user, ofUser] of [
    ['bob', id],
    ['alice', id],
    ['bob', -id],
  ] as const)
    expect((await untilAvailable(() => as(user).create(ofUser, { name }))).status).toBe(200);
}

test.each(['SQLite', 'EventStoreDB'])(
  'over %s, a client gets each plant once, from the empty log on and after a restart',
  async (log) => {
    const server = log === 'SQLite' ? undefined : await startFakeServer();
    const env = { DATA_DIR: tempDir(), ...(server && { EVENTSTOREDB_URL: server.url }) };
    const next = follower();
    const first = await startService(env);
    expect(await next(first)).toEqual([]);
    await create(first, 1, 'Fern');
    await create(first, 2, 'Moss');
    expect(await next(first)).toEqual(['1 Fern', '2 Moss']);
    expect(await next(first)).toEqual([]);
    await create(first, 3, 'Ivy');
    await first.close();
    const restarted = await startService(env);
    expect(await next(restarted)).toEqual(['3 Ivy']);
    await create(restarted, 4, 'Elm');
    expect(await next(restarted)).toEqual(['4 Elm']);
    expect(await next(restarted)).toEqual([]);
  },
);

test('a client gets each plant once from two instances, also from one that is behind', async () => {
  const node = await startFakeServer();
  const otherNode = await startFakeServer({ log: node.log });
  const [here, there] = await twoInstances(node.url, otherNode.url);
  const next = follower();
  await create(here, 1, 'Fern');
  expect(await next(here)).toEqual(['1 Fern']);
  otherNode.holdAfter(0);
  await create(here, 2, 'Moss');
  expect(await next(here)).toEqual(['2 Moss']);
  const pending = next(there);
  await create(here, 3, 'Ivy');
  otherNode.holdAfter(Number.POSITIVE_INFINITY);
  const after = await pending;
  expect([...after, ...(await next(here))]).toEqual(['3 Ivy']);
  expect(await next(there)).toEqual([]);
});

import { expect, test } from 'vitest';
import { created, positionIn, serviceOver } from '../../support/eventStoreDbService.ts';
import { ready } from '../../support/instances.ts';
import { refusedWith } from '../../support/refusal.ts';
import { startFakeServer } from '../../support/stores.ts';

/** More reads than one. */
const SOME_READS = 3;

test('a plant that is refused before the first event of its stream can be read is decided by that event', async () => {
  const server = await startFakeServer();
  const { alice, bob, ...service } = await serviceOver(server.url);
  await ready(service);
  const position = await created(alice, 1, 'Fern');
  server.lagIndex(SOME_READS);
  const same = await alice.create(1, { name: 'Fern' });
  expect([same.status, positionIn(same)]).toEqual([200, position]);
  await created(bob, 1, 'Oak');
  server.lagIndex(SOME_READS);
  await refusedWith(40003, await bob.create(1, { name: 'Elm' }));
});

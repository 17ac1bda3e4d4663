import { expect, test } from 'vitest';
import { NO_STREAM, WrongExpectedRevision } from '../../../src/eventStore/eventStore.ts';
import { created, positionIn, serviceOver } from '../../support/eventStoreDbService.ts';
import { open } from '../../support/eventStoreDbStore.ts';
import { ready } from '../../support/load.ts';
import { refusedWith } from '../../support/refusal.ts';
import { startFakeServer } from '../../support/stores.ts';
import { event } from '../contract.ts';

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

test('an append that is refused waits, with back-off and not for ever, for the first event of its stream', async () => {
  const server = await startFakeServer();
  const { store } = await open(server.url, { timeoutMs: 500 });
  await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  server.lagIndex(Number.POSITIVE_INFINITY);
  const { read } = server.calls;
  const append = store.append('plant-alice/1', event('Elm'), NO_STREAM);
  await expect(append).rejects.toThrow(WrongExpectedRevision);
  expect(server.calls.read - read).toBeLessThan(10);
});

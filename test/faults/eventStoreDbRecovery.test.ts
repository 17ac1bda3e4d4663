import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { NO_STREAM, StoreUnavailable } from '../../packages/event-log/src/eventStore.ts';
import { stopClock } from '../support/clock.ts';
import { serviceOver } from '../support/eventStoreDbService.ts';
import { cluster, open, subscribed } from '../support/eventStoreDbStore.ts';
import { untilAvailable } from '../support/instances.ts';
import { named, startFakeServer } from '../support/stores.ts';

test('an append that succeeds ends the wait of a dropped subscription for its next attempt', async () => {
  const server = await startFakeServer();
  const { store, streams } = await subscribed(server.url);
  const append = (id: number) => store.append(`plant-alice/${id}`, named('Fern'), NO_STREAM);
  await append(1);
  await expect.poll(() => streams).toHaveLength(1);
  stopClock(); // from here on no wait ends by itself; expect.poll would advance the clock
  server.failReads(1, status.DEADLINE_EXCEEDED);
  server.dropSubscriptions('end');
  while (server.failuresLeft > 0) {
    vi.advanceTimersByTime(1); // the first attempt follows the drop without delay
    await nextTurn();
  }
  for (let id = 2; streams.length < 2; id++) await append(id);
});

test('a read that still fails after an append has succeeded is retried with back-off', async () => {
  const server = await startFakeServer();
  const { store } = await open(server.url);
  const append = (id: number) => store.append(`plant-alice/${id}`, named('Fern'), NO_STREAM);
  await append(1);
  stopClock(); // no wait ends by itself
  const failures = 50;
  server.failReads(failures, status.DEADLINE_EXCEEDED);
  const reading = store.lastPosition().catch((error) => error);
  while (server.failuresLeft === failures) await nextTurn();
  for (let id = 2; id < 20; id++) await append(id);
  expect(failures - server.failuresLeft).toBeLessThanOrEqual(2);
  await store.close();
  expect(await reading).toBeInstanceOf(StoreUnavailable);
});

test('a service that starts on a node that was the leader before keeps its view, and waits for the log', async () => {
  const { first, second, elect, url } = await cluster({ shared: false });
  const id = randomUUID();
  for (const node of [first, second]) node.write('begun', { id });
  elect(second);
  const before = await serviceOver(url);
  expect((await before.alice.create(1, { name: 'Fern' })).status).toBe(200);
  await untilAvailable(before.alice.get);
  await before.close();

  elect(first); // which does not have the plant
  const again = await serviceOver(url, { DATA_DIR: before.dir });
  await expect.poll(() => first.calls.read).toBeGreaterThan(0);
  expect((await again.alice.get()).status).toBe(503);
  elect(second);
  first.notLeader(1, { address: '127.0.0.1', port: second.port });
  expect(await (await untilAvailable(again.alice.get)).json()).toEqual([{ name: 'Fern' }]);
  expect(again.messages()).not.toContain('rebuilding view');
});

import { setImmediate as nextTurn } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { NO_STREAM, StoreUnavailable } from '../../src/eventStore/eventStore.ts';
import { stopClock } from '../support/clock.ts';
import { open, subscribed } from '../support/eventStoreDbStore.ts';
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

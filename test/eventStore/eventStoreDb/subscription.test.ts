import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { afterEach, expect, test, vi } from 'vitest';
import { START } from '../../../src/eventStore/eventStore.ts';
import { Subscription } from '../../../src/eventStore/eventStoreDb/subscription.ts';

afterEach(() => vi.useRealTimers());

/** A subscription whose events arrive as they are pushed, while no time passes. */
function subscribed() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval'] });
  const stream = Object.assign(new Readable({ objectMode: true, highWaterMark: 512, read() {} }), {
    unsubscribe: async () => {},
  });
  const client = { subscribeToAll: () => stream } as unknown as EventStoreDBClient;
  const subscription = new Subscription(client, 'plant-', START);
  const push = (count: number) => {
    for (let i = 0; i < count; i++) stream.push({ event: recordedEvent(BigInt(i + 1)) });
  };
  return { stream, subscription, push };
}

const recordedEvent = (commit: bigint) => ({
  position: { commit, prepare: commit },
  streamId: `plant-alice/${commit}`,
  revision: 0n,
  id: randomUUID(),
  type: 'PlantCreated',
  data: {},
  metadata: {},
});

const turns = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

test('while catching up, events are collected for a few milliseconds', async () => {
  const { subscription, push } = subscribed();
  const next = subscription.next();
  push(3);
  await turns();
  push(2);
  await vi.advanceTimersByTimeAsync(5);
  expect((await next).events).toHaveLength(5);
});

test('while catching up, a full buffer is not waited for', async () => {
  const { subscription, push } = subscribed();
  push(600);
  await turns();
  await vi.advanceTimersByTimeAsync(5); // those that were to be collected before the reader was ready
  expect((await subscription.next()).events).toHaveLength(512);
});

test('an event after the subscription has caught up is not waited for', async () => {
  const { stream, subscription, push } = subscribed();
  stream.emit('caughtUp');
  expect(await subscription.next()).toEqual({ events: [], caughtUp: true });
  push(1);
  expect(await subscription.next()).toMatchObject({ events: { length: 1 }, caughtUp: true });
});

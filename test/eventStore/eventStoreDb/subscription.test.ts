import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { afterEach, expect, test, vi } from 'vitest';
import { START } from '../../../src/eventStore/eventStore.ts';
import { Reader } from '../../../src/eventStore/eventStoreDb/read.ts';
import { Subscription } from '../../../src/eventStore/eventStoreDb/subscription.ts';
import { clientRead } from '../../support/clientRead.ts';

afterEach(() => vi.useRealTimers());

/** A subscription whose events arrive as they are pushed, while no time passes. */
function subscribed(log: readonly ReturnType<typeof recordedEvent>[] = []) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'performance'] });
  const stream = Object.assign(new Readable({ objectMode: true, highWaterMark: 512, read() {} }), {
    unsubscribe: async () => {},
  });
  const readAll = ({ fromPosition, maxCount }: { fromPosition: { commit?: bigint }; maxCount: number }) => {
    const from = fromPosition.commit ?? 0n;
    const page = log.filter(({ position }) => position.commit >= from).slice(0, maxCount);
    return clientRead(page);
  };
  const client = { subscribeToAll: () => stream, readAll } as unknown as EventStoreDBClient;
  const subscription = new Subscription(client, new Reader(client, 'plant-'), 'plant-', START);
  const push = (count: number) => {
    for (let i = 0; i < count; i++) stream.push({ event: recordedEvent(BigInt(i + 1)) });
  };
  return { stream, subscription, push };
}

const recordedEvent = (commit: bigint, streamId = `plant-alice/${commit}`) => ({
  position: { commit, prepare: commit },
  streamId,
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

test('a subscription that is silent although the log has an event for it ends, also after a thousand others', async () => {
  const others = Array.from({ length: 1_000 }, (_, i) => recordedEvent(BigInt(i + 1), '$stats'));
  const { stream, subscription } = subscribed([...others, recordedEvent(1_001n)]);
  stream.emit('caughtUp');
  await subscription.next();
  const next = expect(subscription.next()).rejects.toThrow('silent, although the log has more events');
  for (let comparison = 0; comparison < 2; comparison++) {
    await vi.advanceTimersByTimeAsync(2_000);
    for (let i = 0; i < 100; i++) await turns();
  }
  await next;
});

test('a subscription that is silent since the log has no event for it continues', async () => {
  const others = Array.from({ length: 1_000 }, (_, i) => recordedEvent(BigInt(i + 1), '$stats'));
  const { stream, subscription, push } = subscribed(others);
  stream.emit('caughtUp');
  await subscription.next();
  const next = subscription.next();
  for (let comparison = 0; comparison < 3; comparison++) {
    await vi.advanceTimersByTimeAsync(2_000);
    for (let i = 0; i < 100; i++) await turns();
  }
  push(1);
  expect((await next).events).toHaveLength(1);
});

import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { EventStoreDBClient } from '@eventstore/db-client';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { clientRead } from '../../../../test/support/clientRead.ts';
import { type RecordedEvent, START } from '../../src/eventStore.ts';
import { Subscription } from '../../src/eventStoreDb/subscription.ts';

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
  let checkpoint: (at: bigint) => Promise<void> = async () => {};
  type Filter = {
    checkpointReached: (of: unknown, at: { commit: bigint; prepare: bigint }) => Promise<void>;
  };
  const subscribeToAll = ({ filter }: { filter: Filter }) => {
    checkpoint = (at) => filter.checkpointReached(stream, { commit: at, prepare: at });
    return stream;
  };
  const client = { subscribeToAll, readAll } as unknown as EventStoreDBClient;
  const subscription = new Subscription(client, 'plant-', START);
  const push = (count: number) => {
    for (let i = 0; i < count; i++) stream.push({ event: recordedEvent(BigInt(i + 1)) });
  };
  return { stream, subscription, push, checkpoint };
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

/** The next batch that has events. */
async function nextEvents(subscription: Subscription): Promise<readonly RecordedEvent[]> {
  for (;;) {
    const { events } = await subscription.next();
    if (events.length > 0) return events;
  }
}

const loopTurns = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

test('while catching up, events are collected for a few milliseconds', async () => {
  const { subscription, push } = subscribed();
  const next = subscription.next();
  push(3);
  await loopTurns();
  push(2);
  await vi.advanceTimersByTimeAsync(5);
  expect((await next).events).toHaveLength(5);
});

test('while catching up, a full buffer is not waited for', async () => {
  const { subscription, push } = subscribed();
  push(600);
  await loopTurns();
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

const other = (position: bigint) => recordedEvent(position, '$stats');
const OTHERS = Array.from({ length: 1_000 }, (_, i) => other(BigInt(i + 1)));

/** A subscription to this log that has caught up. */
async function caughtUp(log: Parameters<typeof subscribed>[0]) {
  const all = subscribed(log);
  all.stream.emit('caughtUp');
  await all.subscription.next();
  return all;
}

/** Lets the time pass in which a silent subscription is compared with the log this number of times. */
async function comparisons(count: number): Promise<void> {
  for (let comparison = 0; comparison < count; comparison++) {
    await vi.advanceTimersByTimeAsync(2_000);
    for (let i = 0; i < 100; i++) await loopTurns();
  }
}

test('a subscription that is silent although the log has an event for it ends, also after a thousand others', async () => {
  const { subscription } = await caughtUp([...OTHERS, recordedEvent(1_001n)]);
  const next = expect(nextEvents(subscription)).rejects.toThrow('silent, although the log has more events');
  await comparisons(4);
  await next;
});

test('a subscription that is silent since the log has no event for it continues', async () => {
  const { subscription, push } = await caughtUp(OTHERS);
  const next = nextEvents(subscription);
  await comparisons(3);
  push(1);
  expect(await next).toHaveLength(1);
});

describe('how far the log was read', () => {
  const readTo = ({ position, id }: ReturnType<typeof recordedEvent>) => ({
    position: position.commit,
    eventId: id,
  });
  const second = async () => {
    await vi.advanceTimersByTimeAsync(1_000);
    for (let i = 0; i < 20; i++) await loopTurns();
  };

  test('is the event of another stream at the checkpoint of the server, or the first one after it', async () => {
    const log = [1n, 2n, 4n].map(other);
    const { subscription, checkpoint } = await caughtUp(log);
    for (const [at, index] of [
      [2n, 1],
      [3n, 2],
    ] as const) {
      await checkpoint(at);
      const next = subscription.next();
      await second();
      expect(await next).toEqual({ events: [], caughtUp: true, readTo: readTo(log[index] as never) });
    }
  });

  test('is never an event of its own streams, nor before one', async () => {
    const log = [other(1n), recordedEvent(2n), other(3n)];
    const { stream, subscription, checkpoint } = await caughtUp(log);
    const next = subscription.next();
    await checkpoint(2n);
    await second();
    stream.push({ event: log[1] });
    expect(await next).toMatchObject({ events: { length: 1 } });
    await checkpoint(1n);
    const later = subscription.next();
    await second();
    await checkpoint(3n);
    await second();
    expect(await later).toEqual({ events: [], caughtUp: true, readTo: readTo(log[2] as never) });
  });

  test('waits until the events before it were taken', async () => {
    const log = [recordedEvent(1n), other(2n)];
    const { stream, subscription, checkpoint } = await caughtUp(log);
    stream.push({ event: log[0] });
    await checkpoint(2n);
    await second();
    expect(await subscription.next()).toEqual({ events: [expect.anything()], caughtUp: true });
    const next = subscription.next();
    await second();
    expect(await next).toEqual({ events: [], caughtUp: true, readTo: readTo(log[1] as never) });
  });

  test('is found by itself in a log whose other events are fewer than between two checkpoints', async () => {
    const log = [other(1n), other(2n)];
    const { subscription } = await caughtUp(log);
    const next = subscription.next();
    for (let i = 0; i < 4; i++) await second();
    expect(await next).toEqual({ events: [], caughtUp: true, readTo: readTo(log[1] as never) });
  });
});

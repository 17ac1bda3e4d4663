import { subscribed as subscribedStore } from '@event-sourced/testing/eventStoreDbStore';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { expect, onTestFinished, test } from 'vitest';
import { START } from '../../event-log/src/eventStore.ts';
import { openClient } from '../src/connectionString.ts';
import { CallFailed } from '../src/protocol.ts';
import { Subscription } from '../src/subscription.ts';
import { SILENCE_TIMEOUT_MS } from '../src/tail.ts';
import type { FakeEvent } from '../src/testing/server.ts';

/** A subscription to a server with this number of events. */
async function subscribed(events: number) {
  const server = await startFakeServer();
  for (let i = 0; i < events; i++) server.write(`plant-alice/${i}`);
  const client = openClient(server.url);
  const subscription = new Subscription(client, 'plant-', START);
  onTestFinished(() => subscription.end(new CallFailed('transient', 'the test is over')));
  await subscription.confirmed;
  return { server, subscription };
}

test('what has arrived is delivered together, and the rest is not read before', async () => {
  const { server, subscription } = await subscribed(0);
  for (let i = 0; i < 2_000; i++) server.write(`plant-alice/${i}`);
  let received = 0;
  for (let largest = 0; received < 2_000; received += largest) {
    largest = (await subscription.next()).events.length;
    expect(largest).toBeLessThanOrEqual(512);
  }
  expect(received).toBe(2_000);
});

test('events of other streams are reported as the position that was searched', async () => {
  const { server, subscription } = await subscribed(0);
  for (let i = 0; i < 20_000; i++) server.write('other');
  const position = server.log.all.at(-1)?.position;
  expect(await subscription.next()).toEqual({ events: [], searchedTo: position });
});

test('positions that are out of order end a subscription', async () => {
  const { server, subscription } = await subscribed(0);
  const [first] = [server.write('plant-alice/1'), server.write('plant-alice/2')];
  (server.log.all as FakeEvent[]).push(first);
  server.write('plant-alice/3');
  const takeAll = async () => {
    for (;;) await subscription.next();
  };
  await expect(takeAll()).rejects.toThrow('out of order');
});

/** Lets the time pass in which a silent subscription is compared with the log, until a read has begun. */
async function compared({
  server,
  clock,
}: {
  server: { calls: { read: number } };
  clock: ReturnType<typeof slowClock>;
}) {
  const { read } = server.calls;
  await expect
    .poll(() => {
      clock.pass(SILENCE_TIMEOUT_MS / 10);
      return server.calls.read;
    })
    .toBeGreaterThan(read);
}

test('a subscription that is silent although the log has an event for it is renewed', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  const { streams, drops } = await subscribedStore(server.url);
  server.muteSubscriptions();
  for (let i = 0; i < 1_000; i++) server.write('other');
  server.write('plant-alice/1');
  await expect
    .poll(() => {
      clock.pass(SILENCE_TIMEOUT_MS / 10);
      return streams;
    })
    .toEqual(['plant-alice/1']);
  expect(drops()[0]?.reason).toBe('no events arrive, although the log has more');
});

test('a subscription that is silent since the log has no event for it continues', async () => {
  const clock = slowClock();
  const server = await startFakeServer();
  const { streams, drops } = await subscribedStore(server.url);
  for (let i = 0; i < 1_000; i++) server.write('other');
  for (let comparisons = 0; comparisons < 3; comparisons++) await compared({ server, clock });
  server.write('plant-alice/1');
  await expect.poll(() => streams).toEqual(['plant-alice/1']);
  expect(drops()).toEqual([]);
});

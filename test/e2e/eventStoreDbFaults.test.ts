import { describe, expect, test } from 'vitest';
import { NO_STREAM, StoreUnavailable } from '../../src/eventStore/eventStore.ts';
import { event } from '../eventStore/contract.ts';
import type { Drop } from '../fakeEventStoreDb/server.ts';
import { cluster, open, subscribed } from '../support/eventStoreDbStore.ts';
import { expectConsistent, FAULTS, injectAndHeal, Load, twoInstances } from '../support/load.ts';
import { slowClock } from '../support/slowClock.ts';
import { startFakeServer } from '../support/stores.ts';

// One case of each kind of failure. All of them, under load, are in test/faults.

/** The timeout of an attempt without a response, in milliseconds. */
const ATTEMPT_TIMEOUT_MS = 3_000;

const INFO = 30;
const WARN = 40;

test('two instances under load survive an outage of the server', async () => {
  const server = await startFakeServer();
  const instances = await twoInstances(server.url);
  const load = new Load({ instances, log: server.log, pauseMs: 100 });
  await load.more(24);
  await injectAndHeal(FAULTS.gone, { server, instances, load });
  await load.more(24);
  await load.stop();
  await expectConsistent(load, { instances, nodes: [server] });
});

describe('an append', () => {
  test('to a frozen server completes when it resumes, and is stored and received once', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const { store, streams, drops } = await subscribed(server.url);
    await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    await expect.poll(() => streams).toEqual(['plant-alice/1']);
    server.freeze();
    clock.pass(1);
    const ivy = event('Ivy');
    const appending = store.append('plant-alice/2', ivy, NO_STREAM);
    clock.pass(ATTEMPT_TIMEOUT_MS);
    const reason = expect.stringMatching(/^no response for \d+ ms$/);
    await expect.poll(drops).toEqual([{ level: WARN, reason }]);
    server.thaw();
    const { position } = await appending;
    expect(server.log.stream('plant-alice/2')).toMatchObject([{ id: ivy.id, position }]);
    await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
  });

  test('whose response is lost is retried, and stored once', async () => {
    const clock = slowClock();
    const server = await startFakeServer();
    const { store } = await open(server.url);
    server.loseResponses(1);
    const fern = event('Fern');
    const appending = store.append('plant-alice/1', fern, NO_STREAM);
    await expect.poll(() => server.log.stream('plant-alice/1')).toHaveLength(1);
    clock.pass(ATTEMPT_TIMEOUT_MS);
    const { position } = await appending;
    expect(server.log.stream('plant-alice/1')).toMatchObject([{ id: fern.id, position }]);
  });
});

test('a dropped subscription is resubscribed, with the reason in one log line', async () => {
  const ways: [Drop, number, RegExp][] = [
    ['end', INFO, /^the server ended the subscription$/],
    ['slow', INFO, /Consumer too slow/],
    ['notLeader', INFO, /leader/i],
    ['reset', WARN, /ECONNRESET|Connection dropped/],
  ];
  const server = await startFakeServer();
  const { streams, drops } = await subscribed(server.url);
  const written: string[] = [];
  for (const [how, level, reason] of ways) {
    const isLogged = () => drops().some((drop) => drop.level === level && reason.test(drop.reason ?? ''));
    // Retry, if on a slow machine the subscription was dropped at the same time for another reason.
    for (let attempt = 1; !isLogged(); attempt++) {
      await expect.poll(() => server.openSubscriptions).toBe(1);
      server.dropSubscriptions(how);
      written.push(`plant-alice/${how}-${attempt}`);
      server.write(written.at(-1) ?? '');
      await expect.poll(() => streams).toEqual(written);
    }
  }
  expect(drops().length).toBeLessThanOrEqual(server.calls.subscribe - 1);
});

test('a cluster that loses its leader continues appends and subscriptions on the next one', async () => {
  const { first, second, elect, url } = await cluster({ shared: true });
  const { store, streams, drops } = await subscribed(url);
  await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  await first.stop();
  elect(second);
  const ivy = event('Ivy');
  let unavailable: unknown;
  do {
    unavailable = await store.append('plant-alice/2', ivy, NO_STREAM).then(
      () => undefined,
      (error) => error,
    );
    if (unavailable) expect(unavailable).toBeInstanceOf(StoreUnavailable);
  } while (unavailable);
  await expect.poll(() => streams).toEqual(['plant-alice/1', 'plant-alice/2']);
  expect(second.calls.appended).toBe(1);
  expect(drops().length).toBeGreaterThan(0);
});

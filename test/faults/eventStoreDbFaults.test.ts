import { describe, expect, onTestFinished, test } from 'vitest';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { type Drop, FakeLog } from '../fakeEventStoreDb/server.ts';
import { cluster } from '../support/eventStoreDbStore.ts';
import {
  dropsIn,
  expectConsistent,
  expectRecovery,
  FAULTS,
  injectAndHeal,
  Load,
  resourcesInUse,
  twoInstances,
} from '../support/load.ts';
import { overFakeServer, startFakeServer } from '../support/stores.ts';

describe('two instances under load survive', () => {
  test.each(Object.values(FAULTS))('$what', async (fault) => {
    const server = await startFakeServer();
    const instances = await twoInstances(server.url);
    const load = new Load({ instances, log: server.log });
    await load.more();
    const { expectNoMore } = resourcesInUse();
    await injectAndHeal(fault, { server, instances, load });
    await expectRecovery(load);
    await expectConsistent(load, { instances, nodes: [server] });
    await expectNoMore();
  });

  test('a cluster that loses its leader', async () => {
    const { first, second, elect, url } = await cluster({ shared: true });
    const nodes = [first, second];
    const instances = await twoInstances(url);
    const load = new Load({ instances, log: first.log });
    await load.more();
    const { expectNoMore } = resourcesInUse();
    await first.stop();
    await expect
      .poll(() => dropsIn(instances).every(({ length }) => length > 0), { interval: 100 })
      .toBe(true);
    elect(second, { otherIsAlive: false });
    await load.more();
    await first.restart();
    elect(second);
    await expectRecovery(load);
    await expectConsistent(load, { instances, nodes });
    await expectNoMore();
    expect(nodes.map(({ openSubscriptions }) => openSubscriptions)).toEqual([0, 2]);
  });
});

test('a silent subscription is resubscribed while other writers append', async () => {
  const server = await startFakeServer();
  const store = await overFakeServer(server.url);
  const otherWriter = setInterval(() => server.write('other-1'), 10);
  onTestFinished(() => clearInterval(otherWriter));
  const leaving = new AbortController();
  const found: string[] = [];
  for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
    found.push(...events.map(({ stream }) => stream));
    if (found.length > 0) leaving.abort();
    else if (caughtUp) {
      server.muteSubscriptions();
      const written = server.log.all.length;
      await expect.poll(() => server.log.all.length).toBeGreaterThan(written + 100);
      server.write('plant-alice/1');
    }
  }
  expect(found).toEqual(['plant-alice/1']);
});

test('a slow subscriber that is dropped repeatedly receives each event once', async () => {
  const log = new FakeLog();
  for (let i = 0; i < 10_000; i++) log.append(`plant-alice/${i}`, { data: { text: 'x'.repeat(1_000) } });
  const server = await startFakeServer({ log });
  const store = await overFakeServer(server.url);
  const drops: Drop[] = ['end', 'slow', 'cancelled', 'unavailable', 'reset', 'internal', 'notLeader'];
  const leaving = new AbortController();
  const positions: Position[] = [];
  for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
    const [how] = server.openSubscriptions > 0 ? drops.splice(0, 1) : [];
    if (how !== undefined) {
      server.dropSubscriptions(how);
      await expect.poll(() => server.openSubscriptions).toBe(0);
    }
    positions.push(...events.map(({ position }) => position));
    if (!caughtUp) continue;
    if (drops.length === 0) leaving.abort();
    else log.append('plant-bob/1');
  }
  expect(drops).toEqual([]);
  expect(positions).toHaveLength(log.all.length);
  expect(positions).toEqual(log.all.map(({ position }) => position));
});

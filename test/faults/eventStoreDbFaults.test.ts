import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type EventStore, type Position, START } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import { startDouble } from '../copy/logs.ts';
import { DoubleLog, type Drop, type EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import {
  belongings,
  dropsIn,
  expectRecovery,
  expectUnharmed,
  FAULTS,
  Load,
  meet,
  twoInstances,
} from '../support/load.ts';

describe('two instances under the load of two users take no harm from', () => {
  test.each(Object.values(FAULTS))('$what', async (fault) => {
    const server = await startDouble();
    const instances = await twoInstances(server.url);
    const load = new Load({ instances, log: server.log });
    await load.more();
    const { expectNoMore } = belongings();
    await meet(fault, { server, instances, load });
    await expectRecovery(load);
    await expectUnharmed(load, { instances, nodes: [server] });
    await expectNoMore();
  });

  test('a cluster that loses its leader', async () => {
    const first = await startDouble();
    const second = await startDouble({ log: first.log });
    const nodes = [first, second];
    const elect = (leader: EventStoreDbDouble, isAlive: boolean) => {
      const members = nodes.map((node) =>
        node === leader
          ? { port: node.port, state: 'leader' as const }
          : { port: node.port, state: 'follower' as const, isAlive },
      );
      for (const node of nodes) node.setMembers(members);
    };
    elect(first, true);
    const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const instances = await twoInstances(`esdb://${hosts}?tls=false`);
    const load = new Load({ instances, log: first.log });
    await load.more();
    const { expectNoMore } = belongings();
    await first.stop();
    await expect
      .poll(() => dropsIn(instances).every(({ length }) => length > 0), { interval: 100 })
      .toBe(true);
    elect(second, false);
    await load.more();
    await first.restart();
    elect(second, true);
    await expectRecovery(load);
    await expectUnharmed(load, { instances, nodes });
    await expectNoMore();
    expect(nodes.map(({ openSubscriptions }) => openSubscriptions)).toEqual([0, 2]);
  });
});

test('a subscription that falls silent while others write a lot is made again', async () => {
  const server = await startDouble();
  const store = await open(server.url);
  const foreign = setInterval(() => server.write('other-1'), 10);
  onTestFinished(() => clearInterval(foreign));
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

test('a subscriber that is slow and dropped again and again misses no event, and gets none twice', async () => {
  const log = new DoubleLog();
  for (let i = 0; i < 10_000; i++) log.append(`plant-alice/${i}`, { data: { text: 'x'.repeat(1_000) } });
  const server = await startDouble({ log });
  const store = await open(server.url);
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

async function open(url: string): Promise<EventStore> {
  const store = await openEventStoreDb({ url, prefix: 'plant-', log: pino({ level: 'silent' }) });
  onTestFinished(() => store.close());
  return store;
}

import { setTimeout as pause } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { openEventStoreDb } from '../../src/eventStore/eventStoreDb.ts';
import {
  DoubleLog,
  type DoubleOptions,
  type Drop,
  EventStoreDbDouble,
} from '../support/eventStoreDbDouble.ts';
import {
  belongings,
  expectRecovery,
  expectUnharmed,
  FAULTS,
  type Instances,
  Load,
  twoInstances,
} from '../support/load.ts';

/** How long a fault lasts, and what goes on before it, in milliseconds. */
const A_WHILE = 1_000;
const AT_FIRST = 200;
const DROPS: Drop[] = ['end', 'slow', 'cancelled', 'unavailable', 'reset', 'internal', 'notLeader'];

describe('two instances under the load of two users take no harm from', () => {
  test.each(FAULTS)('$what', async ({ inject, heal, lasts = A_WHILE, says }) => {
    const server = await started();
    const instances = await twoInstances(server.url);
    const load = new Load({ instances, log: server.log });
    await pause(AT_FIRST);
    const { expectNoMore } = belongings();
    await inject(server);
    await pause(lasts);
    await heal?.(server);
    await expectRecovery(load);
    await expectUnharmed(load, { instances, nodes: [server] });
    await expectNoMore();
    const drops = dropsIn(instances);
    if (says === undefined) {
      const again = server.calls.subscribe - instances.length;
      expect(drops.flat().length).toBeLessThanOrEqual(again);
    } else {
      const said = says === 'nothing' ? [] : [{ ...says, reason: expect.stringMatching(says.reason) }];
      expect(drops).toEqual([said, said]);
    }
  });

  test('a cluster that loses its leader', async () => {
    const first = await started();
    const second = await started({ log: first.log });
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
    await pause(AT_FIRST);
    const { expectNoMore } = belongings();
    await first.stop();
    await pause(A_WHILE / 2);
    elect(second, false);
    await pause(A_WHILE);
    await first.restart();
    elect(second, true);
    await expectRecovery(load);
    await expectUnharmed(load, { instances, nodes });
    await expectNoMore();
    expect(nodes.map(({ openSubscriptions }) => openSubscriptions)).toEqual([0, 2]);
    for (const drops of dropsIn(instances)) expect(drops).toHaveLength(1);
  });
});

describe('whoever is slow to follow', () => {
  const plants = (count: number): DoubleLog => {
    const log = new DoubleLog();
    for (let i = 0; i < count; i++) log.append(`plant-alice/${i}`, { data: { text: 'x'.repeat(1_000) } });
    return log;
  };

  /** The positions that a subscription gives until it has caught up, with something to do after each batch. */
  async function followed(url: string, work: (batch: number) => Promise<unknown>): Promise<Position[]> {
    const store = await openEventStoreDb({ url, prefix: 'plant-', log: pino({ level: 'silent' }) });
    onTestFinished(() => store.close());
    const leaving = new AbortController();
    const positions: Position[] = [];
    let batch = 0;
    for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
      await work(batch++);
      positions.push(...events.map(({ position }) => position));
      if (caughtUp) leaving.abort();
    }
    return positions;
  }

  test('holds back the server, so that nothing heaps up on the way, and misses nothing', async () => {
    const log = plants(20_000);
    const expected = log.all.map(({ position }) => position);
    const { url } = await started({ log });
    let sent = 0;
    const watched = new Proxy(log.all, {
      get(all, index) {
        sent = Math.max(sent, Number(index) || 0);
        return Reflect.get(all, index);
      },
    });
    Object.defineProperty(log, 'all', { value: watched });
    const positions = await followed(url, async (batch) => {
      if (batch > 0) return;
      await pause(A_WHILE);
      expect(sent).toBeLessThan(4_000);
    });
    expect(positions).toHaveLength(expected.length);
    expect(positions).toEqual(expected);
  });

  test('and is dropped again and again misses nothing, and is given nothing twice', async () => {
    const log = plants(10_000);
    const server = await started({ log });
    const drops = [...DROPS];
    const positions = await followed(server.url, async () => {
      const [how] = server.openSubscriptions > 0 ? drops.splice(0, 1) : [];
      if (how === undefined) return;
      server.dropSubscriptions(how);
      await pause(50);
    });
    expect(drops).toEqual([]);
    expect(positions).toHaveLength(log.all.length);
    expect(positions).toEqual(log.all.map(({ position }) => position));
  });
});

async function started(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
  const server = await EventStoreDbDouble.start(options);
  onTestFinished(() => server.stop());
  return server;
}

/** What each instance has said of its subscription. */
function dropsIn(instances: Instances): { level: number; reason: string }[][] {
  return instances.map((instance) =>
    instance
      .log()
      .filter(({ msg }) => msg === 'EventStoreDB has dropped the subscription: subscribing again')
      .map(({ level, reason }) => ({ level, reason })),
  );
}

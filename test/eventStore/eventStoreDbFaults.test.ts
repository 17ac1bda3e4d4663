import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { NO_STREAM, type Position, START } from '../../src/eventStore/eventStore.ts';
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
import { startService } from '../support/service.ts';

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

test('a server whose reads fail for reasons of its own keeps the view that is there', async () => {
  const server = await started();
  const service = await startService({ EVENTSTOREDB_URL: server.url });
  const alice = service.as('alice');
  expect((await alice.create(1, { name: 'Fern' })).status).toBe(200);
  expect(await alice.list()).toEqual([{ name: 'Fern' }]);
  server.dropSubscriptions('end');
  server.failReads(4, status.UNKNOWN);
  server.write('plant-alice/2', {
    type: 'PlantCreated',
    data: { id: '2', user: 'alice', name: 'Ivy' },
  });
  await expect.poll(() => alice.list(), { timeout: 20_000 }).toHaveLength(2);
  expect(service.log().map(({ msg }) => msg)).not.toContain('the view is built anew');
});

describe('two nodes with a log each', () => {
  /** The first event is on both; the service begins at the leader. */
  async function leaderAndFollower() {
    const begun = { id: randomUUID() };
    const [leader, follower] = [await started(), await started()];
    for (const node of [leader, follower]) node.write('begun', begun);
    const elect = (one: EventStoreDbDouble | undefined) => {
      for (const node of [leader, follower])
        node.setMembers(
          [leader, follower].map((it) => ({
            port: it.port,
            state: it === one ? ('leader' as const) : ('follower' as const),
          })),
        );
    };
    elect(leader);
    const url = `esdb://127.0.0.1:${leader.port},127.0.0.1:${follower.port}?tls=false`;
    return { leader, follower, elect, url };
  }

  test('of which the leader dies, and the other lags: no view is thrown away, no list gets shorter', async () => {
    const { leader, elect, url } = await leaderAndFollower();
    const service = await startService({ EVENTSTOREDB_URL: url });
    const alice = service.as('alice');
    expect((await alice.create(1, { name: 'Fern' })).status).toBe(200);
    expect(await alice.list()).toEqual([{ name: 'Fern' }]);
    await leader.stop();
    elect(undefined);
    for (let i = 0; i < 8; i++) {
      await pause(A_WHILE / 4);
      expect(await alice.list()).toEqual([{ name: 'Fern' }]);
    }
    expect(service.log().map(({ msg }) => msg)).not.toContain('the view is built anew');
  });

  test('of which the leader is cut off: appends go to the next one', async () => {
    const { leader, follower, elect, url } = await leaderAndFollower();
    const store = await openEventStoreDb({ url, prefix: 'plant-', log: pino({ level: 'silent' }) });
    onTestFinished(() => store.close());
    const fern = { id: randomUUID(), type: 'PlantCreated', data: {}, metadata: {} };
    await store.append('plant-alice/1', fern, NO_STREAM);
    elect(follower);
    leader.busy(1_000);
    await store.append('plant-alice/2', { ...fern, id: randomUUID() }, NO_STREAM);
    expect(follower.log.stream('plant-alice/2')).toHaveLength(1);
  });

  test('of which one falls silent where others write a lot: its subscribers begin again', async () => {
    const { leader, url } = await leaderAndFollower();
    const store = await openEventStoreDb({ url, prefix: 'plant-', log: pino({ level: 'silent' }) });
    onTestFinished(() => store.close());
    const leaving = new AbortController();
    let seen = 0;
    const following = (async () => {
      for await (const { events, caughtUp } of store.subscribe({ after: START, signal: leaving.signal })) {
        seen += events.length;
        if (caughtUp && seen === 0) leader.muteSubscriptions();
        if (seen > 0) leaving.abort();
      }
    })();
    const foreign = setInterval(() => leader.write('other-1'), 10);
    await pause(A_WHILE);
    leader.write('plant-alice/1');
    await following;
    clearInterval(foreign);
    expect(seen).toBe(1);
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

import { setTimeout as pause } from 'node:timers/promises';
import { cluster } from '@event-sourced/testing/eventStoreDbStore';
import type { Random } from '@event-sourced/testing/random';
import { overFakeServer } from '@event-sourced/testing/stores';
import { status } from '@grpc/grpc-js';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import type { Drop, FakeEventStoreDb } from '../../packages/event-store-db/src/testing/server.ts';
import { logOf, startInstances } from './instances.ts';
import type { System } from './run.ts';

const DROPS: Drop[] = ['end', 'slow', 'cancelled', 'unavailable', 'reset', 'internal', 'notLeader'];
/** Two instances of the service over a cluster of two fake servers with one log, until the end of the test. */
export async function fakeCluster(): Promise<System & { nodes: readonly FakeEventStoreDb[] }> {
  const { first, second, elect, url } = await cluster({ shared: true });
  const nodes = [first, second] as const;
  const service = await startInstances(2, { EVENTSTOREDB_URL: url, EVENTSTOREDB_TIMEOUT: '3' });
  const store = await overFakeServer(url);
  const log = logOf(store);
  let leader: FakeEventStoreDb = first;
  const other = (): FakeEventStoreDb => (leader === first ? second : first);

  /** The other node becomes the leader; the old one refuses some calls. */
  const changeLeader = (random: Random): void => {
    const old = leader;
    leader = other();
    elect(leader);
    old.notLeader(random.below(10), { address: '127.0.0.1', port: leader.port });
  };

  const faults: System['faults'] = {
    'the leader changes while reads are in flight': async (random) => {
      for (const node of nodes) node.pauseReadsAfter(random.below(40));
      await pause(random.below(200));
      changeLeader(random);
      await pause(random.below(200));
      for (const node of nodes) node.resumeReads();
    },
    'the leader resigns': async (random) => {
      elect(undefined);
      await pause(random.below(300));
      changeLeader(random);
    },
    'the leader is killed': async (random) => {
      const killed = leader;
      await killed.stop();
      leader = other();
      elect(leader, { otherIsAlive: false });
      await pause(random.below(800));
      await killed.restart();
      elect(leader);
    },
    'the server dies before it delivers what it has acknowledged': async (random) => {
      for (const node of nodes) node.muteSubscriptions();
      await pause(random.below(200));
      for (const node of nodes) await node.stop();
      // Now and then for longer than a list waits.
      await pause(random.below(4) === 0 ? 2 * REACHED_TIMEOUT_MS : random.below(800));
      for (const node of nodes) await node.restart();
    },
    'the leader is frozen': async (random) => {
      leader.freeze();
      await pause(random.below(1_500));
      leader.thaw();
    },
    'connections break': async () => {
      for (const node of nodes) node.breakConnections();
    },
    'the server is slow': async (random) => {
      for (const node of nodes) node.slow(random.below(100));
      await pause(random.below(500));
      for (const node of nodes) node.slow(0);
    },
    'reads fail': async (random) => {
      leader.failReads(
        1 + random.below(3),
        random.pick([status.UNKNOWN, status.UNAVAILABLE, status.INTERNAL]),
      );
    },
    'responses are lost': async (random) => {
      leader.loseResponses(random.below(3));
      leader.breakAfterStoring(random.below(3));
    },
    'appends fail': async (random) => {
      leader.busy(random.below(20));
      leader.timeOut(random.below(10));
      leader.failAppends(random.below(4), status.INTERNAL);
    },
    'the client breaks': async () => {
      leader.failFeatures(2);
      leader.failAppends(2, status.INTERNAL); // so that there are new clients
    },
    'subscriptions are dropped': async (random) => {
      for (const node of nodes) node.dropSubscriptions(random.pick(DROPS));
    },
    'subscriptions fall silent': async () => {
      for (const node of nodes) node.muteSubscriptions();
    },
    'an instance restarts': async (random) => random.pick(service.instances).restart(),
  };

  return {
    ...service,
    nodes,
    faults,
    async heal() {
      for (const node of nodes) node.clearFailures();
      await service.upToDate((await log.events()).length);
    },
    ...log,
  };
}

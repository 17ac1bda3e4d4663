import { status } from '@grpc/grpc-js';
import { expect } from 'vitest';
import { type EventStore, NO_STREAM } from '../../event-log/src/eventStore.ts';
import { event, type Interrupted, type Open, STREAM_PREFIX } from '../../event-log/src/testing/contract.ts';
import type { FakeEventStoreDb } from '../../event-store-db/src/testing/server.ts';
import { slowClock } from './slowClock.ts';
import { openOver, startFakeServer } from './stores.ts';

const servers = new WeakMap<EventStore, FakeEventStoreDb>();

/** Opens stores, each with its own fake server. */
export const openOnFake: Open = async (again) => {
  const server = (again && servers.get(again)) ?? (await startFakeServer());
  const store = await openOver(server.url, STREAM_PREFIX);
  servers.set(store, server);
  return store;
};

const clocks = new WeakMap<EventStore, ReturnType<typeof slowClock>>();

/** The same, for reads that are interrupted: until then, time passes slowly, or not at all. */
export const openToInterrupt: Open = async (again) => {
  const clock = (again && clocks.get(again)) ?? slowClock();
  const store = await openOnFake(again);
  clocks.set(store, clock);
  return store;
};

type Interrupt = (server: FakeEventStoreDb, store: EventStore) => unknown;

/** Interrupts the reads of a store, which then knows its log ID, when all reads of more than one event have paused. */
function interruptedBy(interrupt: Interrupt): Interrupted {
  return async (store, after, start) => {
    const server = servers.get(store) as FakeEventStoreDb;
    const clock = clocks.get(store) as ReturnType<typeof slowClock>;
    await store.logId();
    server.pauseReadsAfter(after);
    // Until all have paused, a slow machine may need longer than their timeouts.
    const reads = await clock.stopped(async () => {
      const started = start();
      for (const read of started) read.catch(() => {});
      await expect.poll(() => server.pausedReads).toBe(started.length - (after === 0 ? 1 : 3));
      await interrupt(server, store);
      return { started };
    });
    server.resumeReads();
    return reads.started;
  };
}

/** A call fails; then the client cancels its open reads. */
function cancelledBy(call: Interrupt): Interrupt {
  return async (server, store) => {
    const { openReads, calls } = server;
    const expected = calls.cancelled + openReads;
    call(server, store);
    await expect.poll(() => calls.cancelled).toBeGreaterThanOrEqual(expected);
  };
}

/** The same, by an append that changes nothing, since its stream exists. */
const byAppend = (fail: (server: FakeEventStoreDb) => void): Interrupted =>
  interruptedBy(
    cancelledBy((server, store) => {
      fail(server);
      store.append(`${STREAM_PREFIX}alice/1`, event('again'), NO_STREAM).catch(() => {});
    }),
  );

/** A change of the leader ends the reads of the client, without an error. */
export const LEADER_CHANGES = {
  'an append finds that the leader has changed': byAppend((server) => server.notLeader(1)),
  'a read finds that the leader has changed': interruptedBy(
    cancelledBy((server, store) => {
      server.notLeader(1);
      store.readStream(`${STREAM_PREFIX}alice/1`, 1).catch(() => {});
    }),
  ),
};

/** What else ends reads, with an error. */
export const FAILURES = {
  'the client closes its channel': byAppend((server) => server.failAppends(1, status.UNAVAILABLE)),
  'the client is replaced': byAppend((server) => server.failAppends(1, status.INTERNAL)),
  'the server cancels them': interruptedBy((server) => server.cancelReads()),
  'the connection breaks': interruptedBy((server) => server.breakConnections()),
  'the server restarts': interruptedBy(async (server) => {
    await server.stop();
    await server.restart();
  }),
};

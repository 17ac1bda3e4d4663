import { expect, onTestFinished, test } from 'vitest';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { type Drop, FakeLog } from '../fakeEventStoreDb/server.ts';
import { overFakeServer, startFakeServer } from '../support/stores.ts';

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

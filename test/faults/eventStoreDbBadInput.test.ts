import { open, subscribed } from '@event-sourced/testing/eventStoreDbStore';
import { slowClock } from '@event-sourced/testing/slowClock';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type EventStore,
  LogReplaced,
  NO_STREAM,
  type Position,
} from '../../packages/event-log/src/eventStore.ts';
import { event } from '../../packages/event-log/src/testing/contract.ts';
import { FakeLog } from '../../packages/event-store-db/src/testing/server.ts';

/** The positions before, between and after two events, and what no log has. */
const NO_POSITIONS: [string, (first: Position, last: Position) => bigint][] = [
  ['before the first event', () => 1n],
  ['in the middle of an event', (first) => first + 1n],
  ['after the last event', (_, last) => last + 1n],
  ['far beyond the end', () => 2n ** 63n - 1n],
  ['that is not a signed 64-bit integer', () => 2n ** 63n],
  ['that is negative', () => -1n],
];

/** More than a message, and more than an append. */
const TOO_LONG = [2 ** 24, 2 ** 20];

/** A store with a subscriber, the positions of its two events, and a check that its connection is still used. */
async function connected(version: '23.10' | '24.2') {
  const server = await startFakeServer({ version });
  let connections = 0;
  const count = (): void => void connections++;
  process.on('worker', count);
  onTestFinished(() => void process.off('worker', count));
  const { store, drops } = await subscribed(server.url);
  const first = await store.append('plant-alice/1', event('Fern'), NO_STREAM);
  const last = await store.append('plant-alice/2', event('Ivy'), NO_STREAM);
  return {
    store,
    at: (position: (first: Position, last: Position) => bigint) => position(first.position, last.position),
    /** Expects that other callers have noticed nothing. */
    expectUndisturbed: async () => {
      await store.append('plant-bob/1', event('Oak'), NO_STREAM);
      expect({ connections, drops: drops() }).toEqual({ connections: 1, drops: [] });
    },
  };
}

const subscribe = (store: EventStore, after: Position) =>
  store.subscribe({ after, signal: new AbortController().signal })[Symbol.asyncIterator]();

describe.each(['23.10', '24.2'] as const)(
  'with EventStoreDB %s, no other caller notices that one',
  (version) => {
    test('reads at positions at which no event starts', async () => {
      const { store, at, expectUndisturbed } = await connected(version);
      for (const [what, position] of NO_POSITIONS) {
        expect(await store.readEvent(at(position)), what).toBeUndefined();
        const page = store.readAll({ after: at(position), limit: 10 });
        await expect(page, what).rejects.toThrow(LogReplaced);
        const earlier = store.readBackwards({ before: at(position), limit: 10 });
        await expect(earlier, what).rejects.toThrow(LogReplaced);
        await expect(subscribe(store, at(position)).next(), what).rejects.toThrow(LogReplaced);
      }
      await expectUndisturbed();
    });

    test('appends an event that is too large', async () => {
      slowClock();
      const { store, expectUndisturbed } = await connected(version);
      for (const length of TOO_LONG) {
        const append = store.append('plant-eve/1', event('x'.repeat(length)), NO_STREAM);
        await expect(append).rejects.toThrow();
      }
      expect(await store.readStream('plant-eve/1', 10)).toEqual([]);
      await expectUndisturbed();
    });
  },
);

/** An older backup of a log, which has grown: at the position of the log's last event, no event starts. */
function grownBackupOf({ all }: FakeLog): FakeLog {
  const log = new FakeLog();
  const [begun, first] = all;
  for (const event of [begun, first]) if (event) log.append(event.stream, event);
  const name = 'Fern'.repeat(100);
  for (const id of ['8', '9'])
    log.append(`plant-alice/${id}`, { type: 'PlantCreated', data: { id, user: 'alice', name } });
  const position = all.at(-1)?.position;
  expect(log.all.at(-1)?.position).toBeGreaterThan(position ?? 0n);
  expect(log.all.map((event) => event.position)).not.toContain(position);
  return log;
}

test('a subscription that has received no event ends if its log is replaced by an older backup that has grown', async () => {
  const server = await startFakeServer();
  const { store } = await open(server.url);
  for (const id of [1, 2, 3]) await store.append(`plant-alice/${id}`, event('Fern'), NO_STREAM);
  const subscription = subscribe(store, await store.lastPosition());
  expect((await subscription.next()).value).toEqual({ events: [], caughtUp: true });
  const next = subscription.next();
  await server.stop();
  await startFakeServer({ port: server.port, log: grownBackupOf(server.log) });
  await expect(next).rejects.toThrow(LogReplaced);
});

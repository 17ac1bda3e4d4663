import { open, subscribed } from '@event-sourced/testing/eventStoreDbStore';
import { startFakeServer } from '@event-sourced/testing/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type EventStore,
  LogReplaced,
  type NewEvent,
  NO_STREAM,
  type Position,
  WrongExpectedRevision,
} from '../../packages/event-log/src/eventStore.ts';
import { event } from '../../packages/event-log/src/testing/contract.ts';
import { FakeLog } from '../../packages/event-log/src/testing/fakeEventStoreDb/server.ts';

/** The positions before, between and after two events, and what no log has. */
const NO_POSITIONS: [string, (first: Position, last: Position) => bigint][] = [
  ['before the first event', () => 1n],
  ['in the middle of an event', (first) => first + 1n],
  ['after the last event', (_, last) => last + 1n],
  ['far beyond the end', () => 2n ** 63n - 1n],
  ['that is not a signed 64-bit integer', () => 2n ** 63n],
  ['that is negative', () => -1n],
];

const NO_APPENDS: [string, { stream?: string; change?: object; revision?: bigint }, unknown][] = [
  ['a stream without a name', { stream: '' }, TypeError],
  ['an event whose ID is not a UUID', { change: { id: 'one' } }, TypeError],
  ['an event without a type', { change: { type: '' } }, TypeError],
  ['an event without data', { change: { data: undefined } }, TypeError],
  ['an event that is larger than a message', { change: { data: { x: 'x'.repeat(2 ** 24) } } }, TypeError],
  ['an event that is larger than an append', { change: { data: { x: 'x'.repeat(2 ** 20) } } }, Error],
  ['a revision that no stream has', { revision: -2n }, WrongExpectedRevision],
  ['a revision above 63 bits', { revision: 2n ** 63n }, WrongExpectedRevision],
];

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

    test('appends what cannot be appended', async () => {
      const { store, expectUndisturbed } = await connected(version);
      for (const [what, { stream = 'plant-eve/1', change, revision = NO_STREAM }, error] of NO_APPENDS) {
        const append = store.append(stream, { ...event('Elm'), ...change } as NewEvent, revision);
        await expect(append, what).rejects.toThrow(error as typeof Error);
      }
      expect(await store.readStream('plant-eve/1', 10)).toEqual([]);
      expect(await store.readStream('plant-\ud800', 10)).toEqual([]);
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

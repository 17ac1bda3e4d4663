import { randomUUID } from 'node:crypto';
import {
  BACKWARDS,
  END,
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  type ResolvedEvent,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';
import { expect, onTestFinished, test } from 'vitest';
import { startFakeServer } from '../../../../test/support/stores.ts';
import type { FakeOptions } from '../../src/testing/fakeEventStoreDb/server.ts';

// What tests of the adapter rely on. The contract of event stores shows the rest.

test('an append at the revision of the stream stores an event, whatever its ID', async () => {
  const { client } = await connected();
  const once = event();
  const first = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
  const again = await client.appendToStream('plant-alice/1', once, { expectedRevision: 0n });
  expect(again.nextExpectedRevision).toBe(1n);
  expect(again.position?.commit).toBeGreaterThan(first.position?.commit ?? 0n);
});

test('a softly deleted stream is not found, until it continues at its next revision', async () => {
  const { fake, client } = await connected();
  for (let i = 0; i < 2; i++) fake.write('plant-alice/1');
  fake.log.delete('plant-alice/1', 'softDelete');
  const read = () => all(client.readStream('plant-alice/1'));
  await expect(read()).rejects.toThrow(StreamNotFoundError);
  const append = () => client.appendToStream('plant-alice/1', event(), { expectedRevision: NO_STREAM });
  expect((await append()).nextExpectedRevision).toBe(2n);
  await expect(append()).rejects.toThrow(WrongExpectedVersionError);
  expect(await read()).toMatchObject([{ event: { revision: 2n } }]);
  const streams = (await all(client.readAll())).map(({ event }) => event?.streamId);
  expect(streams.filter((stream) => stream === 'plant-alice/1')).toHaveLength(3);
});

test('a read of $all starts at a position, or before it backwards', async () => {
  const { fake, client } = await connected();
  const [first = 0n, second = 0n, third = 0n] = [1, 2, 3].map((i) => fake.write(`plant-alice/${i}`).position);
  const at = (position: bigint) => ({ fromPosition: { commit: position, prepare: position } });
  const positions = async (options: Parameters<typeof client.readAll>[0]) =>
    (await all(client.readAll(options))).map(({ commitPosition }) => commitPosition);
  expect(first > 0n && second > first + 1n && third > second + 1n).toBe(true);
  expect(await positions({ maxCount: 2 })).toEqual([first, second]);
  expect(await positions(at(second))).toEqual([second, third]);
  expect(await positions({ ...at(second), direction: BACKWARDS })).toEqual([first]);
  expect(await positions({ fromPosition: END, direction: BACKWARDS, maxCount: 1 })).toEqual([third]);
  expect(await positions(at(third + 1_000_000n))).toEqual([]);
});

test.each([
  ['23.10', { code: status.UNKNOWN, message: expect.stringContaining('ReadAllResult: Error') }],
  ['24.2', { code: status.INVALID_ARGUMENT, message: expect.stringContaining('invalid position') }],
] as const)('a read of $all at a position without an event fails as with %s', async (version, error) => {
  const { fake, client } = await connected({ version });
  const { position } = fake.write('plant-alice/1');
  fake.write('plant-alice/2');
  const fromPosition = { commit: position + 1n, prepare: position + 1n };
  await expect(all(client.readAll({ fromPosition }))).rejects.toMatchObject(error);
  const beyond = { fromPosition: { commit: position + 1_000_000n, prepare: position + 1_000_000n } };
  for (const from of [{ fromPosition }, beyond])
    await expect(all(client.readAll({ ...from, direction: BACKWARDS }))).rejects.toMatchObject(error);
  const subscription = all(client.subscribeToAll({ fromPosition }));
  await expect(subscription).rejects.toMatchObject({ code: error.code });
});

async function connected(options: FakeOptions = {}) {
  const fake = await startFakeServer(options);
  const client = EventStoreDBClient.connectionString(fake.url);
  onTestFinished(() => client.dispose());
  return { fake, client };
}

const event = () => jsonEvent({ id: randomUUID(), type: 'Written', data: { text: 'a' } });

const all = (stream: AsyncIterable<ResolvedEvent>) => Array.fromAsync(stream);

import { randomUUID } from 'node:crypto';
import { startFakeServer } from '@event-sourced/testing/stores';
import {
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  type ResolvedEvent,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { expect, onTestFinished, test } from 'vitest';

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

async function connected() {
  const fake = await startFakeServer();
  const client = EventStoreDBClient.connectionString(fake.url);
  onTestFinished(() => client.dispose());
  return { fake, client };
}

const event = () => jsonEvent({ id: randomUUID(), type: 'Written', data: { text: 'a' } });

const all = (stream: AsyncIterable<ResolvedEvent>) => Array.fromAsync(stream);

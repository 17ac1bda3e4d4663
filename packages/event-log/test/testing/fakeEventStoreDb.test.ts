import { randomUUID } from 'node:crypto';
import {
  type AllStreamRecordedEvent,
  type AllStreamSubscription,
  ANY,
  BACKWARDS,
  CancelledError,
  END,
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  NotLeaderError,
  type ResolvedEvent,
  STREAM_EXISTS,
  StreamNotFoundError,
  streamNameFilter,
  TimeoutError,
  UnavailableError,
  UnknownError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startFakeServer } from '../../../../test/support/stores.ts';
import type { Drop, FakeOptions } from '../../src/testing/fakeEventStoreDb/server.ts';

describe('appending', () => {
  test('at a wrong revision returns the stream, the expected and the current revision', async () => {
    const { client } = await connected();
    const append = (expectedRevision: bigint | 'no_stream' | 'stream_exists') =>
      failure(client.appendToStream('plant-alice/1', event(), { expectedRevision }));
    const none = { streamName: 'plant-alice/1', actualVersion: NO_STREAM, message: '', code: undefined };
    expect(await append(3n)).toMatchObject({ ...none, expectedVersion: 3n });
    expect(await append(STREAM_EXISTS)).toMatchObject({ ...none, expectedVersion: STREAM_EXISTS });
    await client.appendToStream('plant-alice/1', event(), { expectedRevision: NO_STREAM });
    const error = await append(NO_STREAM);
    expect(error).toBeInstanceOf(WrongExpectedVersionError);
    expect(error).toMatchObject({ ...none, expectedVersion: NO_STREAM, actualVersion: 0n });
  });

  test('the same events again returns the first result, however old', async () => {
    const { fake, client } = await connected();
    const [first, second, third] = [event(), event(), event()];
    const append = (events: (typeof first)[], expectedRevision: bigint | 'no_stream' | 'any') =>
      client.appendToStream('plant-alice/1', events, { expectedRevision });
    const both = await append([first, second], NO_STREAM);
    expect(both.nextExpectedRevision).toBe(1n);
    expect(both.position?.commit).toBe(fake.log.all[1]?.position);
    await append([third], 1n);
    expect(await append([first, second], NO_STREAM)).toEqual(both);
    expect(await append([first, second], ANY)).toEqual(both);
    expect(fake.log.all).toHaveLength(3);
    for (const expected of [NO_STREAM, ANY] as const)
      expect(await failure(append([first, event()], expected))).toBeInstanceOf(WrongExpectedVersionError);
  });

  test('at the revision of the stream always appends, whatever the event ID', async () => {
    const { client } = await connected();
    const once = event();
    const first = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
    const again = await client.appendToStream('plant-alice/1', once, { expectedRevision: 0n });
    expect(again.nextExpectedRevision).toBe(1n);
    expect(again.position?.commit).toBeGreaterThan(first.position?.commit ?? 0n);
  });
});

describe('reading', () => {
  test('a missing stream is an error', async () => {
    const { fake, client } = await connected();
    const error = await failure(all(client.readStream('plant-alice/1')));
    expect(error).toBeInstanceOf(StreamNotFoundError);
    expect(error).toMatchObject({ streamName: 'plant-alice/1' });
    await expect.poll(() => fake.openReads).toBe(0);
  });

  test('a softly deleted stream is an error, until it continues at its next revision', async () => {
    const { fake, client } = await connected();
    for (let i = 0; i < 2; i++) fake.write('plant-alice/1');
    fake.deleteStream('plant-alice/1', 'softDelete');
    const read = () => all(client.readStream('plant-alice/1'));
    expect(await failure(read())).toBeInstanceOf(StreamNotFoundError);
    const append = () => client.appendToStream('plant-alice/1', event(), { expectedRevision: NO_STREAM });
    expect((await append()).nextExpectedRevision).toBe(2n);
    expect(await failure(append())).toBeInstanceOf(WrongExpectedVersionError);
    expect(await read()).toMatchObject([{ event: { revision: 2n } }]);
    const streams = (await all(client.readAll())).map(({ event }) => event?.streamId);
    expect(streams.filter((stream) => stream === 'plant-alice/1')).toHaveLength(3);
  });

  test('the log starts at a position, or before it backwards', async () => {
    const { fake, client } = await connected();
    const [first = 0n, second = 0n, third = 0n] = [1, 2, 3].map(
      (i) => fake.write(`plant-alice/${i}`).position,
    );
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
  ] as const)('the log at a position without an event fails as with %s', async (version, error) => {
    const { fake, client } = await connected({ version });
    const { position } = fake.write('plant-alice/1');
    fake.write('plant-alice/2');
    const fromPosition = { commit: position + 1n, prepare: position + 1n };
    expect(await failure(all(client.readAll({ fromPosition })))).toMatchObject(error);
    const beyond = { fromPosition: { commit: position + 1_000_000n, prepare: position + 1_000_000n } };
    for (const from of [{ fromPosition }, beyond])
      expect(await failure(all(client.readAll({ ...from, direction: BACKWARDS })))).toMatchObject(error);
    const { errors } = subscribed(client, { fromPosition });
    await expect.poll(() => errors[0]).toMatchObject({ code: error.code });
  });
});

describe('subscribing', () => {
  test('sends a confirmation, existing events, one CaughtUp, and new events', async () => {
    const { fake, client } = await connected();
    fake.write('plant-alice/1');
    fake.write('other-1');
    const { subscription, received } = subscribed(client);
    await expect.poll(() => received).toEqual(['confirmation', 'plant-alice/1', 'caughtUp']);
    expect(subscription.id).toMatch(/^[\da-f-]{36}$/);
    await append(client, 'plant-alice/2');
    fake.write('$system');
    fake.write('plant-alice/3');
    await expect.poll(() => received.slice(3)).toEqual(['plant-alice/2', 'plant-alice/3']);
    expect(fake.openSubscriptions).toBe(1);
    await subscription.unsubscribe();
    await expect.poll(() => fake.openSubscriptions).toBe(0);
  });

  test('sends a checkpoint every 32 events, whether they match or not', async () => {
    const { fake, client } = await connected();
    for (let i = 0; i < 70; i++) fake.write(i % 10 ? `other-${i}` : `plant-alice/${i}`);
    const { checkpoints, received } = subscribed(client);
    await expect.poll(() => received.at(-1)).toBe('caughtUp');
    expect(checkpoints).toEqual([fake.log.all[31]?.position, fake.log.all[63]?.position]);
  });

  test.each<[Drop, unknown]>([
    ['slow', TimeoutError],
    ['cancelled', CancelledError],
    ['unavailable', UnavailableError],
    ['reset', UnavailableError],
    ['internal', UnknownError],
    ['notLeader', NotLeaderError],
  ])('ends on the drop %s with the error of the client', async (how, error) => {
    const { fake, errors } = await caughtUp();
    expect(fake.dropSubscriptions(how)).toBe(1);
    await expect.poll(() => errors[0]).toBeInstanceOf(error);
    await expect.poll(() => fake.openSubscriptions).toBe(0);
    if (how === 'slow') expect(errors[0]?.message).toContain('Client resubscription required.');
  });
});

async function connected(options: FakeOptions = {}) {
  const fake = await startFakeServer(options);
  return { fake, client: connect(fake.url) };
}

function connect(url: string): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(url);
  onTestFinished(() => client.dispose());
  return client;
}

/** Appends an event to a stream, at any revision. */
const append = (client: EventStoreDBClient, stream = 'plant-alice/1') =>
  client.appendToStream(stream, event());

function event() {
  return jsonEvent({ id: randomUUID(), type: 'Written', data: { text: 'a' } });
}

/** A subscription to all streams of plants, and what it has received. */
function subscribed(client: EventStoreDBClient, options: Parameters<typeof client.subscribeToAll>[0] = {}) {
  const received: string[] = [];
  const events: AllStreamRecordedEvent[] = [];
  const errors: Error[] = [];
  const checkpoints: bigint[] = [];
  const filter = streamNameFilter({
    prefixes: ['plant-'],
    checkpointReached: async (_: AllStreamSubscription, { commit }: { commit: bigint }) => {
      checkpoints.push(commit);
    },
  });
  const subscription = client.subscribeToAll({ ...options, filter });
  for (const name of ['confirmation', 'caughtUp', 'end'] as const)
    subscription.on(name, () => received.push(name));
  subscription.on('error', (error) => errors.push(error));
  subscription.on('data', ({ event }) => {
    if (!event) return;
    received.push(event.streamId);
    events.push(event);
  });
  return { subscription, received, events, errors, checkpoints };
}

/** A subscription that has caught up. */
async function caughtUp() {
  const { fake, client } = await connected();
  const subscription = subscribed(client);
  await expect.poll(() => subscription.received).toContain('caughtUp');
  return { fake, client, ...subscription };
}

const all = (stream: AsyncIterable<ResolvedEvent>) => Array.fromAsync(stream);

/** The error of an attempt, which must fail. */
const failure = (attempt: Promise<unknown>): Promise<Error> =>
  attempt.then(
    () => expect.unreachable('the attempt succeeded'),
    (error: Error) => error,
  );

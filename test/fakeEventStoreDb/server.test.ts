import { randomUUID } from 'node:crypto';
import {
  type AllStreamRecordedEvent,
  type AllStreamSubscription,
  BACKWARDS,
  CancelledError,
  DeadlineExceededError,
  EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  NotLeaderError,
  type ResolvedEvent,
  StreamNotFoundError,
  streamNameFilter,
  TimeoutError,
  UnavailableError,
  UnknownError,
  WrongExpectedVersionError,
} from '@eventstore/db-client';
import { status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startFakeServer } from '../support/stores.ts';
import type { Drop, FakeOptions } from './server.ts';

const LEADER = { address: 'leader.test', port: 2_113 };

const FEATURES = ['batch', 'unimplemented'] as const;
describe.each(FEATURES)('appending if the server features are %s', (serverFeatures) => {
  const batch = serverFeatures === 'batch';

  test('uses the method that the server supports', async () => {
    const { fake, client } = await connected({ serverFeatures });
    for (const stream of ['plant-alice/1', 'plant-alice/2']) await append(client, stream);
    const unary = { features: 1, append: 2, batchAppend: 0, batched: 0, appended: 2 };
    expect(fake.calls).toMatchObject(batch ? { ...unary, append: 0, batchAppend: 1, batched: 2 } : unary);
    expect(fake.openBatches).toBe(batch ? 1 : 0);
  });

  test('fails once per injected failure, stored or not', async () => {
    const { fake, client } = await connected({ serverFeatures });
    fake.busy(1);
    const busy = await failure(append(client));
    expect(busy).toBeInstanceOf(batch ? UnknownError : UnavailableError);
    if (batch) expect(busy.message).toBe('Could not recognize Server Is Busy');
    fake.failAppends(1, status.INTERNAL);
    expect(await failure(append(client))).toBeInstanceOf(UnknownError);
    fake.notLeader(1, LEADER);
    expect(await failure(append(client))).toMatchObject({ type: 'not-leader', leader: LEADER });
    expect(fake.log.all).toHaveLength(0);
    const other = connect(fake.url);
    fake.timeOut(1);
    expect(await failure(append(other))).toBeInstanceOf(batch ? DeadlineExceededError : TimeoutError);
    fake.breakAfterStoring(1);
    expect(await failure(append(other))).toBeInstanceOf(UnavailableError);
    await append(other);
    expect(fake.log.all).toHaveLength(3);
  });

  test('can store without a response, and responds to the retry', async () => {
    const { fake, client } = await connected({ serverFeatures });
    fake.loseResponses(1);
    const once = event();
    let isSettled = false;
    const lost = client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
    lost.catch(() => {}).finally(() => (isSettled = true));
    await expect.poll(() => fake.log.all).toHaveLength(1);
    const response = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
    expect(response.position?.commit).toBe(fake.log.all[0]?.position);
    expect(isSettled).toBe(false);
  });
});

describe('the call for server features', () => {
  test('that fails once makes all later appends of the client fail, but not its reads', async () => {
    const { fake, client } = await connected();
    fake.failFeatures(1);
    for (let i = 0; i < 2; i++) {
      const error = await failure(append(client));
      expect(error).toMatchObject({ code: status.INTERNAL });
      expect(error).not.toBeInstanceOf(UnknownError);
    }
    expect(await all(client.readAll())).toEqual([]);
    expect(fake.calls.features).toBe(1);
    await connect(fake.url).appendToStream('plant-alice/1', event());
  });
});

describe('reading', () => {
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

  test('a stream may not find its first event yet, although another append was refused', async () => {
    const { fake, client } = await connected();
    fake.lagIndex(1);
    const append = () => client.appendToStream('plant-alice/1', event(), { expectedRevision: NO_STREAM });
    await append();
    expect(await failure(append())).toBeInstanceOf(WrongExpectedVersionError);
    const read = () => all(client.readStream('plant-alice/1'));
    expect(await failure(read())).toBeInstanceOf(StreamNotFoundError);
    expect(await read()).toHaveLength(1);
  });
});

describe('subscribing', () => {
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

  test('can end without an error', async () => {
    const { fake, received, errors } = await caughtUp();
    fake.dropSubscriptions('end');
    await expect.poll(() => received.at(-1)).toBe('end');
    expect(errors).toEqual([]);
  });

  test('to a server that is not the leader fails', async () => {
    const { fake, client } = await connected();
    fake.notLeader(1, LEADER);
    const { errors } = subscribed(client);
    await expect.poll(() => errors[0]).toMatchObject({ leader: LEADER });
  });
});

describe('the server', () => {
  test('that stops breaks all calls, and restarts with its log', async () => {
    const { fake, client } = await connected();
    await append(client);
    const { errors } = subscribed(client);
    fake.loseResponses(1);
    const lost = failure(append(client, 'plant-alice/2'));
    await expect.poll(() => fake.log.all).toHaveLength(2);
    await fake.stop();
    expect(await lost).toBeInstanceOf(UnavailableError);
    await expect.poll(() => errors[0]).toBeInstanceOf(UnavailableError);
    expect([fake.openBatches, fake.openSubscriptions]).toEqual([0, 0]);
    const unavailable = await failure(append(client, 'plant-alice/3'));
    expect(unavailable).toMatchObject({ name: 'Error', code: status.UNAVAILABLE });
    expect(unavailable).not.toBeInstanceOf(UnavailableError);
    await fake.restart();
    expect(await all(client.readAll())).toHaveLength(2);
    await append(client, 'plant-alice/3');
  });

  test('is discovered by gossip, and another node when it is unavailable', async () => {
    const first = await startFakeServer();
    const second = await startFakeServer({ log: first.log });
    for (const fake of [first, second]) {
      fake.setMembers([
        { port: first.port, state: 'leader' },
        { port: second.port, state: 'follower' },
      ]);
    }
    const hosts = [first, second].map(({ port }) => `127.0.0.1:${port}`).join(',');
    const client = connect(`esdb://${hosts}?tls=false`);
    await append(client);
    expect([first.calls.appended, second.calls.appended]).toEqual([1, 0]);
    await first.stop();
    second.setMembers([
      { port: first.port, state: 'follower', isAlive: false },
      { port: second.port, state: 'leader' },
    ]);
    const once = event();
    const retry = () => client.appendToStream('plant-alice/2', once, { expectedRevision: NO_STREAM });
    await expect.poll(retry).toMatchObject({ success: true });
    expect(second.calls.appended).toBe(1);
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

import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AccessDeniedError,
  type AllStreamRecordedEvent,
  type AllStreamSubscription,
  ANY,
  BACKWARDS,
  CancelledError,
  DeadlineExceededError,
  END,
  EventStoreDBClient,
  jsonEvent,
  MaxAppendSizeExceededError,
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
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { LOCALHOST } from '../support/localhostCertificate.ts';
import { startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';
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

  test('at a wrong revision returns the stream, the expected and the current revision', async () => {
    const { client } = await connected({ serverFeatures });
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
    const { fake, client } = await connected({ serverFeatures });
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
    const { client } = await connected({ serverFeatures });
    const once = event();
    const first = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
    const again = await client.appendToStream('plant-alice/1', once, { expectedRevision: 0n });
    expect(again.nextExpectedRevision).toBe(1n);
    expect(again.position?.commit).toBeGreaterThan(first.position?.commit ?? 0n);
  });

  test('rejects events that are too large, and IDs that are not UUIDs', async () => {
    const { fake, client } = await connected({ serverFeatures });
    const large = jsonEvent({ type: 'Large', data: { text: 'x'.repeat(1_024 * 1_024) } });
    const tooLarge = await failure(client.appendToStream('plant-alice/1', large));
    expect(tooLarge).toBeInstanceOf(MaxAppendSizeExceededError);
    expect(tooLarge).toMatchObject({ maxAppendSize: 1_024 * 1_024 });
    const unnamed = jsonEvent({ id: 'one', type: 'Written', data: {} });
    expect(await failure(client.appendToStream('plant-alice/1', unnamed))).toBeInstanceOf(UnknownError);
    expect(fake.log.all).toEqual([]);
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

  test('can delay responses, in order', async () => {
    const { fake, client } = await connected({ serverFeatures });
    await append(client, 'plant-alice/warm');
    fake.slow(60);
    const startedAt = performance.now();
    const order: number[] = [];
    const appendTo = (i: number) => append(client, `plant-alice/${i}`).then(() => order.push(i));
    const slow = [appendTo(0), appendTo(1)];
    await expect.poll(() => fake.log.all).toHaveLength(3);
    fake.slow(0);
    await Promise.all([...slow, appendTo(2)]);
    expect(order).toEqual([0, 1, 2]);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(59);
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
  test('returns an event as it was written', async () => {
    const { fake, client } = await connected();
    const id = randomUUID();
    const stored = fake.write('plant-alice/🌱', { id, type: 'Named', data: { a: 1 }, metadata: { b: 2 } });
    fake.write('plant-alice/🌱', { data: '{"broken' });
    fake.write('plant-alice/🌱', { data: Buffer.of(0, 255), contentType: 'application/octet-stream' });
    const [named, broken, binary] = await all(client.readStream('plant-alice/🌱'));
    const position = { commit: stored.position, prepare: stored.position };
    expect(named).toEqual({
      event: {
        ...{ streamId: 'plant-alice/🌱', id, revision: 0n, type: 'Named', isJson: true, position },
        ...{ data: { a: 1 }, metadata: { b: 2 }, created: new Date(stored.created) },
      },
    });
    expect(broken?.event).toMatchObject({ data: '{"broken', metadata: undefined });
    expect(binary?.event).toMatchObject({ data: new Uint8Array([0, 255]), isJson: false });
  });

  test('a stream works in both directions from a revision, inclusive', async () => {
    const { fake, client } = await connected();
    for (let i = 0; i < 4; i++) fake.write('plant-alice/1');
    const revisions = async (options: Parameters<typeof client.readStream>[1]) =>
      (await all(client.readStream('plant-alice/1', options))).map(({ event }) => Number(event?.revision));
    expect(await revisions({ fromRevision: 1n, maxCount: 2 })).toEqual([1, 2]);
    expect(await revisions({ fromRevision: 1n, direction: BACKWARDS })).toEqual([1, 0]);
    expect(await revisions({ fromRevision: END, direction: BACKWARDS, maxCount: 2 })).toEqual([3, 2]);
    expect(await revisions({ fromRevision: 9n })).toEqual([]);
  });

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

  test('resolves a link on request, if its target exists', async () => {
    const { fake, client } = await connected();
    const target = fake.write('plant-alice/1');
    fake.write('$ce-plant', { type: '$>', data: '0@plant-alice/1' });
    fake.write('$ce-plant', { type: '$>', data: '0@plant-alice/2' });
    const [found, missing] = await all(client.readStream('$ce-plant', { resolveLinkTos: true }));
    expect([found?.event?.id, found?.link?.data]).toEqual([target.id, '0@plant-alice/1']);
    expect([missing?.event, missing?.link?.revision]).toEqual([undefined, 1n]);
    expect((await all(client.readStream('$ce-plant')))[0]?.event?.type).toBe('$>');
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

  test('sends an event with the position that its append returned, and resumes after it', async () => {
    const { client } = await connected();
    const appended = [];
    for (let i = 0; i < 3; i++) appended.push(await append(client, `plant-alice/${i}`));
    const positions = appended.map(({ position }) => position);
    const { events } = subscribed(client);
    await expect.poll(() => events.map(({ position }) => position)).toEqual(positions);
    const resumed = subscribed(client, { fromPosition: positions[0] as { commit: bigint; prepare: bigint } });
    await expect.poll(() => resumed.received.at(-1)).toBe('caughtUp');
    expect(resumed.events.map(({ position }) => position)).toEqual(positions.slice(1));
  });

  test('sends a checkpoint every 32 events, whether they match or not', async () => {
    const { fake, client } = await connected();
    for (let i = 0; i < 70; i++) fake.write(i % 10 ? `other-${i}` : `plant-alice/${i}`);
    const { checkpoints, received } = subscribed(client);
    await expect.poll(() => received.at(-1)).toBe('caughtUp');
    expect(checkpoints).toEqual([fake.log.all[31]?.position, fake.log.all[63]?.position]);
  });

  test('to a server before 23.10 sends no CaughtUp', async () => {
    const { fake, client } = await connected({ caughtUp: false });
    fake.write('plant-alice/1');
    const { received } = subscribed(client);
    await expect.poll(() => received).toHaveLength(2);
    fake.write('plant-alice/2');
    await expect.poll(() => received).toEqual(['confirmation', 'plant-alice/1', 'plant-alice/2']);
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

  test('can be muted without affecting another subscription', async () => {
    const { fake, client, ...muted } = await caughtUp();
    fake.muteSubscriptions();
    fake.write('plant-alice/1');
    const other = subscribed(client);
    await expect.poll(() => other.events).toHaveLength(1);
    expect(muted.events).toEqual([]);
    fake.unmuteSubscriptions();
    await expect.poll(() => muted.events).toHaveLength(1);
  });

  test('applies backpressure to a slow client, and drops it at the lag limit', async () => {
    const { fake, client } = await connected({ lagLimit: 500 });
    const subscription = client.subscribeToAll({ filter: streamNameFilter({ prefixes: ['plant-'] }) });
    const caughtUp = vi.fn();
    const errors: Error[] = [];
    subscription.on('caughtUp', caughtUp).on('error', (error) => errors.push(error));
    await expect.poll(() => caughtUp.mock.calls).toHaveLength(1);
    const text = 'x'.repeat(1_000);
    for (let i = 0; i < 400; i++) fake.write(`plant-alice/${i}`, { data: { text } });
    await sleep(50);
    expect(fake.openSubscriptions).toBe(1);
    for (let i = 400; i < 1_000; i++) fake.write(`plant-alice/${i}`, { data: { text } });
    let receivedCount = 0;
    const receiving = Array.fromAsync(subscription, () => receivedCount++);
    await expect(receiving).rejects.toBeInstanceOf(TimeoutError);
    expect(receivedCount).toBeLessThan(400);
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

  test('that is frozen accepts requests and responds after thaw()', async () => {
    const { fake, client } = await connected();
    await append(client);
    fake.freeze();
    const order: number[] = [];
    const appends = [1, 2, 3].map((i) => append(client, `plant-bob/${i}`).then(() => order.push(i)));
    const other = connect(fake.url);
    const read = all(other.readAll());
    await sleep(50);
    expect([fake.log.all.length, fake.calls.read]).toEqual([1, 0]);
    fake.thaw();
    await Promise.all([...appends, read]);
    expect(order).toEqual([1, 2, 3]);
    fake.thaw();
    await append(client, 'plant-alice/2');
  });

  test('responds to GET /health/live', async () => {
    const { fake } = await connected();
    expect((await fetch(`http://127.0.0.1:${fake.port}/health/live`)).status).toBe(204);
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

  test('accepts only known users over TLS', async () => {
    const cert = join(tempDir(), 'cert.pem');
    writeFileSync(cert, LOCALHOST.cert);
    const fake = await startFakeServer({ tls: LOCALHOST, users: { admin: 'changeit' } });
    const as = (user: string) => connect(`${fake.url.replace('//', `//${user}`)}&tlsCAFile=${cert}`);
    const admin = as('admin:changeit@');
    await append(admin);
    expect(await all(admin.readAll())).toHaveLength(1);
    for (const intruder of [as('admin:wrong@'), as('')]) {
      expect(await failure(append(intruder))).toBeInstanceOf(AccessDeniedError);
      expect(await failure(all(intruder.readAll()))).toBeInstanceOf(AccessDeniedError);
    }
    const withoutCa = connect(fake.url);
    expect((await failure(all(withoutCa.readAll()))).message).toContain('self-signed certificate');
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

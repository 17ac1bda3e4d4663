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
import { type DoubleOptions, type Drop, EventStoreDbDouble } from './eventStoreDbDouble.ts';
import { LOCALHOST } from './localhostCertificate.ts';
import { tempDir } from './tempDir.ts';

const LEADER = { address: 'leader.test', port: 2_113 };

describe.each(['batch', 'unimplemented'] as const)(
  'appending where the server features are %s',
  (serverFeatures) => {
    const batch = serverFeatures === 'batch';

    test('takes the way that the server offers', async () => {
      const { double, client } = await connected({ serverFeatures });
      await client.appendToStream('plant-alice/1', event(), { expectedRevision: NO_STREAM });
      await client.appendToStream('plant-alice/2', event(), { expectedRevision: NO_STREAM });
      const unary = { features: 1, append: 2, batchAppend: 0, batched: 0, appended: 2 };
      expect(double.calls).toMatchObject(batch ? { ...unary, append: 0, batchAppend: 1, batched: 2 } : unary);
      expect(double.openBatches).toBe(batch ? 1 : 0);
    });

    test('at a wrong revision names the stream, the revision expected and the one found', async () => {
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

    test('the same events again gives the first result, however old it is', async () => {
      const { double, client } = await connected({ serverFeatures });
      const [first, second, third] = [event(), event(), event()];
      const append = (events: (typeof first)[], expectedRevision: bigint | 'no_stream' | 'any') =>
        client.appendToStream('plant-alice/1', events, { expectedRevision });
      const both = await append([first, second], NO_STREAM);
      expect(both).toMatchObject({
        nextExpectedRevision: 1n,
        position: { commit: double.log.all[1]?.position },
      });
      await append([third], 1n);
      expect(await append([first, second], NO_STREAM)).toEqual(both);
      expect(await append([first, second], ANY)).toEqual(both);
      expect(double.log.all).toHaveLength(3);
      for (const expected of [NO_STREAM, ANY] as const) {
        expect(await failure(append([first, event()], expected))).toBeInstanceOf(WrongExpectedVersionError);
      }
    });

    test('at the revision of the stream always appends, whatever the id', async () => {
      const { client } = await connected({ serverFeatures });
      const once = event();
      const first = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
      const again = await client.appendToStream('plant-alice/1', once, { expectedRevision: 0n });
      expect(again.nextExpectedRevision).toBe(1n);
      expect(again.position?.commit).toBeGreaterThan(first.position?.commit ?? 0n);
    });

    test('refuses what is too large, and ids that are no UUID', async () => {
      const { double, client } = await connected({ serverFeatures });
      const large = jsonEvent({ type: 'Large', data: { text: 'x'.repeat(1_024 * 1_024) } });
      const tooLarge = await failure(client.appendToStream('plant-alice/1', large));
      expect(tooLarge).toBeInstanceOf(MaxAppendSizeExceededError);
      expect(tooLarge).toMatchObject({ maxAppendSize: 1_024 * 1_024 });
      const unnamed = jsonEvent({ id: 'one', type: 'Written', data: {} });
      expect(await failure(client.appendToStream('plant-alice/1', unnamed))).toBeInstanceOf(UnknownError);
      expect(double.log.all).toEqual([]);
    });

    test('fails as it is told to, once each, stored or not', async () => {
      const { double, client } = await connected({ serverFeatures });
      const append = () =>
        failure(client.appendToStream('plant-alice/1', event(), { expectedRevision: ANY }));
      double.busy(1);
      const busy = await append();
      expect(busy).toBeInstanceOf(batch ? UnknownError : UnavailableError);
      if (batch) expect(busy.message).toBe('Could not recognize Server Is Busy');
      double.failAppends(1, status.INTERNAL);
      expect(await append()).toBeInstanceOf(UnknownError);
      double.notLeader(1, LEADER);
      expect(await append()).toMatchObject({ type: 'not-leader', leader: LEADER });
      expect(double.log.all).toHaveLength(0);
      const other = fresh(double);
      double.timeOut(1);
      const late = failure(other.appendToStream('plant-alice/1', event()));
      expect(await late).toBeInstanceOf(batch ? DeadlineExceededError : TimeoutError);
      double.breakAfterStoring(1);
      expect(await failure(other.appendToStream('plant-alice/1', event()))).toBeInstanceOf(UnavailableError);
      await other.appendToStream('plant-alice/1', event());
      expect(double.log.all).toHaveLength(3);
    });

    test('stores without an answer, and answers the repetition', async () => {
      const { double, client } = await connected({ serverFeatures });
      double.loseAnswers(1);
      const once = event();
      let settled = false;
      const lost = client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
      lost.catch(() => {}).finally(() => (settled = true));
      await expect.poll(() => double.log.all).toHaveLength(1);
      const answer = await client.appendToStream('plant-alice/1', once, { expectedRevision: NO_STREAM });
      expect(answer.position?.commit).toBe(double.log.all[0]?.position);
      expect(settled).toBe(false);
    });

    test('answers slowly, in order', async () => {
      const { double, client } = await connected({ serverFeatures });
      await client.appendToStream('plant-alice/warm', event());
      double.slow(60);
      const began = performance.now();
      const order: number[] = [];
      const append = (i: number) =>
        client.appendToStream(`plant-alice/${i}`, event()).then(() => order.push(i));
      const slow = [append(0), append(1)];
      await expect.poll(() => double.log.all).toHaveLength(3);
      double.slow(0);
      await Promise.all([...slow, append(2)]);
      expect(order).toEqual([0, 1, 2]);
      expect(performance.now() - began).toBeGreaterThanOrEqual(59);
    });
  },
);

describe('the look-up of features', () => {
  test('that failed once poisons a client for all its appends, not for its reads', async () => {
    const { double, client } = await connected();
    double.failFeatures(1);
    for (let i = 0; i < 2; i++) {
      const error = await failure(client.appendToStream('plant-alice/1', event()));
      expect(error).toMatchObject({ code: status.INTERNAL });
      expect(error).not.toBeInstanceOf(UnknownError);
    }
    expect(await all(client.readAll())).toEqual([]);
    expect(double.calls.features).toBe(1);
    await fresh(double).appendToStream('plant-alice/1', event());
  });
});

describe('reading', () => {
  test('gives an event as it was written', async () => {
    const { double, client } = await connected();
    const id = randomUUID();
    const stored = double.write('plant-alice/🌱', { id, type: 'Named', data: { a: 1 }, metadata: { b: 2 } });
    double.write('plant-alice/🌱', { data: '{"broken' });
    double.write('plant-alice/🌱', { data: Buffer.of(0, 255), contentType: 'application/octet-stream' });
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

  test('a stream goes both ways from a revision, which is included', async () => {
    const { double, client } = await connected();
    for (let i = 0; i < 4; i++) double.write('plant-alice/1');
    const revisions = async (options: Parameters<typeof client.readStream>[1]) =>
      (await all(client.readStream('plant-alice/1', options))).map(({ event }) => Number(event?.revision));
    expect(await revisions({ fromRevision: 1n, maxCount: 2 })).toEqual([1, 2]);
    expect(await revisions({ fromRevision: 1n, direction: BACKWARDS })).toEqual([1, 0]);
    expect(await revisions({ fromRevision: END, direction: BACKWARDS, maxCount: 2 })).toEqual([3, 2]);
    expect(await revisions({ fromRevision: 9n })).toEqual([]);
  });

  test('a stream that does not exist is an error', async () => {
    const { double, client } = await connected();
    const error = await failure(all(client.readStream('plant-alice/1')));
    expect(error).toBeInstanceOf(StreamNotFoundError);
    expect(error).toMatchObject({ streamName: 'plant-alice/1' });
    await expect.poll(() => double.openReads).toBe(0);
  });

  test('the log begins at a position, or before it backwards', async () => {
    const { double, client } = await connected();
    const [first, second, third] = [1, 2, 3].map((i) => double.write(`plant-alice/${i}`).position) as [
      ...[bigint, bigint, bigint],
    ];
    const at = (position: bigint) => ({ fromPosition: { commit: position, prepare: position } });
    const positions = async (options: Parameters<typeof client.readAll>[0]) =>
      (await all(client.readAll(options))).map(({ commitPosition }) => commitPosition);
    expect(first > 0n && second > first + 1n && third > second + 1n).toBe(true);
    expect(await positions({ maxCount: 2 })).toEqual([first, second]);
    expect(await positions(at(second))).toEqual([second, third]);
    expect(await positions({ ...at(second), direction: BACKWARDS })).toEqual([first]);
    expect(await positions({ fromPosition: END, direction: BACKWARDS, maxCount: 1 })).toEqual([third]);
    expect(await positions(at(third + 1_000_000n))).toEqual([]);
    expect(await failure(positions(at(second + 1n)))).toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  test('resolves a link where it is asked to, if there is what it points at', async () => {
    const { double, client } = await connected();
    const target = double.write('plant-alice/1');
    double.write('$ce-plant', { type: '$>', data: '0@plant-alice/1' });
    double.write('$ce-plant', { type: '$>', data: '0@plant-alice/2' });
    const [found, missing] = await all(client.readStream('$ce-plant', { resolveLinkTos: true }));
    expect([found?.event?.id, found?.link?.data]).toEqual([target.id, '0@plant-alice/1']);
    expect([missing?.event, missing?.link?.revision]).toEqual([undefined, 1n]);
    expect((await all(client.readStream('$ce-plant')))[0]?.event?.type).toBe('$>');
  });
});

describe('subscribing', () => {
  test('confirms, gives what there is, says once that it has caught up, and goes on', async () => {
    const { double, client } = await connected();
    double.write('plant-alice/1');
    double.write('other-1');
    const { subscription, heard } = subscribed(client);
    await expect.poll(() => heard).toEqual(['confirmation', 'plant-alice/1', 'caughtUp']);
    expect(subscription.id).toMatch(/^[\da-f-]{36}$/);
    await client.appendToStream('plant-alice/2', event());
    double.write('$system');
    double.write('plant-alice/3');
    await expect.poll(() => heard.slice(3)).toEqual(['plant-alice/2', 'plant-alice/3']);
    expect(double.openSubscriptions).toBe(1);
    await subscription.unsubscribe();
    await expect.poll(() => double.openSubscriptions).toBe(0);
  });

  test('gives an event at the position that its append returned, and resumes after it', async () => {
    const { client } = await connected();
    const appended = [];
    for (let i = 0; i < 3; i++) appended.push(await client.appendToStream(`plant-alice/${i}`, event()));
    const positions = appended.map(({ position }) => position);
    const { events } = subscribed(client);
    await expect.poll(() => events.map(({ position }) => position)).toEqual(positions);
    const resumed = subscribed(client, { fromPosition: positions[0] as { commit: bigint; prepare: bigint } });
    await expect.poll(() => resumed.heard.at(-1)).toBe('caughtUp');
    expect(resumed.events.map(({ position }) => position)).toEqual(positions.slice(1));
  });

  test('tells of a checkpoint at every 32 events, whether they match or not', async () => {
    const { double, client } = await connected();
    for (let i = 0; i < 70; i++) double.write(i % 10 ? `other-${i}` : `plant-alice/${i}`);
    const { checkpoints, heard } = subscribed(client);
    await expect.poll(() => heard.at(-1)).toBe('caughtUp');
    expect(checkpoints).toEqual([double.log.all[31]?.position, double.log.all[63]?.position]);
  });

  test('to a server before 23.10 does not tell that it has caught up', async () => {
    const { double, client } = await connected({ caughtUp: false });
    double.write('plant-alice/1');
    const { heard } = subscribed(client);
    await expect.poll(() => heard).toHaveLength(2);
    double.write('plant-alice/2');
    await expect.poll(() => heard).toEqual(['confirmation', 'plant-alice/1', 'plant-alice/2']);
  });

  test.each<[Drop, unknown]>([
    ['slow', TimeoutError],
    ['cancelled', CancelledError],
    ['unavailable', UnavailableError],
    ['reset', UnavailableError],
    ['internal', UnknownError],
    ['notLeader', NotLeaderError],
  ])('ends with %s as the client names it', async (how, error) => {
    const { double, client } = await connected();
    const { heard, errors } = subscribed(client);
    await expect.poll(() => heard).toContain('caughtUp');
    expect(double.dropSubscriptions(how)).toBe(1);
    await expect.poll(() => errors[0]).toBeInstanceOf(error);
    await expect.poll(() => double.openSubscriptions).toBe(0);
    if (how === 'slow') expect(errors[0]?.message).toContain('Client resubscription required.');
  });

  test('may just end', async () => {
    const { double, client } = await connected();
    const { heard, errors } = subscribed(client);
    await expect.poll(() => heard).toContain('caughtUp');
    double.dropSubscriptions('end');
    await expect.poll(() => heard.at(-1)).toBe('end');
    expect(errors).toEqual([]);
  });

  test('to a server that names another leader fails', async () => {
    const { double, client } = await connected();
    double.notLeader(1, LEADER);
    const { errors } = subscribed(client);
    await expect.poll(() => errors[0]).toMatchObject({ leader: LEADER });
  });

  test('falls silent when it is muted, and another one does not', async () => {
    const { double, client } = await connected();
    const muted = subscribed(client);
    await expect.poll(() => muted.heard).toContain('caughtUp');
    double.muteSubscriptions();
    double.write('plant-alice/1');
    const other = subscribed(client);
    await expect.poll(() => other.events).toHaveLength(1);
    expect(muted.events).toEqual([]);
    double.unmuteSubscriptions();
    await expect.poll(() => muted.events).toHaveLength(1);
  });

  test('holds back what a client does not take, and drops it where that is the limit', async () => {
    const { double, client } = await connected({ lagLimit: 500 });
    const subscription = client.subscribeToAll({ filter: streamNameFilter({ prefixes: ['plant-'] }) });
    const caughtUp = vi.fn();
    const errors: Error[] = [];
    subscription.on('caughtUp', caughtUp).on('error', (error) => errors.push(error));
    await expect.poll(() => caughtUp.mock.calls).toHaveLength(1);
    const text = 'x'.repeat(1_000);
    for (let i = 0; i < 400; i++) double.write(`plant-alice/${i}`, { data: { text } });
    await sleep(50);
    expect(double.openSubscriptions).toBe(1);
    for (let i = 400; i < 1_000; i++) double.write(`plant-alice/${i}`, { data: { text } });
    let taken = 0;
    await expect(
      (async () => {
        for await (const _ of subscription) taken++;
      })(),
    ).rejects.toBeInstanceOf(TimeoutError);
    expect(taken).toBeLessThan(400);
  });
});

describe('the server', () => {
  test('that stops breaks all that is open, and is there again with its log', async () => {
    const { double, client } = await connected();
    await client.appendToStream('plant-alice/1', event());
    const { errors } = subscribed(client);
    double.loseAnswers(1);
    const lost = failure(client.appendToStream('plant-alice/2', event()));
    await expect.poll(() => double.log.all).toHaveLength(2);
    await double.stop();
    expect(await lost).toBeInstanceOf(UnavailableError);
    await expect.poll(() => errors[0]).toBeInstanceOf(UnavailableError);
    expect([double.openBatches, double.openSubscriptions]).toEqual([0, 0]);
    const away = await failure(client.appendToStream('plant-alice/3', event()));
    expect(away).toMatchObject({ name: 'Error', code: status.UNAVAILABLE });
    expect(away).not.toBeInstanceOf(UnavailableError);
    await double.restart();
    expect(await all(client.readAll())).toHaveLength(2);
    await client.appendToStream('plant-alice/3', event());
  });

  test('that is frozen takes everything and answers once it is thawed', async () => {
    const { double, client } = await connected();
    await client.appendToStream('plant-alice/1', event());
    double.freeze();
    const order: number[] = [];
    const appends = [1, 2, 3].map((i) =>
      client.appendToStream(`plant-bob/${i}`, event()).then(() => order.push(i)),
    );
    const other = fresh(double);
    const read = all(other.readAll());
    await sleep(50);
    expect([double.log.all.length, double.calls.read]).toEqual([1, 0]);
    double.thaw();
    await Promise.all([...appends, read]);
    expect(order).toEqual([1, 2, 3]);
    double.thaw();
    await client.appendToStream('plant-alice/2', event());
  });

  test('says over HTTP that it is alive', async () => {
    const { double } = await connected();
    expect((await fetch(`http://127.0.0.1:${double.port}/health/live`)).status).toBe(204);
  });

  test('is found by gossip, and another one when it is away', async () => {
    const first = await started();
    const second = await started({ log: first.log });
    for (const double of [first, second]) {
      double.setMembers([
        { port: first.port, state: 'leader' },
        { port: second.port, state: 'follower' },
      ]);
    }
    const hosts = [first, second].map(({ port }) => `127.0.0.1:${port}`).join(',');
    const client = disposed(EventStoreDBClient.connectionString(`esdb://${hosts}?tls=false`));
    await client.appendToStream('plant-alice/1', event());
    expect([first.calls.appended, second.calls.appended]).toEqual([1, 0]);
    await first.stop();
    second.setMembers([
      { port: first.port, state: 'follower', isAlive: false },
      { port: second.port, state: 'leader' },
    ]);
    const once = event();
    const append = () => client.appendToStream('plant-alice/2', once, { expectedRevision: NO_STREAM });
    await expect.poll(append).toMatchObject({ success: true });
    expect(second.calls.appended).toBe(1);
  });

  test('lets in over TLS whom it knows', async () => {
    const cert = join(tempDir(), 'cert.pem');
    writeFileSync(cert, LOCALHOST.cert);
    const double = await started({ tls: LOCALHOST, users: { admin: 'changeit' } });
    const as = (user: string) =>
      disposed(
        EventStoreDBClient.connectionString(`${double.url.replace('//', `//${user}`)}&tlsCAFile=${cert}`),
      );
    const admin = as('admin:changeit@');
    await admin.appendToStream('plant-alice/1', event());
    expect(await all(admin.readAll())).toHaveLength(1);
    for (const stranger of [as('admin:wrong@'), as('')]) {
      expect(await failure(stranger.appendToStream('plant-alice/1', event()))).toBeInstanceOf(
        AccessDeniedError,
      );
      expect(await failure(all(stranger.readAll()))).toBeInstanceOf(AccessDeniedError);
    }
    const untrusting = disposed(EventStoreDBClient.connectionString(double.url));
    expect((await failure(all(untrusting.readAll()))).message).toContain('self-signed certificate');
  });
});

async function started(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
  const double = await EventStoreDbDouble.start(options);
  onTestFinished(() => double.stop());
  return double;
}

async function connected(options: DoubleOptions = {}) {
  const double = await started(options);
  return { double, client: fresh(double) };
}

function fresh(double: EventStoreDbDouble): EventStoreDBClient {
  return disposed(EventStoreDBClient.connectionString(double.url));
}

function disposed(client: EventStoreDBClient): EventStoreDBClient {
  onTestFinished(() => client.dispose());
  return client;
}

function event() {
  return jsonEvent({ id: randomUUID(), type: 'Written', data: { text: 'a' } });
}

/** What a subscription to all streams of plants has told so far. */
function subscribed(client: EventStoreDBClient, options: Parameters<typeof client.subscribeToAll>[0] = {}) {
  const heard: string[] = [];
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
    subscription.on(name, () => heard.push(name));
  subscription.on('error', (error) => errors.push(error));
  subscription.on('data', ({ event }) => {
    if (!event) return;
    heard.push(event.streamId);
    events.push(event);
  });
  return { subscription, heard, events, errors, checkpoints };
}

async function all(stream: AsyncIterable<ResolvedEvent>): Promise<ResolvedEvent[]> {
  return Array.fromAsync(stream);
}

async function failure(attempt: Promise<unknown>): Promise<Error> {
  const outcome = await attempt.then(
    () => new Error('succeeded'),
    (error: Error) => error,
  );
  if (outcome.message === 'succeeded') throw outcome;
  return outcome;
}

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { MAX_IN_FLIGHT } from '../../src/api/inFlight.ts';
import { type Batch, type EventStore, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { type Claims, InvalidToken } from '../../src/tokens/tokenVerifier.ts';
import { appOver, claimsOf } from '../support/appOver.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import {
  auditorToken,
  type EventConnection,
  linesOf,
  listen,
  messagesIn,
  openEvents,
} from '../support/eventStream.ts';
import { logWith } from '../support/logs.ts';
import { refusedWith } from '../support/refusal.ts';
import { startService } from '../support/service.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';
import { openIn, openLogOf, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const SSE = 'text/event-stream';
/** The interval of comments on an idle stream, in milliseconds. */
const HEARTBEAT = 15_000;
const BEAT = ': heartbeat\n\n';

/** A service, its users and a token of its auditor. */
async function auditedService(env: Record<string, string> = {}) {
  const service = await startService(env);
  const token = await auditorToken(service.dir);
  return { ...service, token, alice: service.as('alice'), bob: service.as('bob') };
}

const shared = await serviceOfFile();
const token = await auditorToken(shared.dir);
let users = 0;

/** The service of this file: two new users, and the position of the last event, of other tests. */
async function newUsers() {
  users++;
  const end = Number(JSON.parse((await linesOf(shared.url, { token })).at(-1) ?? '{"position":0}').position);
  const [alice, bob] = [`alice ${users}`, `bob ${users}`];
  const ofAlice = encodeURIComponent(alice);
  const ofBob = encodeURIComponent(bob);
  return { url: shared.url, alice: shared.as(alice), bob: shared.as(bob), ofAlice, ofBob, end };
}

/** The HTTP API over an embedded log, by default a new one, with a record of its subscriptions. */
async function watchedApp({
  log: opened,
  ...given
}: Parameters<typeof appOver>[1] & { log?: EventStore } = {}) {
  const log = opened ?? (await openIn(tempDir()));
  const subscriptions: { signal: AbortSignal; given: number; returned: boolean }[] = [];
  async function* subscribe(options: Parameters<EventStore['subscribe']>[0]): AsyncGenerator<Batch> {
    const one = { signal: options.signal, given: 0, returned: false };
    subscriptions.push(one);
    try {
      for await (const batch of log.subscribe(options)) {
        one.given += batch.events.length;
        yield batch;
      }
    } finally {
      one.returned = true;
    }
  }
  const raw = { ...log, subscribe };
  const app = await appOver({ ...log, raw }, { verifyToken: auditor, ...given });
  return {
    ...app,
    token: 'carol',
    subscriptions,
    /** The number of open subscriptions. */
    open: () => subscriptions.filter(({ signal, returned }) => !signal.aborted && !returned).length,
    /** Expects that all subscriptions end. */
    expectNoSubscription: () =>
      expect.poll(() => subscriptions.filter(({ returned }) => !returned)).toEqual([]),
    /** The number of events delivered to all subscriptions. */
    given: () => subscriptions.reduce((sum, one) => sum + one.given, 0),
    append: (user: string, id: number, name = 'Fern') =>
      log.append(
        `plant-${user}/${id}`,
        { id: crypto.randomUUID(), type: 'PlantCreated', data: { id: `${id}`, user, name }, metadata: {} },
        NO_STREAM,
      ),
  };
}

const auditor = (): Claims => claimsOf('carol', 'audit');

/** The streams of the events, without the numbers of new users. */
const subjectsIn = (messages: { data: string }[]): string[] =>
  messages.map(({ data }) => JSON.parse(data).subject.replace(/ \d+/, ''));

/** The names of the warnings of this process until the end of the test. */
function warnings(): string[] {
  const names: string[] = [];
  const warn = ({ name }: Error) => void names.push(name);
  process.on('warning', warn);
  onTestFinished(() => void process.off('warning', warn));
  return names;
}

/** Enough events to fill every buffer several times. */
const MANY = 6_000;
const NAME = 'a fern with a name that is long enough for all of them to weigh something '.repeat(28);

async function reading(url: string, requests: Parameters<typeof openEvents>[1]): Promise<EventConnection> {
  const connection = await openEvents(url, requests);
  connection.read();
  return connection;
}

describe('GET /events as text/event-stream', () => {
  test('sends the existing events, then each new event, in order', async () => {
    const { url, alice, bob, end } = await newUsers();
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak', tag: 'outdoor' });
    const stream = listen(url, { token, query: `?after=${end}` });
    expect(subjectsIn(await stream.first(2))).toEqual(['plant-alice/1', 'plant-bob/1']);
    for (let id = 2; id <= 5; id++) {
      await alice.create(id, { name: `Fern ${id}` });
      await bob.create(id, { name: `Oak ${id}` });
      const [ofAlice, ofBob] = [`plant-alice/${id}`, `plant-bob/${id}`];
      expect(subjectsIn(await stream.first(2 * id)).slice(-2)).toEqual([ofAlice, ofBob]);
    }
    expect(stream.messages).toHaveLength(10);
    expect(stream.failures).toEqual([]);
  });

  test('sends each event as in NDJSON, with its position as id', async () => {
    const { url, alice, bob } = await newUsers();
    const stream = listen(url, { token });
    await stream.opened;
    const name = 'line\nline\r\n\r\rdata: id: 9\u2028\u2029\0 🌱';
    const responses = [await alice.create(1, { name, tag: '' }), await bob.create(1, { name: '' })];
    const lines = await linesOf(url, { token });
    const messages = await stream.first(lines.length);
    expect(messages.map(({ data }) => data)).toEqual(lines);
    expect(messages.map(({ data }) => JSON.parse(data).position)).toEqual(messages.map(({ id }) => id));
    const acknowledged = responses.map(({ headers }) => headers.get('log-position')?.split('.')[1]);
    expect(messages.slice(-2).map(({ id }) => id)).toEqual(acknowledged);
    expect(JSON.parse(messages.at(-2)?.data ?? '').data).toMatchObject({ id: '1', name, tag: '' });
  });

  test('starts with a comment, followed by messages with an id and one line of data', async () => {
    const { url, alice, bob, end } = await newUsers();
    const connection = await reading(url, { token, query: `?after=${end}` });
    expect(connection.response.statusCode).toBe(200);
    expect(connection.response.headers).toMatchObject({
      'content-type': expect.stringMatching(/^text\/event-stream(; ?charset=utf-8)?$/),
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'transfer-encoding': 'chunked',
    });
    const [comment] = await connection.received(/\n\n/).then((text) => text.split('\n\n'));
    expect(comment).toMatch(/^:/);
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const text = await connection.received(/plant-bob.*\n\n/);
    expect(text.replace(/: \{.*\}$/gm, ': {…}')).toBe(
      `${comment}\n\nid: ${end + 1}\ndata: {…}\n\nid: ${end + 2}\ndata: {…}\n\n`,
    );
  });

  test('filters existing and new events', async () => {
    const { url, alice, bob, ofAlice, ofBob, end } = await newUsers();
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const filters = {
      [`user=${ofAlice}`]: ['plant-alice/1', 'plant-alice/2'],
      [`user=${ofBob}&id=2`]: ['plant-bob/2'],
      [`id=2&after=${end}`]: ['plant-alice/2', 'plant-bob/2'],
      [`after=${end + 2}`]: ['plant-alice/2', 'plant-bob/2'],
      [`type=PlantCreated&after=${end + 1}&user=${ofBob}`]: ['plant-bob/1', 'plant-bob/2'],
      'type=PlantMoved': [],
      'since=2099-01-01T00:00:00Z': [],
      [`until=2099-01-01T00:00:00Z&id=1&after=${end}`]: ['plant-alice/1', 'plant-bob/1'],
      [`after=${end}`]: ['plant-alice/1', 'plant-bob/1', 'plant-alice/2', 'plant-bob/2'],
    };
    const connections = await Promise.all(
      Object.keys(filters).map((filter) => reading(url, { token, query: `?${filter}` })),
    );
    for (const connection of connections) await connection.received(/\n\n/);
    await alice.create(2, { name: 'Ivy' });
    await bob.create(2, { name: 'Elm' });
    await connections.at(-1)?.received(/plant-bob \d+\/2.*\n\n/);
    for (const [i, [filter, expected]] of Object.entries(filters).entries()) {
      const messages = () => messagesIn(connections[i]?.text() ?? '');
      await expect.poll(() => subjectsIn(messages()), { message: filter }).toEqual(expected);
      const lines = await linesOf(url, { token, query: `?${filter}` });
      expect(messages().map(({ data }) => data)).toEqual(lines);
    }
  });

  test('completes after limit events', async () => {
    const { url, alice, bob, end } = await newUsers();
    await alice.create(1, { name: 'Fern' });
    const connection = await reading(url, { token, query: `?limit=2&after=${end}` });
    await connection.received(/plant-alice/);
    await bob.create(1, { name: 'Oak' });
    await alice.create(2, { name: 'Ivy' });
    expect(await connection.ended).toBe(true);
    expect(subjectsIn(messagesIn(connection.text()))).toEqual(['plant-alice/1', 'plant-bob/1']);
  });

  test('sends the same to a hundred clients', async () => {
    const { url, alice, bob, end } = await newUsers();
    await alice.create(1, { name: 'Fern' });
    const query = `?after=${end}`;
    const auditors = await Promise.all(
      Array.from({ length: 100 / MAX_IN_FLIGHT['event streams'] }, (_, i) =>
        shared.bearer(`carol ${i}`, 'audit'),
      ),
    );
    const streams = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        reading(url, { token: (auditors[i % auditors.length] ?? '').replace('Bearer ', ''), query }),
      ),
    );
    const warned = warnings();
    await bob.create(1, { name: 'Oak' });
    const texts = await Promise.all(streams.map((stream) => stream.received(/plant-bob.*\n\n/)));
    expect(subjectsIn(messagesIn(texts[0] ?? ''))).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(new Set(texts).size).toBe(1);
    expect(warned).toEqual([]);
  });

  test('returns the same errors as NDJSON, before anything is sent', async () => {
    const { url, alice, end } = await newUsers();
    await alice.create(1, { name: 'Fern' });
    const getEvents = (query: string, authorization = `Bearer ${token}`) =>
      fetch(`${url}/events${query}`, { headers: { accept: SSE, authorization } });
    expect(await refusedWith(40005, await getEvents(`?after=${end + 2}`))).toMatch(
      /^after is beyond the end/,
    );
    await refusedWith(40005, await getEvents('?after=x'));
    await refusedWith(40004, await getEvents('?user=dave'));
    await refusedWith(40004, await getEvents('?since=2026-02-02T00:00:00Z&until=2026-01-01T00:00:00Z'));
    await refusedWith(40102, await getEvents('', 'Bearer x'));
    const plain = await alice.request('/events', { headers: { accept: SSE } });
    expect(await refusedWith(40301, plain)).toMatch(/audit/);
  });

  test('responds to HEAD with the same headers, and ends the subscription', async () => {
    const { url, token, append, expectNoSubscription } = await watchedApp();
    await append('alice', 1);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const head = await reading(url, { token, method: 'HEAD', agent });
    expect(await head.ended).toBe(true);
    await expectNoSubscription();
    const get = await reading(url, { token, agent });
    expect(head.text()).toBe('');
    expect(head.response.statusCode).toBe(200);
    const fields = ({ response }: EventConnection) =>
      Object.keys(response.headers).filter((name) => name !== 'transfer-encoding');
    expect(fields(head)).toEqual(fields(get));
    get.leave();
    await expectNoSubscription();
  });
});

describe('Last-Event-ID', () => {
  /** Four events of two new users; `position(1)` is that of the first. */
  async function fourEvents() {
    const { end, ...service } = await newUsers();
    for (const id of [1, 2]) {
      await service.alice.create(id, { name: `Fern ${id}` });
      await service.bob.create(id, { name: `Oak ${id}` });
    }
    return { ...service, position: (n: number) => `${end + n}` };
  }

  test('resumes after that event, also with a filter and at the end of the log', async () => {
    const { url, alice, ofBob, position } = await fourEvents();
    const rest = listen(url, { token, headers: { 'last-event-id': position(2) } });
    const filtered = listen(url, {
      token,
      query: `?user=${ofBob}`,
      headers: { 'last-event-id': position(1) },
    });
    const atEnd = listen(url, { token, headers: { 'last-event-id': position(4) } });
    expect(subjectsIn(await rest.first(2))).toEqual(['plant-alice/2', 'plant-bob/2']);
    expect(subjectsIn(await filtered.first(2))).toEqual(['plant-bob/1', 'plant-bob/2']);
    await atEnd.opened;
    await alice.create(3, { name: 'Ivy' });
    expect(subjectsIn(await atEnd.first(1))).toEqual(['plant-alice/3']);
    expect(subjectsIn(await rest.first(3)).at(-1)).toBe('plant-alice/3');
  });

  test('takes precedence over after', async () => {
    const { url, position } = await fourEvents();
    for (const after of [position(3), '0', position(99), 'garbage']) {
      const headers = { 'last-event-id': position(2) };
      const stream = listen(url, { token, query: `?after=${after}`, headers });
      expect((await stream.first(2)).map(({ id }) => id)).toEqual([position(3), position(4)]);
    }
  });

  test('that is not a position of this log is 40005, and the client stops reconnecting', async () => {
    const { url, position } = await fourEvents();
    const bad = {
      garbage: 'x',
      'of a Log-Position': 's0123456789ab.1',
      twice: '1, 1',
      'beyond the end': position(5),
      'of a thousand digits': '1'.repeat(1_000),
      'that is not ASCII': '\xe9',
    };
    for (const [what, id] of Object.entries(bad)) {
      const headers = { accept: SSE, 'last-event-id': id, authorization: `Bearer ${token}` };
      const message = await refusedWith(40005, await fetch(`${url}/events?after=1`, { headers }));
      expect(message, what).toMatch(/^Last-Event-ID is /);
      const stream = listen(url, { token, headers: { 'last-event-id': id } });
      await expect(stream.opened, what).rejects.toThrow('given up');
      expect(stream.failures, what).toEqual([400]);
    }
  });

  test('is ignored for NDJSON', async () => {
    const { url, position } = await fourEvents();
    for (const id of ['garbage', position(99), position(2)]) {
      const headers = { 'last-event-id': id };
      const lines = await linesOf(url, { token, query: `?after=${position(1)}`, headers });
      expect(lines.map((line) => JSON.parse(line).position)).toEqual([2, 3, 4].map(position));
    }
  });

  test('lets a client resume after a restart of the server, without gaps or duplicates', async () => {
    const dir = tempDir();
    const first = await auditedService({ DATA_DIR: dir });
    const { port } = new URL(first.url);
    await first.alice.create(1, { name: 'Fern' });
    const stream = listen(first.url, { token: first.token });
    await stream.first(1);
    await first.bob.create(1, { name: 'Oak' });
    await stream.first(2);
    stopClock(); // the client reconnects after some seconds
    const [cut] = await Promise.all([stream.failed(1), first.close()]);
    expect(cut).toBeUndefined();
    const second = await auditedService({ DATA_DIR: dir, PORT: port });
    await second.alice.create(2, { name: 'Ivy' });
    await second.bob.create(2, { name: 'Elm' });
    await untilSettled(stream.first(4));
    await second.alice.create(3, { name: 'Moss' });
    await stream.first(5);
    const { messages } = stream;
    expect(messages.map(({ data }) => data)).toEqual(await linesOf(second.url, { token: second.token }));
    expect(messages.map(({ id }) => id)).toEqual(['1', '2', '3', '4', '5']);
  });
});

describe('an idle stream', () => {
  /** Resolves when the stream is idle: its timers are that of the next comment and that of the token. */
  const idle = () => expect.poll(() => vi.getTimerCount()).toBe(2);

  test('gets a comment every 15 seconds, and new events at once', async () => {
    const { url, token, append } = await watchedApp();
    stopClock();
    const connection = await reading(url, { token });
    const begin = await connection.received(/\n\n/);
    await idle();
    vi.advanceTimersByTime(HEARTBEAT - 1);
    await append('alice', 1);
    const first = await connection.received(/plant-alice\/1.*\n\n/);
    expect(first).not.toContain(BEAT);
    await idle();
    for (let beats = 1; beats <= 3; beats++) {
      vi.advanceTimersByTime(HEARTBEAT - 1);
      expect(connection.text().split(BEAT)).toHaveLength(beats);
      vi.advanceTimersByTime(1);
      while (connection.text().split(BEAT).length <= beats) await once(connection.response, 'data');
      await idle();
    }
    expect(connection.text()).toBe(`${first}${BEAT}${BEAT}${BEAT}`);
    await append('bob', 1);
    const all = await connection.received(/plant-bob\/1.*\n\n/);
    expect(subjectsIn(messagesIn(all))).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(all.startsWith(begin)).toBe(true);
  });

  test('gets comments also while events are appended that the filter excludes', async () => {
    const { url, token, append, subscriptions } = await watchedApp();
    await append('alice', 1);
    stopClock();
    const connection = await reading(url, { token, query: '?user=alice' });
    await connection.received(/plant-alice\/1.*\n\n/);
    for (let id = 1; id <= 4; id++) {
      await idle();
      vi.advanceTimersByTime(HEARTBEAT / 2);
      await append('bob', id);
      await expect.poll(() => subscriptions[0]?.given).toBe(1 + id);
    }
    await expect.poll(connection.text).toContain(BEAT);
    expect(subjectsIn(messagesIn(connection.text()))).toEqual(['plant-alice/1']);
  });

  test('ends its subscription at once when the client disconnects', async () => {
    const { url, token, append, open, subscriptions } = await watchedApp();
    await append('alice', 1);
    const leaving = await reading(url, { token });
    const staying = await reading(url, { token, query: '?user=alice' });
    await leaving.received(/plant-alice\/1.*\n\n/);
    await staying.received(/plant-alice\/1.*\n\n/);
    expect(open()).toBe(2);
    leaving.leave();
    await expect.poll(open).toBe(1);
    expect(subscriptions.map(({ returned }) => returned)).toEqual([true, false]);
    await append('alice', 2);
    expect(subjectsIn(messagesIn(await staying.received(/plant-alice\/2.*\n\n/)))).toHaveLength(2);
  });

  test('is not started for a client that disconnects before its token is verified', async () => {
    const verifying = Promise.withResolvers<void>();
    const checked = Promise.withResolvers<Claims>();
    const verifyToken = () => {
      verifying.resolve();
      return checked.promise;
    };
    const { app, url, token, expectNoSubscription, log } = await watchedApp({ verifyToken });
    const leaving = new AbortController();
    const headers = { accept: SSE, authorization: `Bearer ${token}` };
    const response = fetch(`${url}/events`, { headers, signal: leaving.signal });
    await verifying.promise;
    leaving.abort();
    await expect(response).rejects.toThrow();
    await expect.poll(log).toContain('"disconnected":true');
    checked.resolve(auditor());
    // Requests are processed in order, so these end after the aborted one.
    for (let i = 0; i < 3; i++) await app.inject({ url: '/events', headers: { authorization: 'Bearer x' } });
    await expectNoSubscription();
  });
});

describe('a client', () => {
  /** The log of these tests, with many events of alice. */
  let log: EventStore;

  beforeAll(async () => {
    const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
    log = await openLogOf(logWith({ events: MANY, dir, user: "'alice'", name: `'${NAME}'` }));
    return async () => {
      await log.close();
      rmSync(dir, { recursive: true });
    };
  });

  test('that pauses reading holds no subscription, and misses no event later', async () => {
    const { url, token, append, open, given, subscriptions } = await watchedApp({ log });
    stopClock();
    const connection = await openEvents(url, { token });
    expect(open()).toBe(1);
    await untilSettled(expect.poll(open).toBe(0));
    const before = given();
    expect(before).toBeLessThan(MANY / 2);
    await append('bob', 1);
    expect(given()).toBe(before);
    expect(subscriptions).toHaveLength(1);

    let text = '';
    let seen = 0;
    connection.response.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      const messages = messagesIn(text);
      for (const { id } of messages) expect(Number(id)).toBe(++seen);
      const end = text.lastIndexOf('\n\n');
      if (end !== -1) text = text.slice(end + 2);
    });
    while (seen < MANY + 1) await once(connection.response, 'data');
    await append('bob', 2);
    while (seen < MANY + 2) await once(connection.response, 'data');
    expect(open()).toBe(1);
  });

  test.each([SSE, 'application/x-ndjson'])(
    'that disconnects in the middle of %s ends its subscription',
    async (accept) => {
      const { url, token, expectNoSubscription, given } = await watchedApp({ log });
      stopClock(); // so that the disconnect is detected, not the idle time
      const connection = await openEvents(url, { token, headers: { accept } });
      expect(connection.response.statusCode).toBe(200);
      for (let last = -1; last !== given(); await pause(20)) last = given();
      expect(given()).toBeLessThan(MANY);
      connection.leave();
      await expectNoSubscription();
    },
  );

  test('of NDJSON gets the complete replay when the server is closed; a stream ends', async () => {
    const { app, url, token, open, given } = await watchedApp({ log });
    const stream = await reading(url, { token, query: `?after=${MANY}` });
    await stream.received(/\n\n/);
    stopClock();
    const replay = await openEvents(url, { token, headers: { accept: 'application/x-ndjson' } });
    await untilSettled(expect.poll(open).toBe(1)); // the one of the stream
    expect(given()).toBeLessThan(MANY);
    const closed = app.close();
    expect(await stream.ended).toBe(true);
    replay.read();
    expect(await replay.ended).toBe(true);
    expect(replay.text().match(/"subject":"plant-alice\/\d+".*\}\n/g)).toHaveLength(MANY);
    await closed;
  });
});

describe('a stream completes', () => {
  test('when its token expires, and the next one is 401', async () => {
    const { url, dir, alice, bob } = await auditedService();
    stopClock();
    const token = await auditorToken(dir, '2s');
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    const connection = await reading(url, { token });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    await connection.received(/plant-bob.*\n\n/);
    vi.setSystemTime(exp * 1_000 - 1);
    expect(connection.response.complete).toBe(false);
    await untilSettled(connection.ended);
    expect(await connection.ended).toBe(true);
    expect(Date.now()).toBeGreaterThanOrEqual(exp * 1_000);
    const next = listen(url, { token, headers: { 'last-event-id': '1' } });
    await expect(next.opened).rejects.toThrow('given up');
    expect(next.failures).toEqual([401]);
  });

  const AGAIN = 100;
  const invalid = (): Claims => {
    throw new InvalidToken('The token is not valid.');
  };
  test.each([
    ['key', invalid],
    ['scope', () => claimsOf('carol', 'other')],
  ])('when the %s is revoked, and not before', async (_, withdrawn) => {
    let verifications = 0;
    let verify = (): Claims => ({ ...auditor(), verifyAgainAt: Date.now() + AGAIN });
    const verifyToken = () => {
      verifications++;
      return verify();
    };
    const { url, token, append, open } = await watchedApp({ verifyToken, now: () => new Date() });
    const connection = await reading(url, { token });
    await connection.received(/\n\n/);
    const first = verifications;
    await expect.poll(() => verifications).toBeGreaterThan(first + 2);
    await append('alice', 1);
    await connection.received(/plant-alice\/1.*\n\n/);
    verify = withdrawn;
    expect(await connection.ended).toBe(true);
    expect(open()).toBe(0);
  });

  test.each([
    ['of 30 days', 30 * 24 * 60 * 60 * 1_000],
    ['that never expires', Number.POSITIVE_INFINITY],
  ])('but not with a token %s, which is not verified repeatedly', async (_, validity) => {
    const warned = warnings();
    let verifications = 0;
    const until = Date.now() + validity;
    const verifyToken = () => {
      verifications++;
      return { ...auditor(), until };
    };
    const { url, token, append } = await watchedApp({ verifyToken, now: () => new Date() });
    const connection = await reading(url, { token });
    await append('alice', 1);
    await connection.received(/plant-alice\/1.*\n\n/);
    const before = verifications;
    await pause(100); // a timer that overflows would fire repeatedly
    await append('bob', 1);
    await connection.received(/plant-bob\/1.*\n\n/);
    expect(verifications).toBe(before);
    expect(warned).toEqual([]);
  });

  test('when the server is closed, which does not wait for clients', async () => {
    const { url, token, alice, bob, close } = await auditedService();
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const kept = await reading(url, { token, agent });
    const alone = await reading(url, { token });
    const stream = listen(url, { token });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    await Promise.all([stream.first(2), ...[kept, alone].map((one) => one.received(/plant-bob.*\n\n/))]);
    await close(); // only this ends them, and without an abort
    expect(await Promise.all([kept.ended, alone.ended])).toEqual([true, true]);
    for (const { text } of [kept, alone])
      expect(subjectsIn(messagesIn(text()))).toEqual(['plant-alice/1', 'plant-bob/1']);
  });
});

/** The subscriptions of the view, and of deleted streams. */
const BESIDES = 2;

describe('a stream from EventStoreDB', () => {
  test('resumes only after the position of an event, and its subscription ends when the client disconnects', async () => {
    const server = await startFakeServer();
    const { url, token, alice, bob } = await auditedService({ EVENTSTOREDB_URL: server.url });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    await expect.poll(() => server.openSubscriptions).toBe(BESIDES);
    const connection = await reading(url, { token });
    const [first] = messagesIn(await connection.received(/plant-bob.*\n\n/));
    expect(server.openSubscriptions).toBe(BESIDES + 1);
    connection.leave();
    await expect.poll(() => server.openSubscriptions).toBe(BESIDES);
    const resumeAfter = (id: string) => listen(url, { token, headers: { 'last-event-id': id } });
    expect(subjectsIn(await resumeAfter(first?.id ?? '').first(1))).toEqual(['plant-bob/1']);
    const between = resumeAfter(String(BigInt(first?.id ?? '') + 1n));
    await expect(between.opened).rejects.toThrow('given up');
    expect(between.failures).toEqual([400]);
  });
});

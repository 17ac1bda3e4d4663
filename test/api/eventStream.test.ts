import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { logWith } from '@event-sourced/testing/logs';
import { fixedParts, refusedWith } from '@event-sourced/testing/refusal';
import { openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { type Batch, type EventStore, NO_STREAM } from '../../packages/event-log/src/eventStore.ts';
import { type Claims, InvalidToken } from '../../packages/http/src/tokens/tokenVerifier.ts';
import { appOver, claimsOf } from '../support/appOver.ts';
import { auditorToken, linesOf, listen, messagesIn, openEvents } from '../support/eventStream.ts';
import { startService } from '../support/service.ts';

const SSE = 'text/event-stream';
const HEARTBEAT_INTERVAL_MS = 15_000;
const HEARTBEAT = ': heartbeat\n\n';

/** A service, its users and a token of its auditor. */
async function auditedService(env: Record<string, string> = {}) {
  const service = await startService(env);
  const token = await auditorToken(service.dir);
  return { ...service, token, alice: service.as('alice'), bob: service.as('bob') };
}

/** The HTTP API over an embedded log, by default a new one, with a record of its subscriptions. */
async function watchedApp({
  log: opened,
  ...given
}: Parameters<typeof appOver>[1] & { log?: EventStore } = {}) {
  const log = opened ?? (await openIn(tempDir()));
  const subscriptions: { signal: AbortSignal; events: number; returned: boolean }[] = [];
  async function* subscribe(options: Parameters<EventStore['subscribe']>[0]): AsyncGenerator<Batch> {
    const one = { signal: options.signal, events: 0, returned: false };
    subscriptions.push(one);
    try {
      for await (const batch of log.subscribe(options)) {
        one.events += batch.events.length;
        yield batch;
      }
    } finally {
      one.returned = true;
    }
  }
  const forHashing = { ...log, subscribe };
  const app = await appOver({ ...log, forHashing }, { verifyToken: auditor, ...given });
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
    delivered: () => subscriptions.reduce((sum, one) => sum + one.events, 0),
    append: (user: string, id: number, name = 'Fern') =>
      log.append(
        `plant-${user}/${id}`,
        { id: crypto.randomUUID(), type: 'PlantCreated', data: { id: `${id}`, user, name }, metadata: {} },
        NO_STREAM,
      ),
  };
}

const auditor = (): Claims => claimsOf('carol', 'audit');

const subjectsIn = (messages: { data: string }[]): string[] =>
  messages.map(({ data }) => JSON.parse(data).subject);

/** A stream that is read from its start. */
async function reading(...[url, request]: Parameters<typeof openEvents>) {
  const connection = await openEvents(url, request);
  connection.read();
  return connection;
}

describe('GET /events as text/event-stream', () => {
  test('starts with a comment, then sends existing and new events as in NDJSON, with positions as IDs', async () => {
    const { url, token, alice, bob } = await auditedService();
    const name = 'line\nline\r\n\r\rdata: id: 9\u2028\u2029\0 🌱';
    await alice.create(1, { name, tag: '' });
    const connection = await reading(url, { token });
    expect(connection.response.headers).toMatchObject({
      'content-type': `${SSE}; charset=utf-8`,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'transfer-encoding': 'chunked',
    });
    const source = listen(url, { token });
    await source.first(1);
    await bob.create(1, { name: '' });
    const lines = await linesOf(url, { token });
    expect(await connection.received(/plant-bob.*\n\n/)).toBe(
      `: connected\n\n${lines.map((line, i) => `id: ${i + 1}\ndata: ${line}\n\n`).join('')}`,
    );
    const messages = await source.first(2);
    expect(messages).toEqual(lines.map((data, i) => ({ id: `${i + 1}`, data })));
    expect(JSON.parse(messages[0]?.data ?? '').data).toMatchObject({ id: '1', name, tag: '' });
    expect(source.failures).toEqual([]);
  });

  test('filters existing and new events, and completes after limit events', async () => {
    const { url, token, alice, bob } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const filters = {
      'user=alice': ['plant-alice/1', 'plant-alice/2'],
      'id=2&after=1': ['plant-alice/2', 'plant-bob/2'],
      'type=PlantMoved': [],
      'limit=3': ['plant-alice/1', 'plant-bob/1', 'plant-alice/2'],
      '': ['plant-alice/1', 'plant-bob/1', 'plant-alice/2', 'plant-bob/2'],
    };
    const connections = await Promise.all(
      Object.keys(filters).map((filter) => reading(url, { token, query: `?${filter}` })),
    );
    for (const connection of connections) await connection.received(/\n\n/);
    await alice.create(2, { name: 'Ivy' });
    await bob.create(2, { name: 'Elm' });
    await connections.at(-1)?.received(/plant-bob\/2.*\n\n/);
    for (const [i, [filter, expected]] of Object.entries(filters).entries()) {
      const subjects = () => subjectsIn(messagesIn(connections[i]?.text() ?? ''));
      await expect.poll(subjects, { message: filter }).toEqual(expected);
    }
    expect(await connections.at(-2)?.ended).toBe(true);
  });

  test('responds to HEAD with the same headers, and ends the subscription', async () => {
    const { url, append, expectNoSubscription } = await watchedApp();
    await append('alice', 1);
    const headers = { accept: SSE, authorization: 'Bearer carol' };
    const head = await fetch(`${url}/events`, { method: 'HEAD', headers });
    expect(await head.text()).toBe('');
    await expectNoSubscription();
    const whole = await fetch(`${url}/events`, { headers });
    expect(fixedParts(head)).toEqual(fixedParts(whole));
    await whole.body?.cancel();
    await expectNoSubscription();
  });
});

describe('Last-Event-ID', () => {
  /** A log with four events. */
  async function fourEvents() {
    const app = await watchedApp();
    for (const id of [1, 2]) for (const user of ['alice', 'bob']) await app.append(user, id);
    return app;
  }

  test.each([
    ['2', '', ['3', '4', '5']],
    ['1', '?user=bob', ['2', '4']],
    ['4', '', ['5']],
    ['2', '?after=3', ['3', '4', '5']],
    ['2', '?after=garbage', ['3', '4', '5']],
  ])('%s resumes after that event, also with the query %j', async (id, query, expected) => {
    const { url, token, append } = await fourEvents();
    const stream = listen(url, { token, query, headers: { 'last-event-id': id } });
    await stream.opened;
    await append('alice', 3);
    expect((await stream.first(expected.length)).map((message) => message.id)).toEqual(expected);
  });

  test.each(['x', 's0123456789ab.1', '1, 1', '5', '1'.repeat(1_000), '\xe9'])(
    '%j is not a position of this log: 40005, and the client stops reconnecting',
    async (id) => {
      const { url, token } = await fourEvents();
      const headers = { accept: SSE, 'last-event-id': id, authorization: `Bearer ${token}` };
      const message = await refusedWith(40005, await fetch(`${url}/events?after=1`, { headers }));
      expect(message).toMatch(/^Last-Event-ID is /);
      const stream = listen(url, { token, headers: { 'last-event-id': id } });
      await expect(stream.opened).rejects.toThrow('given up');
      expect(stream.failures).toEqual([400]);
    },
  );
});

describe('an idle stream', () => {
  /** Resolves when the stream is idle: its timers are that of the next comment and that of the token. */
  const idle = () => expect.poll(() => vi.getTimerCount()).toBe(2);

  test('gets a comment every 15 seconds, and new events at once', async () => {
    const { url, token, append } = await watchedApp();
    stopClock();
    const connection = await reading(url, { token });
    await connection.received(/\n\n/);
    await idle();
    vi.advanceTimersByTime(HEARTBEAT_INTERVAL_MS - 1);
    await append('alice', 1);
    const first = await connection.received(/plant-alice\/1.*\n\n/);
    expect(first).not.toContain(HEARTBEAT);
    await idle();
    for (let beats = 1; beats <= 3; beats++) {
      vi.advanceTimersByTime(HEARTBEAT_INTERVAL_MS - 1);
      expect(connection.text().split(HEARTBEAT)).toHaveLength(beats);
      vi.advanceTimersByTime(1);
      while (connection.text().split(HEARTBEAT).length <= beats) await once(connection.response, 'data');
      await idle();
    }
    await append('bob', 1);
    const all = await connection.received(/plant-bob\/1.*\n\n/);
    expect(all.startsWith(`${first}${HEARTBEAT.repeat(3)}id: 2\n`)).toBe(true);
  });
});

describe('a client', async () => {
  /** Enough events to fill every buffer several times. */
  const MANY = 6_000;
  const NAME = 'a fern with a name that is long enough for all of them to weigh something '.repeat(28);
  const dir = logWith({ events: MANY, dir: tempDir(afterAll), user: "'alice'", name: `'${NAME}'` });
  const log = await openIn(dir, afterAll);

  test('that pauses reading holds no subscription, and misses no event later', async () => {
    const { url, token, append, open, delivered, subscriptions } = await watchedApp({ log });
    stopClock();
    const connection = await openEvents(url, { token });
    expect(open()).toBe(1);
    await untilSettled(expect.poll(open).toBe(0));
    const before = delivered();
    expect(before).toBeLessThan(MANY / 2);
    await append('bob', 1);
    expect(delivered()).toBe(before);
    expect(subscriptions).toHaveLength(1);

    let text = '';
    let last = 0;
    connection.response.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      for (const { id } of messagesIn(text)) expect(Number(id)).toBe(++last);
      const end = text.lastIndexOf('\n\n');
      if (end !== -1) text = text.slice(end + 2);
    });
    while (last < MANY + 1) await once(connection.response, 'data');
    await append('bob', 2);
    while (last < MANY + 2) await once(connection.response, 'data');
    expect(open()).toBe(1);
  });

  test('that disconnects in the middle of a stream ends its subscription', async () => {
    const { url, token, expectNoSubscription, delivered } = await watchedApp({ log });
    stopClock(); // so that the disconnect is detected, not the idle time
    const connection = await openEvents(url, { token });
    for (let last = -1; last !== delivered(); await pause(20)) last = delivered();
    expect(delivered()).toBeGreaterThan(0);
    expect(delivered()).toBeLessThan(MANY);
    connection.leave();
    await expectNoSubscription();
  });

  test('of NDJSON gets the complete replay when the server is closed; a stream ends', async () => {
    const { app, url, token, open, delivered } = await watchedApp({ log });
    const stream = await reading(url, { token, query: `?after=${MANY}` });
    await stream.received(/\n\n/);
    stopClock();
    const replay = await openEvents(url, { token, headers: { accept: 'application/x-ndjson' } });
    await untilSettled(expect.poll(open).toBe(1)); // the one of the stream
    expect(delivered()).toBeLessThan(MANY);
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
    const { url, dir, alice } = await auditedService();
    stopClock();
    const token = await auditorToken(dir, '2s');
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    const connection = await reading(url, { token });
    await alice.create(1, { name: 'Fern' });
    await connection.received(/plant-alice.*\n\n/);
    vi.setSystemTime(exp * 1_000 - 1);
    expect(connection.response.complete).toBe(false);
    await untilSettled(connection.ended);
    expect(await connection.ended).toBe(true);
    expect(Date.now()).toBeGreaterThanOrEqual(exp * 1_000);
    const next = listen(url, { token, headers: { 'last-event-id': '1' } });
    await expect(next.opened).rejects.toThrow('given up');
    expect(next.failures).toEqual([401]);
  });

  const invalid = (): Claims => {
    throw new InvalidToken('The token is not valid.');
  };
  test.each([
    ['key', invalid],
    ['scope', () => claimsOf('carol', 'other')],
  ])('when the %s is revoked, and not before', async (_, withdrawn) => {
    let verifications = 0;
    let verify = (): Claims => ({ ...auditor(), verifyAgainAt: Date.now() + 100 });
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

  test('but not with a token of 30 days, which is not verified repeatedly', async () => {
    let verifications = 0;
    const verifyAgainAt = Date.now() + 30 * 24 * 60 * 60 * 1_000;
    const verifyToken = () => {
      verifications++;
      return { ...auditor(), verifyAgainAt };
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
  });
});

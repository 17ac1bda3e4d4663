import { once } from 'node:events';
import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Batch, type EventStore, NO_STREAM } from '../../src/eventStore/eventStore.ts';
import { type Identity, InvalidToken } from '../../src/tokens/tokenVerifier.ts';
import { openIn, startDouble } from '../copy/logs.ts';
import { appOver } from '../support/appOver.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import type { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { type Answer, answerOf, auditorToken, linesOf, listen, messagesIn } from '../support/eventStream.ts';
import { answered } from '../support/load.ts';
import { refusedWith } from '../support/refusal.ts';
import { startService } from '../support/service.ts';
import { tempDir } from '../support/tempDir.ts';

const SSE = 'text/event-stream';
/** A stream on which nothing happens gets a comment so often, in milliseconds. */
const HEARTBEAT = 15_000;
const BEAT = ': still here\n\n';
/** A service, its users and a token of its auditor. */
async function auditedService(env: Record<string, string> = {}) {
  const service = await startService(env);
  const token = await auditorToken(service.dir);
  return { ...service, token, alice: service.as('alice'), bob: service.as('bob') };
}

/** The HTTP side over an embedded log, with what its readers make of it. */
async function watchedApp(given: Parameters<typeof appOver>[1] = {}) {
  const log = await openIn(tempDir());
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
  const app = await appOver({ ...log, subscribe }, { verifyToken: auditor, ...given });
  return {
    ...app,
    token: 'carol',
    subscriptions,
    /** Subscriptions that the store still has to serve. */
    open: () => subscriptions.filter(({ signal, returned }) => !signal.aborted && !returned).length,
    /** Events that the store has given to them all. */
    given: () => subscriptions.reduce((sum, one) => sum + one.given, 0),
    append: (user: string, id: number, name = 'Fern') =>
      log.append(
        `plant-${user}/${id}`,
        { id: crypto.randomUUID(), type: 'PlantCreated', data: { id: `${id}`, user, name }, metadata: {} },
        NO_STREAM,
      ),
  };
}

const auditor = (): Identity => ({ user: 'carol', scopes: ['audit'], until: Number.POSITIVE_INFINITY });

const subjectsIn = (messages: { data: string }[]): string[] =>
  messages.map(({ data }) => JSON.parse(data).subject);

/** Enough to fill every buffer on the way a few times over. */
const MANY = 12_000;
/** Appended in one commit. */
const TOGETHER = 250;
const NAME = 'a fern with a name that is long enough for all of them to weigh something '.repeat(14);

type Append = Awaited<ReturnType<typeof watchedApp>>['append'];

async function plantMany(append: Append): Promise<void> {
  for (let id = 0; id < MANY; id += TOGETHER)
    await Promise.all(Array.from({ length: TOGETHER }, (_, i) => append('alice', id + i, NAME)));
}

async function reading(url: string, asking: Parameters<typeof answerOf>[1]): Promise<Answer> {
  const answer = await answerOf(url, asking);
  answer.read();
  return answer;
}

describe('GET /events as text/event-stream', () => {
  test('gives what is there, then each event as it happens, in order', async () => {
    const { url, token, alice, bob } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak', tag: 'outdoor' });
    const stream = listen(url, { token });
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

  test('gives each event as NDJSON does, with its position as id', async () => {
    const { url, token, alice, bob } = await auditedService();
    const stream = listen(url, { token });
    await stream.opened;
    const name = 'line\nline\r\n\r\rdata: id: 9\u2028\u2029\0 🌱';
    const answers = [await alice.create(1, { name, tag: '' }), await bob.create(1, { name: '' })];
    const messages = await stream.first(2);
    expect(messages.map(({ data }) => data)).toEqual(await linesOf(url, { token }));
    expect(messages.map(({ data }) => JSON.parse(data).position)).toEqual(messages.map(({ id }) => id));
    const acknowledged = answers.map(({ headers }) => headers.get('log-position')?.split('.')[1]);
    expect(messages.map(({ id }) => id)).toEqual(acknowledged);
    expect(JSON.parse(messages[0]?.data ?? '').data).toEqual({ id: '1', user: 'alice', name, tag: '' });
  });

  test('is a comment at once, and messages of an id and one line of data', async () => {
    const { url, token, alice, bob } = await auditedService();
    const answer = await reading(url, { token });
    expect(answer.response.statusCode).toBe(200);
    expect(answer.response.headers).toMatchObject({
      'content-type': expect.stringMatching(/^text\/event-stream(; ?charset=utf-8)?$/),
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'transfer-encoding': 'chunked',
    });
    const [comment] = await answer.received(/\n\n/).then((text) => text.split('\n\n'));
    expect(comment).toMatch(/^:/);
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const text = await answer.received(/plant-bob.*\n\n/);
    expect(text.replace(/: \{.*\}$/gm, ': {…}')).toBe(
      `${comment}\n\nid: 1\ndata: {…}\n\nid: 2\ndata: {…}\n\n`,
    );
  });

  test('is asked for by Accept, where it is preferred to NDJSON', async () => {
    const { url, token, alice } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    const typeFor = async (accept: string) => {
      const answer = await answerOf(url, { token, query: '?limit=1', headers: { accept } });
      return answer.response.headers['content-type']?.split(';')[0];
    };
    expect(await typeFor('text/event-stream')).toBe(SSE);
    expect(await typeFor('application/x-ndjson;q=0.5, text/event-stream')).toBe(SSE);
    expect(await typeFor('text/*')).toBe(SSE);
    expect(await typeFor('*/*')).toBe('application/x-ndjson');
    expect(await typeFor('text/event-stream;q=0.5, application/x-ndjson')).toBe('application/x-ndjson');
  });

  test('filters what is there and what happens', async () => {
    const { url, token, alice, bob } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const filters = {
      'user=alice': ['plant-alice/1', 'plant-alice/2'],
      'user=bob&id=2': ['plant-bob/2'],
      'id=2': ['plant-alice/2', 'plant-bob/2'],
      'after=2': ['plant-alice/2', 'plant-bob/2'],
      'type=PlantCreated&after=1&user=bob': ['plant-bob/1', 'plant-bob/2'],
      'type=PlantMoved': [],
      'since=2020-01-01T00:00:00Z&user=alice': ['plant-alice/1', 'plant-alice/2'],
      'since=2099-01-01T00:00:00Z': [],
      'until=2099-01-01T00:00:00Z&id=1': ['plant-alice/1', 'plant-bob/1'],
      '': ['plant-alice/1', 'plant-bob/1', 'plant-alice/2', 'plant-bob/2'],
    };
    const asking = Object.keys(filters).map((filter) => reading(url, { token, query: `?${filter}` }));
    const answers = await Promise.all(asking);
    for (const answer of answers) await answer.received(/\n\n/);
    await alice.create(2, { name: 'Ivy' });
    await bob.create(2, { name: 'Elm' });
    await answers.at(-1)?.received(/plant-bob\/2.*\n\n/);
    for (const [i, [filter, expected]] of Object.entries(filters).entries()) {
      const messages = () => messagesIn(answers[i]?.text() ?? '');
      await expect.poll(() => subjectsIn(messages()), { message: filter }).toEqual(expected);
      const lines = await linesOf(url, { token, query: `?${filter}` });
      expect(messages().map(({ data }) => data)).toEqual(lines);
    }
  });

  test('ends after limit events, properly', async () => {
    const { url, token, alice, bob } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    const answer = await reading(url, { token, query: '?limit=2' });
    await answer.received(/plant-alice\/1/);
    await bob.create(1, { name: 'Oak' });
    await alice.create(2, { name: 'Ivy' });
    expect(await answer.ended).toBe(true);
    expect(subjectsIn(messagesIn(answer.text()))).toEqual(['plant-alice/1', 'plant-bob/1']);
  });

  test('gives a hundred readers the same', async () => {
    const { url, token, alice, bob } = await auditedService();
    await alice.create(1, { name: 'Fern' });
    const streams = await Promise.all(Array.from({ length: 100 }, () => reading(url, { token })));
    const warned: string[] = [];
    const warn = ({ name }: Error) => void warned.push(name);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    await bob.create(1, { name: 'Oak' });
    const texts = await Promise.all(streams.map((stream) => stream.received(/plant-bob.*\n\n/)));
    expect(subjectsIn(messagesIn(texts[0] ?? ''))).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(new Set(texts).size).toBe(1);
    expect(warned).toEqual([]);
  });

  test('refuses as NDJSON does, before anything is sent', async () => {
    const { url, token, as } = await auditedService();
    await as('alice').create(1, { name: 'Fern' });
    const ask = (query: string, authorization = `Bearer ${token}`) =>
      fetch(`${url}/events${query}`, { headers: { accept: SSE, authorization } });
    expect(await refusedWith(40005, await ask('?after=2'))).toMatch(/^after is beyond the end/);
    await refusedWith(40005, await ask('?after=x'));
    await refusedWith(40004, await ask('?user=dave'));
    await refusedWith(40004, await ask('?since=2026-02-02T00:00:00Z&until=2026-01-01T00:00:00Z'));
    await refusedWith(40102, await ask('', 'Bearer x'));
    const plain = await as('alice').request('/events', { headers: { accept: SSE } });
    expect(await refusedWith(40301, plain)).toMatch(/audit/);
  });

  test('answers HEAD with the same fields, and lets go of the log', async () => {
    const { url, token, append, open, subscriptions } = await watchedApp();
    await append('alice', 1);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const head = await reading(url, { token, method: 'HEAD', agent });
    expect(await head.ended).toBe(true);
    await expect.poll(open).toBe(0);
    const get = await reading(url, { token, agent });
    expect(head.text()).toBe('');
    expect(head.response.statusCode).toBe(200);
    const fields = ({ response }: Answer) =>
      Object.keys(response.headers).filter((name) => name !== 'transfer-encoding');
    expect(fields(head)).toEqual(fields(get));
    get.leave();
    await expect.poll(open).toBe(0);
    await expect.poll(() => subscriptions.every(({ returned }) => returned)).toBe(true);
  });
});

describe('Last-Event-ID', () => {
  async function fourEvents() {
    const service = await auditedService();
    for (const id of [1, 2]) {
      await service.alice.create(id, { name: `Fern ${id}` });
      await service.bob.create(id, { name: `Oak ${id}` });
    }
    return service;
  }

  test('goes on after it, also with a filter, and at the very end', async () => {
    const { url, token, alice } = await fourEvents();
    const rest = listen(url, { token, headers: { 'last-event-id': '2' } });
    const ofBob = listen(url, { token, query: '?user=bob', headers: { 'last-event-id': '1' } });
    const atEnd = listen(url, { token, headers: { 'last-event-id': '4' } });
    expect(subjectsIn(await rest.first(2))).toEqual(['plant-alice/2', 'plant-bob/2']);
    expect(subjectsIn(await ofBob.first(2))).toEqual(['plant-bob/1', 'plant-bob/2']);
    await atEnd.opened;
    await alice.create(3, { name: 'Ivy' });
    expect(subjectsIn(await atEnd.first(1))).toEqual(['plant-alice/3']);
    expect(subjectsIn(await rest.first(3)).at(-1)).toBe('plant-alice/3');
  });

  test('wins over after', async () => {
    const { url, token } = await fourEvents();
    for (const query of ['?after=3', '?after=0', '?after=99', '?after=garbage']) {
      const stream = listen(url, { token, query, headers: { 'last-event-id': '2' } });
      expect((await stream.first(2)).map(({ id }) => id)).toEqual(['3', '4']);
    }
  });

  test('that is no position of this log is refused by name, and the client gives up', async () => {
    const { url, token } = await fourEvents();
    const bad = {
      garbage: 'x',
      'with a sign': '-1',
      'with a nought before': '01',
      'with a fraction': '1.0',
      'of a Log-Position': 's0123456789ab.1',
      twice: '1, 1',
      'beyond the end': '5',
      'beyond 64 bits': '9223372036854775808',
      'of a thousand digits': '1'.repeat(1_000),
      'that is no ASCII': '\xe9',
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

  test('means nothing to NDJSON', async () => {
    const { url, token } = await fourEvents();
    for (const id of ['garbage', '99', '2']) {
      const lines = await linesOf(url, { token, query: '?after=1', headers: { 'last-event-id': id } });
      expect(lines.map((line) => JSON.parse(line).position)).toEqual(['2', '3', '4']);
    }
  });

  test('is how a client goes on by itself after a restart of the server, without gap or duplicate', async () => {
    const dir = tempDir();
    const first = await auditedService({ DATA_DIR: dir });
    const { port } = new URL(first.url);
    await first.alice.create(1, { name: 'Fern' });
    const stream = listen(first.url, { token: first.token });
    await stream.first(1);
    await first.bob.create(1, { name: 'Oak' });
    await stream.first(2);
    stopClock(); // the client comes back after some seconds
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

describe('a stream on which nothing happens', () => {
  /** Resolves once the stream has nothing to do: its timers are that of the next comment and that of the token. */
  const idle = () => expect.poll(() => vi.getTimerCount()).toBe(2);

  test('gets a comment every 15 seconds, and is told at once of what happens then', async () => {
    const { url, token, append } = await watchedApp();
    stopClock();
    const answer = await reading(url, { token });
    const begin = await answer.received(/\n\n/);
    await idle();
    vi.advanceTimersByTime(HEARTBEAT - 1);
    await append('alice', 1);
    const first = await answer.received(/plant-alice\/1.*\n\n/);
    expect(first).not.toContain(BEAT);
    await idle();
    for (let beats = 1; beats <= 3; beats++) {
      vi.advanceTimersByTime(HEARTBEAT - 1);
      expect(answer.text().split(BEAT)).toHaveLength(beats);
      vi.advanceTimersByTime(1);
      while (answer.text().split(BEAT).length <= beats) await once(answer.response, 'data');
      await idle();
    }
    expect(answer.text()).toBe(`${first}${BEAT}${BEAT}${BEAT}`);
    await append('bob', 1);
    const all = await answer.received(/plant-bob\/1.*\n\n/);
    expect(subjectsIn(messagesIn(all))).toEqual(['plant-alice/1', 'plant-bob/1']);
    expect(all.startsWith(begin)).toBe(true);
  });

  test('gets it too where something happens, but nothing that was asked for', async () => {
    const { url, token, append, subscriptions } = await watchedApp();
    await append('alice', 1);
    stopClock();
    const answer = await reading(url, { token, query: '?user=alice' });
    await answer.received(/plant-alice\/1.*\n\n/);
    for (let id = 1; id <= 4; id++) {
      await idle();
      vi.advanceTimersByTime(HEARTBEAT / 2);
      await append('bob', id);
      await expect.poll(() => subscriptions[0]?.given).toBe(1 + id);
    }
    await expect.poll(answer.text).toContain(BEAT);
    expect(subjectsIn(messagesIn(answer.text()))).toEqual(['plant-alice/1']);
  });

  test('is given up at once when its reader leaves', async () => {
    const { url, token, append, open, subscriptions } = await watchedApp();
    await append('alice', 1);
    const [leaving, staying] = [
      await reading(url, { token }),
      await reading(url, { token, query: '?user=alice' }),
    ];
    await leaving.received(/plant-alice\/1.*\n\n/);
    await staying.received(/plant-alice\/1.*\n\n/);
    expect(open()).toBe(2);
    leaving.leave();
    await expect.poll(open).toBe(1);
    expect(subscriptions.map(({ returned }) => returned)).toEqual([true, false]);
    await append('alice', 2);
    expect(subjectsIn(messagesIn(await staying.received(/plant-alice\/2.*\n\n/)))).toHaveLength(2);
  });

  test('is never begun for a reader who leaves before the token has been checked', async () => {
    const asked = Promise.withResolvers<void>();
    const checked = Promise.withResolvers<Identity>();
    const verifyToken = () => {
      asked.resolve();
      return checked.promise;
    };
    const { app, url, token, open, subscriptions, log } = await watchedApp({ verifyToken });
    const leaving = new AbortController();
    const headers = { accept: SSE, authorization: `Bearer ${token}` };
    const answer = fetch(`${url}/events`, { headers, signal: leaving.signal });
    await asked.promise;
    leaving.abort();
    await expect(answer).rejects.toThrow();
    await expect.poll(log).toContain('"clientLeft":true');
    checked.resolve(auditor());
    // What comes later on the same server comes after it.
    for (let i = 0; i < 3; i++) await app.inject({ url: '/events', headers: { authorization: 'Bearer x' } });
    await expect
      .poll(() => ({ open: open(), returned: subscriptions.every(({ returned }) => returned) }))
      .toEqual({
        open: 0,
        returned: true,
      });
  });
});

describe('a reader', () => {
  test('who stops reading holds nothing but a socket, and misses nothing later', async () => {
    const { url, token, append, open, given, subscriptions } = await watchedApp();
    await append('bob', 0);
    stopClock();
    const answer = await answerOf(url, { token });
    expect(open()).toBe(1);
    await plantMany(append);
    await untilSettled(expect.poll(open).toBe(0));
    const before = given();
    expect(before).toBeLessThan(MANY / 2);
    await append('bob', 1);
    expect(given()).toBe(before);
    expect(subscriptions).toHaveLength(1);

    let text = '';
    let seen = 0;
    answer.response.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      const messages = messagesIn(text);
      for (const { id } of messages) expect(Number(id)).toBe(++seen);
      const end = text.lastIndexOf('\n\n');
      if (end !== -1) text = text.slice(end + 2);
    });
    while (seen < MANY + 2) await once(answer.response, 'data');
    await append('bob', 2);
    while (seen < MANY + 3) await once(answer.response, 'data');
    expect(open()).toBe(1);
  });

  test.each([SSE, 'application/x-ndjson'])('who leaves in the middle of %s is forgotten', async (accept) => {
    const { url, token, append, open, given, subscriptions } = await watchedApp();
    await plantMany(append);
    stopClock(); // the reader is noticed by its leaving, not by its idling
    const answer = await answerOf(url, { token, headers: { accept } });
    expect(answer.response.statusCode).toBe(200);
    for (let last = -1; last !== given(); await pause(20)) last = given();
    expect(given()).toBeLessThan(MANY);
    answer.leave();
    await expect.poll(open).toBe(0);
    await expect.poll(() => subscriptions.every(({ returned }) => returned)).toBe(true);
  });

  test('of NDJSON at whom the server is closed is given it whole, and a stream ends meanwhile', async () => {
    const { app, url, token, append, open, given } = await watchedApp();
    await plantMany(append);
    const stream = await reading(url, { token, query: `?after=${MANY}` });
    await stream.received(/\n\n/);
    stopClock();
    const replay = await answerOf(url, { token, headers: { accept: 'application/x-ndjson' } });
    await untilSettled(expect.poll(open).toBe(1)); // that of the stream
    expect(given()).toBeLessThan(MANY);
    const closed = app.close();
    expect(await stream.ended).toBe(true);
    replay.read();
    expect(await replay.ended).toBe(true);
    expect(
      subjectsIn(
        replay
          .text()
          .split('\n')
          .slice(0, -1)
          .map((data) => ({ data })),
      ),
    ).toHaveLength(MANY);
    await closed;
  });
});

describe('a stream ends, properly,', () => {
  test("at its token's exp, and the next one is refused", async () => {
    const { url, dir, alice, bob } = await auditedService();
    stopClock();
    const token = await auditorToken(dir, '2s');
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    const answer = await reading(url, { token });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    await answer.received(/plant-bob.*\n\n/);
    vi.setSystemTime(exp * 1_000 - 1);
    expect(answer.response.complete).toBe(false);
    await untilSettled(answer.ended);
    expect(await answer.ended).toBe(true);
    expect(Date.now()).toBeGreaterThanOrEqual(exp * 1_000);
    const next = listen(url, { token, headers: { 'last-event-id': '1' } });
    await expect(next.opened).rejects.toThrow('given up');
    expect(next.failures).toEqual([401]);
  });

  const AGAIN = 100;
  test.each([
    [
      'key',
      (): Identity => {
        throw new InvalidToken('The token is not valid.');
      },
    ],
    ['scope', (): Identity => ({ ...auditor(), scopes: ['other'] })],
  ])('once the %s is withdrawn, and goes on while it is not', async (_, withdrawn) => {
    let asked = 0;
    let verify = (): Identity => ({ ...auditor(), until: Date.now() + AGAIN });
    const verifyToken = () => {
      asked++;
      return verify();
    };
    const { url, token, append, open } = await watchedApp({ verifyToken, now: () => new Date() });
    const answer = await reading(url, { token });
    await answer.received(/\n\n/);
    const first = asked;
    await expect.poll(() => asked).toBeGreaterThan(first + 2);
    await append('alice', 1);
    await answer.received(/plant-alice\/1.*\n\n/);
    verify = withdrawn;
    expect(await answer.ended).toBe(true);
    expect(open()).toBe(0);
  });

  test.each([
    ['of 30 days', 30 * 24 * 60 * 60 * 1_000],
    ['that never expires', Number.POSITIVE_INFINITY],
  ])('but not with a token %s, which is not asked about all the time', async (_, validity) => {
    const warnings: string[] = [];
    const warn = ({ name }: Error) => void warnings.push(name);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    let asked = 0;
    const until = Date.now() + validity;
    const verifyToken = () => {
      asked++;
      return { ...auditor(), until };
    };
    const { url, token, append } = await watchedApp({ verifyToken, now: () => new Date() });
    const answer = await reading(url, { token });
    await append('alice', 1);
    await answer.received(/plant-alice\/1.*\n\n/);
    const before = asked;
    await pause(100); // a timer that overflows goes off at once, over and over
    await append('bob', 1);
    await answer.received(/plant-bob\/1.*\n\n/);
    expect(asked).toBe(before);
    expect(warnings).toEqual([]);
  });

  test('when the server is closed, which does not wait for its readers', async () => {
    const { url, token, alice, bob, close } = await auditedService();
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    const kept = await reading(url, { token, agent });
    const alone = await reading(url, { token });
    const stream = listen(url, { token });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    await Promise.all([stream.first(2), ...[kept, alone].map((one) => one.received(/plant-bob.*\n\n/))]);
    await close(); // nothing else ends them, and nothing cuts them
    expect(await Promise.all([kept.ended, alone.ended])).toEqual([true, true]);
    for (const { text } of [kept, alone])
      expect(subjectsIn(messagesIn(text()))).toEqual(['plant-alice/1', 'plant-bob/1']);
  });
});

describe('a stream from EventStoreDB', () => {
  test('goes on where the store is away and comes back, without gap or duplicate', async () => {
    const server = await startDouble();
    const service = await auditedService({ EVENTSTOREDB_URL: server.url });
    const { url, token, alice, bob } = service;
    const stream = listen(url, { token });
    let events = 0;
    const expectAll = async () => {
      await stream.first(events);
      const expected = server.log.all.filter(({ stream: of }) => of.startsWith('plant-'));
      expect(stream.messages.map(({ id }) => id)).toEqual(expected.map(({ position }) => String(position)));
    };
    const post = async () => {
      for (const [user, name] of [[alice, 'Fern'] as const, [bob, 'Oak'] as const]) {
        const id = events++;
        expect((await answered(() => user.create(id, { name }))).status).toBe(200);
      }
    };
    const isRefused = () =>
      linesOf(url, { token, query: '?limit=1' }).then(
        () => false,
        ({ message }: Error) => message.startsWith('503:'),
      );
    const writeBeside = (user: string) =>
      server.write(`plant-${user}/${events++}`, {
        type: 'PlantCreated',
        data: { id: '1', user, name: 'Ivy' },
      });
    await post();
    await expectAll();
    const thaw = (of: EventStoreDbDouble) => of.thaw();
    const restart = (of: EventStoreDbDouble) => of.restart();
    const faults: [(of: EventStoreDbDouble) => unknown, ((of: EventStoreDbDouble) => unknown)?][] = [
      [(of) => of.stop(), restart],
      [(of) => of.dropSubscriptions('end')],
      [(of) => of.dropSubscriptions('reset')],
      [(of) => of.dropSubscriptions('internal')],
      [(of) => of.freeze(), thaw],
    ];
    for (const [inject, heal] of faults) {
      await inject(server);
      for (const user of ['alice', 'bob']) writeBeside(user);
      if (heal === restart) await expect.poll(isRefused).toBe(true);
      if (heal === thaw) await pause(300); // nothing shows that a server stands still
      await heal?.(server);
      await expectAll();
      await post();
      await expectAll();
    }
    expect(stream.failures).toEqual([]);
    await expect.poll(() => linesOf(url, { token })).toHaveLength(events);
  });

  test('goes on after the position of an event, and of nothing else', async () => {
    const server = await startDouble();
    const { url, token, alice, bob } = await auditedService({ EVENTSTOREDB_URL: server.url });
    await alice.create(1, { name: 'Fern' });
    await bob.create(1, { name: 'Oak' });
    const [first] = await listen(url, { token }).first(2);
    const goOn = (id: string) => listen(url, { token, headers: { 'last-event-id': id } });
    expect(subjectsIn(await goOn(first?.id ?? '').first(1))).toEqual(['plant-bob/1']);
    const between = goOn(String(BigInt(first?.id ?? '') + 1n));
    await expect(between.opened).rejects.toThrow('given up');
    expect(between.failures).toEqual([400]);
  });

  test('ends its subscription when its reader leaves', async () => {
    const server = await startDouble();
    const { url, token, alice } = await auditedService({ EVENTSTOREDB_URL: server.url });
    await alice.create(1, { name: 'Fern' });
    await expect.poll(() => server.openSubscriptions).toBe(1);
    const answer = await reading(url, { token });
    await answer.received(/plant-alice.*\n\n/);
    expect(server.openSubscriptions).toBe(2);
    answer.leave();
    await expect.poll(() => server.openSubscriptions).toBe(1);
  });
});

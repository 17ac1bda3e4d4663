import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { appendTo, eventId } from '@event-sourced/testing/logs';
import { fixedParts, refusedWith, UUID } from '@event-sourced/testing/refusal';
import { startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type EventStore, START, StoreUnavailable } from '../../packages/event-log/src/eventStore.ts';
import { isBySchema as isCloudEvent } from '../../packages/event-log/test/replay/cloudEvents.ts';
import { InvalidToken } from '../../packages/http/src/tokens/tokenVerifier.ts';
import { entryLeafHash, MerkleTree } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { cloudEventEntry } from '../../packages/transparency-log/src/digest/cloudEventEntry.ts';
import { rootOfLog } from '../../packages/transparency-log/src/entries/appendEntries.ts';
import { logIn } from '../../packages/transparency-log/test/support/tree.ts';
import { AUDITORS, appOver, claimsOf, recorded } from '../support/appOver.ts';
import { auditorToken, listen } from '../support/eventStream.ts';
import { serviceOfFile, startService } from '../support/service.ts';

const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';
const CAROL = { authorization: 'Bearer carol' };

type Line = Record<string, unknown> & { subject: string; position: string };

/** The events of a response; each must be valid for the official schema of CloudEvents. */
async function linesIn(response: Response): Promise<Line[]> {
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(response.headers.get('content-type')).toBe(`${NDJSON}; charset=utf-8`);
  return text.split(/(?<=\n)/).flatMap((line) => {
    if (line === '') return []; // no event
    const event = JSON.parse(line);
    expect(isCloudEvent(event), line).toBe(true);
    return event;
  });
}

const fake = await startFakeServer({}, afterAll);
fake.write('garden-alice/1', { type: 'PlantCreated' }); // written by another service

test.each<[string, Record<string, string>]>([
  ['the embedded log', { EVENT_SOURCE: 'https://plants.example/log' }],
  ['EventStoreDB', { EVENTSTOREDB_URL: fake.url }],
])('created plants over %s are replayed to an auditor, who lists only their own', async (_, env) => {
  const service = await startService(env);
  const carol = service.as('carol', 'audit');
  const getEvents = (query = '') => carol.request(`/events${query}`);
  await refusedWith(40004, await getEvents('?user=alice'));
  const posted: Line[] = [];
  for (const [user, id, plant] of [
    ['alice', 2, { name: '🪴 "Ivy"\n\u2028\0', tag: 'indoor' }],
    ['a/b', 2, { name: 'Oak' }],
    ['carol', 1, { name: 'Moss' }],
    ['alice', -9_223_372_036_854_775_808n, { name: '' }],
  ] as const) {
    const since = new Date().toISOString();
    const response = await service.as(user).create(id, plant);
    expect(response.status).toBe(200);
    posted.push({
      specversion: '1.0',
      id: expect.stringMatching(UUID),
      source: env.EVENT_SOURCE ?? 'urn:plant-store',
      type: 'PlantCreated',
      subject: `plant-${user}/${id}`,
      time: expect.toSatisfy((time: string) => time >= since && time <= new Date().toISOString()),
      datacontenttype: 'application/json',
      data: { id: `${id}`, user, ...plant },
      position: response.headers.get('log-position')?.split('.')[1] ?? '',
      revision: '0',
      correlationid: response.headers.get('request-id'),
      schemaversion: 1,
      metadata: expect.stringMatching(/^\{"\$correlationId":".+","occurredAt":".+","schemaVersion":1\}$/),
    });
    await service.as(user).create(id, plant); // idempotent: no second event
  }
  const response = await getEvents();
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(await linesIn(response)).toStrictEqual(posted);
  expect(await carol.list()).toEqual([{ name: 'Moss' }]);

  const [first, second, third, last] = posted as [Line, Line, Line, Line];
  expect(await linesIn(await getEvents(`?after=${first.position}&limit=2`))).toEqual([second, third]);
  expect(await linesIn(await getEvents(`?user=alice&after=${first.position}`))).toEqual([last]);
  const empty = await getEvents(`?after=${last.position}`);
  expect([empty.status, await empty.text()]).toEqual([200, '']);
  const beyond = await getEvents(`?after=${BigInt(last.position) + 1_000_000n}`);
  expect(await refusedWith(40005, beyond)).toMatch(/^after is beyond the end/);
  if (env.EVENTSTOREDB_URL) {
    const between = await getEvents(`?after=${BigInt(last.position) - 1n}`);
    expect(await refusedWith(40005, between)).toBe('after is not the position of an event.');
  }
});

/** A service over events of alice, bob and another program. */
const noon = { occurredAt: '2026-03-01T12:00:00Z' };
const dir = appendTo(
  tempDir(afterAll),
  { stream: 'plant-alice/1', id: eventId(1), data: {}, metadata: noon },
  { stream: 'plant-bob/1', id: eventId(2), data: {}, metadata: noon },
  { stream: 'plant-alice/1', revision: 1, id: eventId(3), type: 'PlantMoved', data: '7', metadata: '"none"' },
);
const { as } = await serviceOfFile({ DATA_DIR: dir });
const carol = as('carol', 'audit');
const getEvents = (query = '', headers: Record<string, string> = {}, method = 'GET') =>
  carol.request(`/events${query}`, { headers, method });

test.each<[query: string, positions: string[]]>([
  ['', ['1', '2', '3']],
  ['?&', ['1', '2', '3']],
  ['?user=alice', ['1', '3']],
  ['?id=1&type=PlantCreated&since=2026-03-01t13:00:00%2B01:00&limit=1&after=1', ['2']],
  ['?user=alice&id=99', []],
  ['?user=alice&order=descending&type=None', []],
  ['?user=bob&after=3', []],
  ['?user=bob&id=1&until=2026-03-01T12:00:00Z', ['2']],
])('GET /events%s returns the events %j', async (query, positions) => {
  expect((await linesIn(await getEvents(query))).map(({ position }) => position)).toEqual(positions);
});

test.each<[query: string, end: string]>([
  ['', '3'],
  ['limit=2', '2'],
  ['limit=3', '3'],
  ['limit=0&after=1', '1'],
  ['user=bob', '3'],
  ['user=alice&limit=1', '1'],
  ['user=bob&after=3', '3'],
  ['type=None', '3'],
])('GET /events?%s with end=true ends with the line of the position %s', async (query, end) => {
  const whole = await (await getEvents(`?${query}`)).text();
  expect(await (await getEvents(`?${query}&end=true`)).text()).toBe(`${whole}{"end":"${end}"}\n`);
});

test('the last line of an empty log is the position before the first event', async () => {
  const { as } = await startService();
  expect(await (await as('carol', 'audit').request('/events?end=true')).text()).toBe('{"end":"0"}\n');
});

test.each<[query: string, number: number, message: RegExp | string]>([
  ['after', 40005, 'after is not a log position.'],
  ['after=9223372036854775807', 40005, /^after is beyond the end/],
  ['after=1&after=1', 40004, 'after must be given once.'],
  ['user=', 40004, /^user must be 1 to 255/],
  ['type=', 40004, 'type must be an event type.'],
  ['until=2026-03-01T12:00:00%ED%A0%80', 40004, /^until must be an RFC 3339 time/],
  ['end=false', 40004, /^end must be/],
  ['end=true&order=descending', 40004, 'end cannot be combined with order=descending.'],
  ['limit=-1', 40004, /^limit must be an integer from 0/],
  ['limit=1&limit=2', 40004, 'limit must be given once.'],
  ['since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z', 40004, 'since must not be later than until.'],
  ['user=mallory&order=descending', 40004, 'The log has no event of the user "mallory".'],
  ['user=mallory&after=1&limit=0', 40004, 'The log has no event of the user "mallory".'],
  ['user=%ED%A0%80', 40004, /^The log has no event of the user "/], // an unpaired surrogate
])('GET /events?%s is %i', async (query, number, message) => {
  expect(await refusedWith(number, await getEvents(`?${query}`))).toMatch(message);
});

test('HEAD is responded to as GET, without the body', async () => {
  for (const query of ['', '?limit=0', '?after=3', '?user=mallory', '?limit=x']) {
    const [whole, head] = await Promise.all([getEvents(query), getEvents(query, {}, 'HEAD')]);
    expect(await head.text()).toBe('');
    expect(fixedParts(head, 'content-length'), query).toEqual(fixedParts(whole, 'content-length'));
    await whole.text();
  }
});

describe('the Accept header', () => {
  test.each(['*/*', 'APPLICATION/X-NDJSON', `${SSE};q=0.5, ${NDJSON}`, `${SSE};q=0, */*`])(
    'selects NDJSON: %s',
    async (accept) => {
      expect(await linesIn(await getEvents('?limit=1', { accept }))).toHaveLength(1);
    },
  );

  test.each([SSE, 'text/*', `${NDJSON};q=0.5, ${SSE}`])('selects server-sent events: %s', async (accept) => {
    const response = await getEvents('?limit=1', { accept });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream(;|$)/);
    await response.text();
  });

  test.each(['application/json', `${NDJSON};q=0`, 'nonsense'])(
    'without either media type is 40601: %s',
    async (accept) => {
      const message = await refusedWith(40601, await getEvents('', { accept }));
      expect(message).toBe(`The media types are ${NDJSON} and ${SSE}.`);
    },
  );
});

const QUERIES: [query: string, headers?: Record<string, string>][] = [
  ['?user=alice'],
  ['?user=mallory'],
  ['?after=9223372036854775807'],
  ['?after=garbage'],
  ['?since=yesterday&until='],
  ['?scope=audit'],
  ['?order=descending&before=x'],
  ['', { accept: SSE, 'last-event-id': 'garbage' }],
  ['', { accept: 'application/json' }],
];
const store = { lastPosition: vi.fn(), readAll: vi.fn(), subscribe: vi.fn() };

test.each([
  ['plain', 40301, 'Bearer realm="plants", error="insufficient_scope", scope="audit"'],
  ['invalid', 40102, 'Bearer realm="plants", error="invalid_token"'],
  [undefined, 40101, 'Bearer realm="plants"'],
])(
  'without the scope audit, the token %s is %i, whatever the query, and the log is not read',
  async (token, number, challenge) => {
    const verifyToken = (user: string) => {
      if (user === 'invalid') throw new InvalidToken('The token is not valid.');
      return claimsOf(user, 'read');
    };
    const { url } = await appOver(store, { verifyToken });
    const authorization = token ? { authorization: `Bearer ${token}` } : {};
    const respond = async (method: string, query = '', headers = {}) => {
      const response = await fetch(`${url}/events${query}`, {
        method,
        headers: { ...headers, ...authorization },
      });
      expect(response.headers.get('www-authenticate')).toMatch(challenge);
      if (method === 'GET') await refusedWith(number, response.clone());
      return { ...fixedParts(response), body: await response.text() };
    };
    for (const method of ['GET', 'HEAD']) {
      const first = await respond(method);
      for (const [query, headers] of QUERIES)
        expect(await respond(method, query, headers), query).toEqual(first);
    }
    for (const read of Object.values(store)) expect(read).not.toHaveBeenCalled();
  },
);

test('the entries of a log can be rebuilt from /events, also those of other writers', async () => {
  const texts = ['{"a": 1}', '"text"', '{"b":1,"a":1e0}', '{"name":"\\ud83c"}', '7', '{"a":1,"a":2}', '{}'];
  const written = texts.map((text, revision) => ({
    ...{ stream: 'plant-alice/3', revision, id: eventId(revision), type: 'PlantSketched' },
    ...{ data: text, metadata: text },
  }));
  const dir = appendTo(tempDir(), ...written);
  const service = await startService({ DATA_DIR: dir });
  await service.as('alice').create(2, { name: 'Fern' });
  const lines = await linesIn(await service.as('carol', 'audit').request('/events'));
  const tree = new MerkleTree();
  for (const line of lines) tree.append(entryLeafHash(cloudEventEntry(line as never).entry));
  const expected = await rootOfLog(logIn(dir), new AbortController().signal);
  expect({ size: tree.size, root: tree.root() }).toEqual(expected);
  expect(expected.size).toBe(8);
  const live = listen(service.url, { token: await auditorToken(dir) });
  const messages = await live.first(lines.length);
  expect(messages.map(({ data }) => JSON.parse(data))).toEqual(lines);
});

const SECRET = 'secret: disk /dev/sdz failed';

/** Returns a first page of two events, then fails. */
const failingLater: EventStore['readAll'] = async ({ after }) => {
  if (after > START) throw new StoreUnavailable(SECRET);
  return { events: [recorded(1n), recorded(2n)], position: 2n, isEnd: false };
};

describe('an unavailable log', () => {
  const unavailable = () => Promise.reject(new StoreUnavailable(SECRET));
  test.each<[string, Partial<EventStore>, accept?: string]>([
    ['when its end is read', { lastPosition: unavailable }],
    ['when its end is read for an event stream', { lastPosition: unavailable }, SSE],
    ['after a batch without a matching event', { lastPosition: async () => 9n, readAll: failingLater }],
  ])('%s is 50301; only the logs have the cause', async (_, store, accept = NDJSON) => {
    const { url, log } = await appOver(store, AUDITORS);
    const response = await fetch(`${url}/events?type=PlantMoved`, { headers: { ...CAROL, accept } });
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50301, response)).not.toMatch(/secret|disk|sdz/);
    expect(log()).toContain(response.headers.get('request-id'));
  });

  test('in the middle of a replay aborts the response', async () => {
    const { url, log } = await appOver({ lastPosition: async () => 9n, readAll: failingLater }, AUDITORS);
    const headers = { ...CAROL, 'accept-encoding': 'identity' };
    const response = await fetch(`${url}/events?end=true`, { headers });
    expect(response.status).toBe(200);
    const received: Buffer[] = [];
    const reading = async (): Promise<void> => {
      for await (const piece of response.body ?? []) received.push(Buffer.from(piece));
    };
    await expect(reading()).rejects.toThrow();
    expect(Buffer.concat(received).toString()).not.toContain('"end"');
    await expect.poll(log).toContain(SECRET);
  });
});

/** The HTTP API over a log with one event per page. */
async function overEndless() {
  const seen = { pages: 0 };
  const end = 1_000_000;
  const readAll: EventStore['readAll'] = async ({ after }) => {
    seen.pages++;
    return { events: [recorded(after + 1n)], position: after + 1n, isEnd: false };
  };
  const { url } = await appOver({ lastPosition: async () => BigInt(end), readAll }, AUDITORS);
  /** Sends a request on its own connection; the body of the response is not read yet. */
  const open = async (method = 'GET'): Promise<IncomingMessage> => {
    const request = get(`${url}/events`, { agent: false, headers: CAROL, method });
    onTestFinished(() => void request.destroy());
    request.on('error', () => {});
    const [response] = await once(request, 'response');
    response.on('error', () => {});
    return response;
  };
  /** Resolves when no page was read for 50 turns of the event loop. */
  const readingStopped = async (): Promise<void> => {
    for (let before = -1; before !== seen.pages; ) {
      before = seen.pages;
      for (let turn = 0; turn < 50; turn++) await nextTurn();
    }
    expect(seen.pages).toBeLessThan(end);
  };
  return { seen, url, open, readingStopped };
}

describe('reading stops', () => {
  test('when the client disconnects', async () => {
    const { open, readingStopped } = await overEndless();
    const response = await open();
    for (let chunks = 0; chunks < 10; chunks++) await once(response, 'data');
    response.destroy();
    await readingStopped();
  });

  test('when the client disconnects before the first match', async () => {
    const { seen, url, readingStopped } = await overEndless();
    const leaving = new AbortController();
    const response = fetch(`${url}/events?type=PlantMoved`, { headers: CAROL, signal: leaving.signal });
    response.catch(() => {});
    await expect.poll(() => seen.pages).toBeGreaterThan(10);
    leaving.abort();
    await expect(response).rejects.toThrow();
    await readingStopped();
  });

  test('after the response to a HEAD', async () => {
    const { seen, open, readingStopped } = await overEndless();
    await (await open('HEAD')).toArray();
    expect(seen.pages).toBeGreaterThan(0);
    await readingStopped();
  });
});

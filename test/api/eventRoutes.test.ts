import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CloudEvent } from 'cloudevents';
import isCloudEvent from 'cloudevents/dist/schema/v1.js';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { leafOfCloudEvent } from '../../src/audit/cloudEventLeaf.ts';
import { rootOfLog } from '../../src/audit/proof.ts';
import { loadOrCreateKey } from '../../src/disk/keyFile.ts';
import {
  type EventStore,
  type Position,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '../../src/eventStore/eventStore.ts';
import { openLogFile } from '../../src/eventStore/sqlite/file.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { FakeEventStoreDb } from '../fakeEventStoreDb/server.ts';
import { AUDITORS, appOver, claimsOf } from '../support/appOver.ts';
import { auditorToken, listen } from '../support/eventStream.ts';
import { signedJwt } from '../support/jwt.ts';
import { fixedParts, refusedWith, UUID } from '../support/refusal.ts';
import { client, startService } from '../support/service.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';
import { tempDir } from '../support/tempDir.ts';

const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';

type Written = Omit<RecordedEvent, 'position'>;

const uuid = (n: number) => `01956d2b-7a00-7000-8000-${String(n).padStart(12, '0')}`;

function plantCreated(n: number, user: string, id: string, occurredAt: string, name: string): Written {
  const metadata = { $correlationId: `request-${n}`, schemaVersion: 1, occurredAt };
  const data = { id, user, name };
  return { stream: `plant-${user}/${id}`, revision: 0n, id: uuid(n), type: 'PlantCreated', data, metadata };
}

const OF_FERN = { stream: 'plant-alice/1' };

/** The log of the services of this file, as tests count its events: 1 to 7. The clock was not monotonic. */
const LOG: readonly Written[] = [
  plantCreated(1, 'alice', '1', '2026-03-01T12:00:00.000Z', 'Fern'),
  plantCreated(2, 'bob', '1', '2026-03-01T12:00:00.001Z', 'Oak'),
  plantCreated(3, 'alice', '9223372036854775807', '2026-03-01T12:01:00.000Z', '🪴 "Ivy"\n\u2028\0'),
  { ...OF_FERN, revision: 1n, id: uuid(4), type: 'PlantMoved', data: { to: 'kitchen' }, metadata: {} },
  plantCreated(5, 'a/b', '1', '2026-03-01T12:00:30.000Z', 'Moss'),
  { ...OF_FERN, revision: 2n, id: uuid(6), type: 'PlantSketched', data: 'no JSON', metadata: 'none' },
  plantCreated(7, 'bob', '2', '2026-03-02T00:00:00.000Z', 'Elm'),
];

/** Their positions in the embedded log: beyond 31, 32 and 53 bits, with gaps. */
const POSITIONS = [
  2n,
  3n,
  7n,
  2_147_483_648n,
  4_294_967_297n,
  9_007_199_254_740_993n,
  9_007_199_254_740_995n,
];

const bare = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Writes these events to the log of a data directory, at these positions. */
function fillLog(dir: string, events: readonly Written[], positions: readonly Position[]): void {
  const db = openLogFile(join(dir, 'log.db'));
  const insert = db.prepare(`INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, '2026-03-03T00:00:00.000Z')`);
  insert.setReadBigInts(true); // INSERT returns the position
  db.exec('BEGIN');
  for (const [i, { stream, revision, id, type, data, metadata }] of events.entries())
    insert.run(positions[i] as Position, id, stream, revision, type, bare(data), bare(metadata));
  db.exec('COMMIT');
  db.close();
}

function fillFake(fake: FakeEventStoreDb, events: readonly Written[]): Position[] {
  return events.map(({ stream, ...event }) => fake.write(stream, event).position);
}

/** A client for /events with the token of carol, who has the scope audit. */
function auditor({ url, dir }: { url: string; dir: string }) {
  const carol = client(url, dir)('carol', 'audit');
  return (query = '', init: RequestInit = {}) => carol.request(`/events${query}`, init);
}

const CAROL = { authorization: 'Bearer carol' };

type Line = Record<string, unknown> & { id: string; position: string };

/** The events of a response; each must be valid for the official schema of CloudEvents and for its SDK. */
async function linesIn(response: Response): Promise<Line[]> {
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(response.headers.get('content-type')).toBe(NDJSON);
  if (text !== '') expect(text.at(-1)).toBe('\n');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const event = JSON.parse(line);
      expect(isCloudEvent(event), line).toBe(true);
      expect(new CloudEvent(event, true).id).toBe(event.id);
      return event;
    });
}

/** The numbers of the events in a response. */
const numbersIn = async (response: Response): Promise<number[]> =>
  (await linesIn(response)).map(({ id }) => LOG.findIndex((event) => event.id === id) + 1);

function dirOfFile(): string {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function overEmbedded() {
  const dir = dirOfFile();
  fillLog(dir, LOG, POSITIONS);
  const { url } = await serviceOfFile({ DATA_DIR: dir, EVENT_SOURCE: 'https://plants.example/log' });
  const hashed = { metadata: '"none"' };
  return { url, dir, positions: POSITIONS, source: 'https://plants.example/log', hashed };
}

async function overEventStoreDb() {
  const fake = await FakeEventStoreDb.start();
  afterAll(() => fake.stop());
  fake.write('garden-alice/1', { type: 'PlantCreated' }); // written by another service
  const positions = fillFake(fake, LOG);
  fake.write('garden-alice/2', { type: 'PlantCreated' });
  const { url, dir, as } = await serviceOfFile({ EVENTSTOREDB_URL: fake.url });
  const hashed = { dataandmetadata: '["no JSON",base64:bm9uZQ==]' }; // the client returns bytes
  return { url, dir, as, fake, positions, source: 'urn:plant-store', hashed };
}

const embedded = await overEmbedded();
const eventStoreDb = await overEventStoreDb();
const BOTH = [
  ['the embedded log', embedded],
  ['EventStoreDB', eventStoreDb],
] as const;

/** `{3}` is the position of the third event. */
const placeIn = (positions: readonly Position[]) => (query: string) =>
  query.replace(/\{(\d)\}/g, (_, n) => `${positions[n - 1]}`);

describe.each(BOTH)('GET /events over %s', (_, server) => {
  const { positions, source } = server;
  const getEvents = auditor(server);
  const placed = placeIn(positions);

  test('returns every event as a CloudEvent, one per line, in log order', async () => {
    const response = await getEvents('?limit=7'); // other tests append events
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('request-id')).toMatch(UUID);
    const event = (n: number, subject: string, data: unknown) => ({
      specversion: '1.0',
      id: uuid(n),
      source,
      type: 'PlantCreated',
      subject,
      datacontenttype: 'application/json',
      data,
      position: `${positions[n - 1]}`,
      revision: '0',
    });
    const created = (n: number, time: string, data: { id: string; user: string; name: string }) => ({
      ...event(n, `plant-${data.user}/${data.id}`, data),
      time,
      correlationid: `request-${n}`,
      schemaversion: 1,
      metadata: `{"$correlationId":"request-${n}","occurredAt":"${time}","schemaVersion":1}`,
    });
    const [largest, unusual] = ['9223372036854775807', '🪴 "Ivy"\n\u2028\0'];
    expect(await linesIn(response)).toStrictEqual([
      created(1, '2026-03-01T12:00:00.000Z', { id: '1', user: 'alice', name: 'Fern' }),
      created(2, '2026-03-01T12:00:00.001Z', { id: '1', user: 'bob', name: 'Oak' }),
      created(3, '2026-03-01T12:01:00.000Z', { id: largest, user: 'alice', name: unusual }),
      { ...event(4, 'plant-alice/1', { to: 'kitchen' }), type: 'PlantMoved', revision: '1', metadata: '{}' },
      created(5, '2026-03-01T12:00:30.000Z', { id: '1', user: 'a/b', name: 'Moss' }),
      {
        ...event(6, 'plant-alice/1', 'no JSON'),
        type: 'PlantSketched',
        revision: '2',
        ...server.hashed,
      },
      created(7, '2026-03-02T00:00:00.000Z', { id: '2', user: 'bob', name: 'Elm' }),
    ]);
  });

  test.each<[string, number[]]>([
    ['?after=0&limit=7', [1, 2, 3, 4, 5, 6, 7]],
    ['?after={2}&limit=2', [3, 4]],
    ['?after={7}&user=alice', []],
    ['?user=alice&limit=2&after={1}', [3, 4]],
  ])('%s', async (query, numbers) => {
    expect(await numbersIn(await getEvents(placed(query)))).toEqual(numbers);
  });

  test('rejects a position beyond the end of the log with 40005', async () => {
    const { position: end } = (await linesIn(await getEvents())).at(-1) as Line;
    for (const after of [BigInt(end) + 1_000_000n, 9_223_372_036_854_775_807n])
      expect(await refusedWith(40005, await getEvents(`?after=${after}`))).toMatch(
        /^after is beyond the end/,
      );
  });

  // EventStoreDB accepts only positions of events.
  test('returns the following events or 40005 for a position between two events', async () => {
    const between = (positions[2] as Position) - 1n;
    const response = await getEvents(`?after=${between}`);
    if (response.status === 200) expect(await numbersIn(response)).toEqual([3, 4, 5, 6, 7]);
    else expect(await refusedWith(40005, response)).toMatch(/^after /);
  });
});

describe('GET /events', () => {
  const getEvents = auditor(embedded);
  const placed = placeIn(POSITIONS);

  test.each<[string, number[]]>([
    ['', [1, 2, 3, 4, 5, 6, 7]],
    ['?user=alice', [1, 3, 4, 6]],
    ['?user=bob', [2, 7]],
    ['?user=a%2Fb', [5]],
    ['?id=1', [1, 2, 4, 5, 6]],
    ['?id=9223372036854775807', [3]],
    ['?user=bob&id=1', [2]],
    ['?type=PlantMoved', [4]],
    ['?type=PlantCreated&user=alice', [1, 3]],
    ['?type=%00', []],
    ['?since=2026-03-01T12:00:00.001Z', [2, 3, 5, 7]],
    ['?since=2026-03-01t13:00:00.001%2B01:00', [2, 3, 5, 7]],
    ['?until=2026-03-01T12:00:00.001Z', [1, 2]],
    ['?until=2026-03-01T12:00:30z&since=2026-03-01T12:00:00.001Z', [2, 5]],
    ['?limit=0', []],
    ['?limit=1', [1]],
    ['?limit=7', [1, 2, 3, 4, 5, 6, 7]],
    ['?limit=2147483647', [1, 2, 3, 4, 5, 6, 7]],
    ['?after=0', [1, 2, 3, 4, 5, 6, 7]],
    ['?after={2}', [3, 4, 5, 6, 7]],
    ['?after={7}', []],
    ['?after={2}&user=nobody', []],
    ['?id=1&type=PlantCreated&since=2026-03-01T12:00:00.001Z&limit=1&after={1}', [2]],
  ])('%s', async (query, numbers) => {
    expect(await numbersIn(await getEvents(placed(query)))).toEqual(numbers);
  });

  test.each([
    '?foo=bar',
    '?foo=1&foo=2&limit=7',
    '?User=nobody',
    '?scope=audit',
    '?__proto__=1&constructor=2',
  ])('ignores unknown parameters: %s', async (query) => {
    expect(await numbersIn(await getEvents(query))).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('rejects a user without events with 40004', async () => {
    for (const query of [
      '?user=nobody',
      '?user=Alice',
      '?user=nobody&type=PlantMoved&limit=1',
      '?user=%F0%9F%AA%B4',
      '?user=%ED%A0%80', // an unpaired surrogate
    ])
      expect(await refusedWith(40004, await getEvents(query))).toMatch(/^The log has no event of the user "/);
  });

  test('responds to HEAD as to GET, without the body', async () => {
    for (const query of ['', '?limit=0', '?limit=1', '?user=nobody', '?limit=x', placed('?after={7}')]) {
      const [given, head] = await Promise.all([getEvents(query), getEvents(query, { method: 'HEAD' })]);
      expect(await head.text()).toBe('');
      expect(fixedParts(head, 'content-length'), query).toEqual(fixedParts(given, 'content-length'));
      await given.text();
    }
  });
});

describe('an invalid parameter is 400 and named in the message:', () => {
  const getEvents = auditor(embedded);
  /** An unpaired surrogate encoded like UTF-8, which is invalid. */
  const UNPAIRED = '%ED%A0%80';
  const WRONG: Record<string, string[]> = {
    after: ['', '-1', 'x', '%201', 's0123456789ab.1', '9223372036854775808'],
    user: ['', 'x'.repeat(256), '%00', 'alice%0A', '%7F', '%C2%85'],
    id: ['', '+1', '01', '-0', '1.0', '1e3', 'x', '%201', '9223372036854775808', '-9223372036854775809'],
    type: [''],
    since: ['', 'yesterday', '2026-03-01', '2026-02-29T00:00:00Z', '2026-03-01T12:00:00', '1772366400000'],
    until: ['', '2026-03-01T12:00:00+01:00', '2026-03-01T25:00:00Z', '2026-03-01T12:00:00Z%00'],
    limit: ['', '-1', '+1', '01', '1.0', '1e3', 'x', '%201', '2147483648', '99999999999999999999'],
  };
  const GOOD: Record<string, string> = {
    after: '2',
    user: 'alice',
    id: '1',
    type: 'PlantCreated',
    since: '2026-03-01T12:00:00Z',
    until: '2026-03-01T12:00:00Z',
    limit: '1',
  };
  describe.each(Object.keys(GOOD))('%s', (name) => {
    const number = name === 'after' ? 40005 : 40004;

    test.each([...(WRONG[name] ?? []), ...(/user|type/.test(name) ? [] : [UNPAIRED])])(
      'that is %j',
      async (value) => {
        expect(await refusedWith(number, await getEvents(`?${name}=${value}`))).toMatch(
          new RegExp(`^${name} `),
        );
        expect(await refusedWith(number, await getEvents(`?foo=1&${name}=${value}&bar`))).toMatch(`${name} `);
      },
    );

    test('without a value', async () => {
      expect(await refusedWith(number, await getEvents(`?${name}`))).toMatch(new RegExp(`^${name} `));
    });

    test('given twice', async () => {
      for (const second of [GOOD[name], '', 'x']) {
        const message = await refusedWith(40004, await getEvents(`?${name}=${GOOD[name]}&${name}=${second}`));
        expect(message).toMatch(new RegExp(`^${name} must be given once`));
      }
    });
  });

  test('since later than until', async () => {
    const times = '?since=2026-03-01T12:00:00.001Z&until=2026-03-01T13:00:00%2B01:00';
    for (const query of [times, `${times}&user=nobody`, `${times}&after=99999999999999999`])
      expect(await refusedWith(40004, await getEvents(query))).toBe('since must not be later than until.');
  });

  test('valid parameters are accepted together', async () => {
    expect(await numbersIn(await getEvents(`?${new URLSearchParams(GOOD)}`))).toEqual([]);
    const { after, ...others } = GOOD;
    expect(await numbersIn(await getEvents(`?${new URLSearchParams(others)}`))).toEqual([1]);
  });
});

describe('the Accept header', () => {
  const getEvents = auditor(embedded);

  test.each([
    undefined,
    '*/*',
    'application/*',
    NDJSON,
    'APPLICATION/X-NDJSON',
    `${NDJSON}, ${SSE}`,
    `${SSE};q=0.5, ${NDJSON}`,
    `${NDJSON};q=0.5, ${SSE};q=0.4`,
    `${SSE};q=0, */*`,
    'application/json, */*;q=0.1',
    'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  ])('selects NDJSON: %s', async (accept) => {
    const response = await getEvents('?limit=1', accept === undefined ? {} : { headers: { accept } });
    expect(await numbersIn(response)).toEqual([1]);
  });

  test.each([SSE, 'text/*', `${SSE}, ${NDJSON}`, `${NDJSON};q=0.5, ${SSE}`, `${NDJSON};q=0, */*`])(
    'selects server-sent events: %s',
    async (accept) => {
      const leaving = new AbortController();
      const response = await getEvents('?limit=1', { headers: { accept }, signal: leaving.signal });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toMatch(/^text\/event-stream(;|$)/);
      leaving.abort();
    },
  );

  test.each(['application/json', 'text/html', 'image/*', `${NDJSON};q=0`, `*/*;q=0`, 'nonsense'])(
    'without either media type is 40601: %s',
    async (accept) => {
      const message = await refusedWith(40601, await getEvents('', { headers: { accept } }));
      expect(message).toContain(NDJSON);
      expect(message).toContain(SSE);
      const head = await getEvents('', { method: 'HEAD', headers: { accept } });
      expect([head.status, await head.text()]).toEqual([406, '']);
    },
  );
});

describe('without the scope audit', () => {
  const { privateKey } = loadOrCreateKey(join(embedded.dir, 'key.json'));
  const exp = Math.floor(Date.now() / 1_000) + 3_600;
  const getEvents = (token: string | undefined, query = '', init: RequestInit = {}): Promise<Response> =>
    fetch(`${embedded.url}/events${query}`, {
      ...init,
      headers: { ...init.headers, ...(token && { authorization: token }) },
    });
  const tokenOf = (sub: string, scope?: unknown) => `Bearer ${signedJwt(privateKey, { sub, exp, scope })}`;

  test('a token is 40301, and WWW-Authenticate names the scope (RFC 6750 section 3.1)', async () => {
    for (const user of ['alice', 'bob', 'nobody']) {
      const response = await getEvents(tokenOf(user));
      expect(response.headers.get('log-position')).toBeNull();
      expect(response.headers.get('www-authenticate')).toBe(
        'Bearer realm="plants", error="insufficient_scope", scope="audit"',
      );
      expect(await refusedWith(40301, response)).toContain('audit');
    }
  });

  // test/tokens has more about the scopes of a claim.
  test.each(['audit', 'a audit b'])('the claim %j contains the scope', async (scope) => {
    expect(await numbersIn(await getEvents(tokenOf('alice', scope)))).toHaveLength(LOG.length);
  });

  test.each([undefined, '', 'a b', 'auditor', 'xaudit', 'AUDIT', 'audit,b', 'a\taudit', ['audit'], true])(
    'the claim %j does not contain the scope',
    async (scope) => {
      await refusedWith(40301, await getEvents(tokenOf('alice', scope)));
    },
  );

  test('a scope in another claim is ignored', async () => {
    for (const claim of ['scp', 'scopes', 'Scope', 'permissions', 'roles']) {
      const token = signedJwt(privateKey, { sub: 'alice', exp, [claim]: 'audit' });
      await refusedWith(40301, await getEvents(`Bearer ${token}`));
    }
  });

  const QUERIES: [string, RequestInit?][] = [
    [''],
    ['?user=alice'],
    ['?user=bob'],
    ['?user=nobody'],
    ['?user=alice&id=1'],
    ['?user=bob&id=999'],
    ['?after=2'],
    ['?after=9007199254740995'],
    ['?after=9223372036854775807'],
    ['?after=garbage'],
    ['?limit=x'],
    ['?limit=0'],
    ['?since=yesterday&until='],
    ['?since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z'],
    ['?scope=audit'],
    ['', { headers: { accept: SSE } }],
    ['', { headers: { accept: SSE, 'last-event-id': '3' } }],
    ['', { headers: { accept: SSE, 'last-event-id': 'garbage' } }],
    ['', { headers: { accept: 'application/json' } }],
    ['', { headers: { accept: NDJSON, 'log-position': 'garbage' } }],
  ];
  const all = async (response: Response) => ({ ...fixedParts(response), body: await response.text() });

  test.each(['GET', 'HEAD'])('the response to %s does not depend on the query', async (method) => {
    for (const token of [tokenOf('alice'), tokenOf('nobody', 'read')]) {
      const first = await all(await getEvents(token, '', { method }));
      expect(first.status).toBe(403);
      for (const [query, init] of QUERIES)
        expect(await all(await getEvents(token, query, { ...init, method })), query).toEqual(first);
    }
  });

  test.each(['GET', 'HEAD'])(
    'the 401 response to %s without a valid token does not depend on the query',
    async (method) => {
      const expired = signedJwt(privateKey, { sub: 'carol', exp: 1, scope: 'audit' });
      for (const [token, number, challenge] of [
        [undefined, 40101, 'Bearer realm="plants"'],
        ['Basic Y2Fyb2w6YXVkaXQ=', 40101, 'Bearer realm="plants"'],
        ['Bearer nonsense', 40102, 'Bearer realm="plants", error="invalid_token"'],
        [`Bearer ${expired}`, 40102, 'Bearer realm="plants", error="invalid_token"'],
      ] as const) {
        const response = await getEvents(token, '', { method });
        expect(response.headers.get('www-authenticate')).toMatch(challenge);
        if (method === 'GET') await refusedWith(number, response.clone());
        const first = await all(response);
        expect(first.status).toBe(401);
        for (const [query, init] of QUERIES)
          expect(await all(await getEvents(token, query, { ...init, method })), query).toEqual(first);
      }
    },
  );

  test('the log is not read, and its outage is not revealed', async () => {
    const lastPosition = vi.fn(() => Promise.reject(new StoreUnavailable('away')));
    const readAll = vi.fn();
    const subscribe = vi.fn();
    const verifyToken = (user: string) => claimsOf(user, ...(user === 'carol' ? ['audit'] : []));
    const { url } = await appOver({ lastPosition, readAll, subscribe }, { verifyToken });
    for (const [query, init] of QUERIES) {
      const headers = { ...init?.headers, authorization: 'Bearer alice' };
      await refusedWith(40301, await fetch(`${url}/events${query}`, { ...init, headers }));
    }
    expect([lastPosition, readAll, subscribe].map(({ mock }) => mock.calls)).toEqual([[], [], []]);
    await refusedWith(50301, await fetch(`${url}/events`, { headers: CAROL }));
  });
});

describe('created plants', () => {
  test.each(['the embedded log', 'EventStoreDB'] as const)(
    'over %s are all replayed to an auditor, who lists only their own',
    async (store) => {
      const service = store === 'EventStoreDB' ? eventStoreDb : await startService();
      const getEvents = auditor(service);
      const end = (await linesIn(await getEvents())).at(-1)?.position ?? 0;
      await refusedWith(40004, await getEvents('?user=dora'));
      const posted: unknown[] = [];
      for (const [user, id, plant] of [
        ['dora', 2, { name: 'Fern', tag: 'indoor' }],
        ['emil', 2, { name: 'Oak' }],
        ['carol', 1, { name: 'Moss' }],
        ['dora', -9_223_372_036_854_775_808n, { name: '' }],
      ] as const) {
        const since = new Date().toISOString();
        const response = await service.as(user).create(id, plant);
        expect(response.status).toBe(200);
        posted.push({
          specversion: '1.0',
          id: expect.stringMatching(UUID),
          source: 'urn:plant-store',
          type: 'PlantCreated',
          subject: `plant-${user}/${id}`,
          time: expect.toSatisfy((time: string) => time >= since && time <= new Date().toISOString()),
          datacontenttype: 'application/json',
          data: { id: `${id}`, user, ...plant },
          position: response.headers.get('log-position')?.split('.')[1],
          revision: '0',
          correlationid: response.headers.get('request-id'),
          schemaversion: 1,
          metadata: expect.stringMatching(/^\{"\$correlationId":".+","occurredAt":".+","schemaVersion":1\}$/),
        });
        await service.as(user).create(id, plant); // idempotent: no second event
      }
      expect(await linesIn(await getEvents(`?after=${end}`))).toEqual(posted);
      expect(await service.as('carol', 'audit').list()).toEqual([{ name: 'Moss' }]);
      expect(await service.as('emil').list()).toEqual([{ name: 'Oak' }]);
    },
  );

  test('are replayed with one line in the logs, without the query', async () => {
    const service = await startService();
    const { headers } = await auditor(service)('?user=whisper&access_token=hush', {
      headers: { 'x-secret': 'hush' },
    });
    const lines = () => service.log().filter(({ requestId }) => requestId === headers.get('request-id'));
    await expect.poll(lines).toHaveLength(1);
    const request = { method: 'GET', path: '/events', status: 400, msg: 'request' };
    expect(lines()[0]).toMatchObject({ user: 'carol', ...request });
    expect(JSON.stringify(service.log())).not.toMatch(/whisper|hush/);
  });
});

test('binary data is sent as base64', async () => {
  const { fake, ...service } = eventStoreDb;
  const data = Uint8Array.of(0, 1, 254, 255);
  fake.write('plant-painter/1', { type: 'PlantPainted', contentType: 'application/octet-stream', data });
  const [event, ...others] = await linesIn(await auditor(service)('?user=painter'));
  expect(event).toMatchObject({ datacontenttype: 'application/octet-stream', data_base64: 'AAH+/w==' });
  expect(event).not.toHaveProperty('data');
  expect(others).toEqual([]);
});

test('the leaves of a log can be rebuilt from /events, also those of other writers', async () => {
  const dir = tempDir();
  const data = ['{"a": 1}', '"text"', '{"b":1,"a":1e0}', '{"name":"\\ud83c"}', '7', '{"a":1,"a":2}', '{}'];
  const written = data.map((text, i) => ({
    stream: 'plant-alice/3',
    revision: BigInt(i),
    id: uuid(100 + i),
    type: 'PlantSketched',
    data: text,
    metadata: text,
  }));
  fillLog(dir, [...LOG.slice(4), ...written], POSITIONS.concat(POSITIONS.map((p) => p + 2n ** 60n)));
  const service = await startService({ DATA_DIR: dir });
  await service.as('alice').create(2, { name: 'Fern' });
  const log = openLogReader(join(dir, 'log.db'), { raw: true });
  onTestFinished(() => log.close());
  const lines = await linesIn(await auditor(service)());
  const tree = new MerkleTree();
  for (const line of lines) tree.append(leafHash(leafOfCloudEvent(line as never)));
  const expected = await rootOfLog(log, new AbortController().signal);
  expect({ size: tree.size, root: tree.root() }).toEqual(expected);
  expect(expected.size).toBe(11);
  const live = listen(service.url, { token: await auditorToken(dir) });
  const messages = await live.first(lines.length);
  expect(messages.map(({ data }) => JSON.parse(data))).toEqual(lines);
});

describe('a log longer than one batch', () => {
  const LENGTH = 510;
  const long = Array.from({ length: LENGTH }, (_, i) =>
    plantCreated(1_000 + i, i % 2 === 0 ? 'ann' : 'ben', `${i}`, '2026-03-01T12:00:00.000Z', `plant ${i}`),
  );
  const ids = (lines: Line[]) => lines.map(({ id }) => id);
  const parsed = async (response: Response): Promise<Line[]> =>
    (await response.text())
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
  const numbered = (is: (i: number) => boolean) => long.filter((_, i) => is(i)).map(({ id }) => id);

  test('of EventStoreDB is replayed completely and in order', async () => {
    const { fake, ...service } = eventStoreDb;
    const getEvents = auditor(service);
    const before = fake.write('plant-ann/0').position;
    const positions = fillFake(fake, long);
    const everything = await parsed(await getEvents(`?after=${before}`));
    expect(ids(everything)).toEqual(numbered(() => true));
    expect(everything.map(({ position }) => BigInt(position))).toEqual(positions);
  });

  test('of the embedded log is replayed completely and in order', async () => {
    const dir = tempDir();
    const positions = long.map((_, i) => BigInt(2 * i + 1));
    fillLog(dir, long, positions);
    const log = openLogReader(join(dir, 'log.db'), { raw: true });
    onTestFinished(() => log.close());
    const { url } = await appOver(log, AUDITORS);
    const getEvents = (query = '', init: RequestInit = {}) =>
      fetch(`${url}/events${query}`, { headers: CAROL, ...init });
    const [everything, ofBen, first, last] = await Promise.all([
      getEvents().then(parsed),
      getEvents('?user=ben').then(parsed),
      getEvents('?limit=501').then(parsed),
      getEvents(`?after=${positions.at(-3)}`).then(parsed),
    ]);
    expect(ids(everything)).toEqual(numbered(() => true));
    expect(everything.map(({ position }) => BigInt(position))).toEqual(positions);
    expect(ids(ofBen)).toEqual(numbered((i) => i % 2 === 1));
    expect(ids(first)).toEqual(numbered((i) => i < 501));
    expect(ids(last)).toEqual(numbered((i) => i >= LENGTH - 2));
    await refusedWith(40004, await getEvents('?user=nobody'));
    expect((await getEvents('?user=nobody', { method: 'HEAD' })).status).toBe(400);
  });
});

const SECRET = 'secret: disk /dev/sdz failed';

describe('an unavailable log', () => {
  test.each<[string, Partial<EventStore>]>([
    ['when its end is read', { lastPosition: () => Promise.reject(new StoreUnavailable(SECRET)) }],
    ['before its first batch', { lastPosition: async () => 9n, readAll: failingAfter([]) }],
    [
      'after a batch without a matching event',
      { lastPosition: async () => 9n, readAll: failingAfter([recorded(1)]) },
    ],
  ])('%s is 50301; only the logs have the cause', async (_, store) => {
    const { url, log } = await appOver(store, AUDITORS);
    const response = await fetch(`${url}/events?type=PlantMoved`, { headers: CAROL });
    expect(response.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50301, response)).not.toMatch(/secret|disk|sdz/);
    expect(log()).toContain(response.headers.get('request-id'));
  });

  test('in the middle of a replay aborts the response', async () => {
    const readAll = failingAfter([recorded(1), recorded(2)]);
    const { url, log } = await appOver({ lastPosition: async () => 9n, readAll }, AUDITORS);
    const response = await fetch(`${url}/events`, { headers: CAROL });
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await expect.poll(log).toContain(SECRET);
  });
});

function recorded(n: number, padding = ''): RecordedEvent {
  return {
    position: BigInt(n),
    ...plantCreated(n, 'alice', `${n}`, '2026-03-01T12:00:00.000Z', `plant ${n}${padding}`),
  };
}

/** Returns a first page of events, then fails. */
const failingAfter =
  (events: RecordedEvent[]): EventStore['readAll'] =>
  async ({ after }) => {
    const position = events.at(-1)?.position ?? START;
    if (after >= position) throw new StoreUnavailable(SECRET);
    return { events, position, isEnd: false };
  };

/** The HTTP API over a log with one event per page. */
async function overEndless({ padding = 0, end = 1_000_000 } = {}) {
  const seen = { pages: 0 };
  const text = 'x'.repeat(padding);
  const readAll: EventStore['readAll'] = async ({ after }) => {
    seen.pages++;
    const position = after + 1n;
    return { events: [recorded(Number(position), text)], position, isEnd: false };
  };
  const { url } = await appOver({ lastPosition: async () => BigInt(end), readAll }, AUDITORS);
  /** Sends a request on its own connection; the body of the response is not read yet. */
  const open = async (query = '', method = 'GET'): Promise<IncomingMessage> => {
    const request = get(`${url}/events${query}`, { agent: false, headers: CAROL, method });
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

describe('while a replay is sent', () => {
  test('appended events do not extend it', async () => {
    const { seen, open } = await overEndless({ end: 3 });
    const text = Buffer.concat(await (await open()).toArray()).toString();
    expect(text.match(/"position":"\d+"/g)).toEqual(['"position":"1"', '"position":"2"', '"position":"3"']);
    expect(seen.pages).toBe(3);
  });

  test('reading stops when the client disconnects', async () => {
    const { open, readingStopped } = await overEndless();
    const response = await open();
    for (let chunks = 0; chunks < 10; chunks++) await once(response, 'data');
    response.destroy();
    await readingStopped();
  });

  test('reading stops when the client disconnects before the first match', async () => {
    const { seen, url, readingStopped } = await overEndless();
    const leaving = new AbortController();
    const response = fetch(`${url}/events?type=PlantMoved`, { headers: CAROL, signal: leaving.signal });
    response.catch(() => {});
    await expect.poll(() => seen.pages).toBeGreaterThan(10);
    leaving.abort();
    await expect(response).rejects.toThrow();
    await readingStopped();
  });

  test('reading stops after the response to a HEAD', async () => {
    const { seen, open, readingStopped } = await overEndless();
    await (await open('', 'HEAD')).toArray();
    expect(seen.pages).toBeGreaterThan(0);
    await readingStopped();
  });

  test('a client that pauses reading causes backpressure and misses no event', async () => {
    const { seen, open, readingStopped } = await overEndless({ padding: 60_000, end: 600 });
    const response = await open();
    await readingStopped();
    expect(seen.pages).toBeLessThan(400);
    const text = Buffer.concat(await response.toArray()).toString();
    const positions = [...text.matchAll(/"position":"(\d+)"/g)].map(([, position]) => Number(position));
    expect(positions).toEqual(Array.from({ length: 600 }, (_, i) => i + 1));
  });
});

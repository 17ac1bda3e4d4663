import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { CloudEvent } from 'cloudevents';
import isCloudEvent from 'cloudevents/dist/schema/v1.js';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  type Batch,
  type EventStore,
  type Position,
  type RecordedEvent,
  StoreUnavailable,
} from '../../src/eventStore/eventStore.ts';
import { openLogFile } from '../../src/eventStore/sqliteFile.ts';
import { loadOrCreateKey } from '../../src/tokens/keyFile.ts';
import { startDouble } from '../copy/logs.ts';
import { appOver } from '../support/appOver.ts';
import { stopClock, untilSettled } from '../support/clock.ts';
import { EventStoreDbDouble } from '../support/eventStoreDbDouble.ts';
import { signedJwt } from '../support/jwt.ts';
import { answered } from '../support/load.ts';
import { refusalIn, refusedWith, UUID } from '../support/refusal.ts';
import { client, startService } from '../support/service.ts';
import { serviceOfFile } from '../support/serviceOfFile.ts';
import { slowClock } from '../support/slowClock.ts';
import { tempDir } from '../support/tempDir.ts';

const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';

type Written = Omit<RecordedEvent, 'position'>;

const uuid = (n: number) => `01956d2b-7a00-7000-8000-${String(n).padStart(12, '0')}`;

function planted(n: number, user: string, id: string, occurredAt: string, name: string): Written {
  const metadata = { $correlationId: `request-${n}`, schemaVersion: 1, occurredAt };
  const data = { id, user, name };
  return { stream: `plant-${user}/${id}`, revision: 0n, id: uuid(n), type: 'PlantCreated', data, metadata };
}

/** The log of the services of this file, as tests count its events: 1 to 7. The clock was not monotone. */
const LOG: readonly Written[] = [
  planted(1, 'alice', '1', '2026-03-01T12:00:00.000Z', 'Fern'),
  planted(2, 'bob', '1', '2026-03-01T12:00:00.001Z', 'Oak'),
  planted(3, 'alice', '9223372036854775807', '2026-03-01T12:01:00.000Z', '🪴 "Ivy"\n\u2028\0'),
  {
    stream: 'plant-alice/1',
    revision: 1n,
    id: uuid(4),
    type: 'PlantMoved',
    data: { to: 'kitchen' },
    metadata: {},
  },
  planted(5, 'a/b', '1', '2026-03-01T12:00:30.000Z', 'Moss'),
  {
    stream: 'plant-alice/1',
    revision: 2n,
    id: uuid(6),
    type: 'PlantSketched',
    data: 'no JSON',
    metadata: 'none',
  },
  planted(7, 'bob', '2', '2026-03-02T00:00:00.000Z', 'Elm'),
];

/** Where they stand in the embedded log: beyond 31, 32 and 53 bits, with gaps. */
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

/** A data directory whose log holds these events, at these places. */
function fillLog(dir: string, events: readonly Written[], positions: readonly Position[]): void {
  const db = openLogFile(join(dir, 'log.db'));
  const insert = db.prepare(`INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, '2026-03-03T00:00:00.000Z')`);
  insert.setReadBigInts(true); // it gives the position back
  db.exec('BEGIN');
  for (const [i, { stream, revision, id, type, data, metadata }] of events.entries())
    insert.run(positions[i] as Position, id, stream, revision, type, bare(data), bare(metadata));
  db.exec('COMMIT');
  db.close();
}

function fillDouble(double: EventStoreDbDouble, events: readonly Written[]): Position[] {
  return events.map(({ stream, ...event }) => double.write(stream, event).position);
}

/** How carol, who may see everything, asks a service for events. */
function auditor({ url, dir }: { url: string; dir: string }) {
  const carol = client(url, dir)('carol', 'audit');
  return (query = '', init: RequestInit = {}) => carol.request(`/events${query}`, init);
}

/** Every token is the name of an auditor. */
const AUDITORS = {
  verifyToken: (user: string) => ({ user, scopes: ['audit'], until: Number.POSITIVE_INFINITY }),
};
const CAROL = { authorization: 'Bearer carol' };

type Line = Record<string, unknown> & { id: string; position: string };

/** The events of an answer; each has to be a CloudEvent to the official schema and to its SDK. */
async function linesIn(answer: Response): Promise<Line[]> {
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  expect(answer.headers.get('content-type')).toBe(NDJSON);
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

/** Which events of the log an answer holds. */
const numbersIn = async (answer: Response): Promise<number[]> =>
  (await linesIn(answer)).map(({ id }) => LOG.findIndex((event) => event.id === id) + 1);

function dirOfFile(): string {
  const dir = mkdtempSync(join(tmpdir(), 'plant-store-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function overEmbedded() {
  const dir = dirOfFile();
  fillLog(dir, LOG, POSITIONS);
  const { url } = await serviceOfFile({ DATA_DIR: dir, EVENT_SOURCE: 'https://plants.example/log' });
  return { url, dir, positions: POSITIONS, source: 'https://plants.example/log' };
}

async function overEventStoreDb() {
  const dir = dirOfFile();
  const double = await EventStoreDbDouble.start();
  afterAll(() => double.stop());
  double.write('garden-alice/1', { type: 'PlantCreated' }); // of somebody else who uses the server
  const positions = fillDouble(double, LOG);
  double.write('garden-alice/2', { type: 'PlantCreated' });
  const { url } = await serviceOfFile({ DATA_DIR: dir, EVENTSTOREDB_URL: double.url });
  return { url, dir, positions, source: 'urn:plant-store' };
}

const embedded = await overEmbedded();
const eventStoreDb = await overEventStoreDb();
const BOTH = [
  ['the embedded log', embedded],
  ['EventStoreDB', eventStoreDb],
] as const;

describe.each(BOTH)('GET /events over %s', (_, server) => {
  const { positions, source } = server;
  const ask = auditor(server);
  /** `{3}` is the position of the third event. */
  const placed = (query: string) => query.replace(/\{(\d)\}/g, (_, n) => `${positions[n - 1]}`);

  test('gives each event of every user as a CloudEvent, one a line, in log order', async () => {
    const answer = await ask();
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('request-id')).toMatch(UUID);
    const event = (n: number) => ({
      specversion: '1.0',
      id: uuid(n),
      source,
      type: 'PlantCreated',
      datacontenttype: 'application/json',
      position: `${positions[n - 1]}`,
      revision: '0',
    });
    const known = (n: number) => ({ ...event(n), correlationid: `request-${n}`, schemaversion: 1 });
    expect(await linesIn(answer)).toStrictEqual([
      {
        ...known(1),
        subject: 'plant-alice/1',
        time: '2026-03-01T12:00:00.000Z',
        data: { id: '1', user: 'alice', name: 'Fern' },
      },
      {
        ...known(2),
        subject: 'plant-bob/1',
        time: '2026-03-01T12:00:00.001Z',
        data: { id: '1', user: 'bob', name: 'Oak' },
      },
      {
        ...known(3),
        subject: 'plant-alice/9223372036854775807',
        time: '2026-03-01T12:01:00.000Z',
        data: { id: '9223372036854775807', user: 'alice', name: '🪴 "Ivy"\n\u2028\0' },
      },
      {
        ...event(4),
        subject: 'plant-alice/1',
        type: 'PlantMoved',
        revision: '1',
        data: { to: 'kitchen' },
      },
      {
        ...known(5),
        subject: 'plant-a/b/1',
        time: '2026-03-01T12:00:30.000Z',
        data: { id: '1', user: 'a/b', name: 'Moss' },
      },
      {
        ...event(6),
        subject: 'plant-alice/1',
        type: 'PlantSketched',
        revision: '2',
        data: 'no JSON',
      },
      {
        ...known(7),
        subject: 'plant-bob/2',
        time: '2026-03-02T00:00:00.000Z',
        data: { id: '2', user: 'bob', name: 'Elm' },
      },
    ]);
  });

  test.each<[string, number[]]>([
    ['', [1, 2, 3, 4, 5, 6, 7]],
    ['?', [1, 2, 3, 4, 5, 6, 7]],
    ['?user=alice', [1, 3, 4, 6]],
    ['?user=bob', [2, 7]],
    ['?user=a%2Fb', [5]],
    ['?user=a/b', [5]],
    ['?id=1', [1, 2, 4, 5, 6]],
    ['?id=9223372036854775807', [3]],
    ['?id=-1', []],
    ['?user=bob&id=1', [2]],
    ['?id=2&user=alice', []],
    ['?type=PlantMoved', [4]],
    ['?type=PlantCreated&user=alice', [1, 3]],
    ['?type=plantcreated', []],
    ['?type=%00', []],
    ['?since=2026-03-01T12:00:00.001Z', [2, 3, 5, 7]],
    ['?since=2026-03-01T12:00:00.002Z', [3, 5, 7]],
    ['?since=2026-03-01t13:00:00.001%2B01:00', [2, 3, 5, 7]],
    ['?until=2026-03-01T12:00:00.001Z', [1, 2]],
    ['?until=2026-03-01T11:30:00-00:30', [1]],
    ['?until=2026-03-01T11:59:59.999Z', []],
    ['?since=2026-03-01T12:00:00.001Z&until=2026-03-01T12:00:00.001Z', [2]],
    ['?until=2026-03-01T12:00:30z&since=2026-03-01T12:00:00.001Z', [2, 5]],
    ['?limit=0', []],
    ['?limit=1', [1]],
    ['?limit=6', [1, 2, 3, 4, 5, 6]],
    ['?limit=7', [1, 2, 3, 4, 5, 6, 7]],
    ['?limit=2147483647', [1, 2, 3, 4, 5, 6, 7]],
    ['?after=0', [1, 2, 3, 4, 5, 6, 7]],
    ['?after={2}', [3, 4, 5, 6, 7]],
    ['?after={2}&limit=2', [3, 4]],
    ['?after={6}', [7]],
    ['?after={7}', []],
    ['?after={2}&user=nobody', []],
    ['?user=alice&limit=2&after={1}', [3, 4]],
    ['?id=1&type=PlantCreated&since=2026-03-01T12:00:00.001Z&limit=1&after={1}', [2]],
    ['?user=alice&until=2026-03-01T12:00:00Z&type=PlantMoved', []],
  ])('%s', async (query, numbers) => {
    expect(await numbersIn(await ask(placed(query)))).toEqual(numbers);
  });

  test.each([
    '?foo=bar',
    '?foo=1&foo=2&limit=7',
    '?User=nobody',
    '?scope=audit',
    '?__proto__=1&constructor=2',
  ])('ignores parameters that it does not know: %s', async (query) => {
    expect(await numbersIn(await ask(query))).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('refuses a user of whom there is nothing', async () => {
    for (const query of [
      '?user=nobody',
      '?user=Alice',
      '?user=nobody&type=PlantMoved&limit=1',
      '?user=%F0%9F%AA%B4',
    ])
      expect(await refusedWith(40004, await ask(query))).toMatch(/^There is no event of the user "/);
  });

  test('refuses a position beyond the end of the log', async () => {
    const { position: end } = (await linesIn(await ask())).at(-1) as Line;
    for (const after of [BigInt(end) + 1_000_000n, 9_223_372_036_854_775_807n])
      expect(await refusedWith(40005, await ask(`?after=${after}`))).toMatch(/^after is beyond the end/);
  });

  // A server may know its positions only by the events that stand there.
  test('answers a position between two events at once, with what follows or a refusal', async () => {
    const between = (positions[2] as Position) - 1n;
    const answer = await ask(`?after=${between}`);
    if (answer.status === 200) expect(await numbersIn(answer)).toEqual([3, 4, 5, 6, 7]);
    else expect(await refusedWith(40005, answer)).toMatch(/^after /);
  });

  test('answers a HEAD as a GET, without the body', async () => {
    const changing = /^(date|request-id|connection|keep-alive|transfer-encoding|content-length)$/;
    const seen = async (answer: Response) => ({
      status: answer.status,
      headers: [...answer.headers].filter(([name]) => !changing.test(name)),
    });
    for (const query of ['', '?limit=0', '?limit=1', '?user=nobody', '?limit=x', placed('?after={7}')]) {
      const [given, head] = await Promise.all([ask(query), ask(query, { method: 'HEAD' })]);
      expect(await head.text()).toBe('');
      expect(await seen(head), query).toEqual(await seen(given));
      await given.text();
    }
  });
});

describe('what is asked wrongly is 400 and named:', () => {
  const ask = auditor(embedded);
  const WRONG: Record<string, string[]> = {
    after: [
      '',
      '-1',
      '+1',
      '01',
      '1.0',
      '1e3',
      'x',
      '%201',
      '%D9%A1',
      's0123456789ab.1',
      '9223372036854775808',
    ],
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
  /** Half of a surrogate pair as UTF-8 would have it: no text at all. */
  const HALF = '%ED%A0%80';

  for (const [name, values] of Object.entries(WRONG)) {
    test.each(values)(`${name}=%s`, async (value) => {
      const number = name === 'after' ? 40005 : 40004;
      expect(await refusedWith(number, await ask(`?${name}=${value}`))).toMatch(new RegExp(`^${name} `));
      expect(await refusedWith(number, await ask(`?foo=1&${name}=${value}&bar`))).toMatch(`${name} `);
    });
  }

  test.each(Object.keys(GOOD))('%s without a value', async (name) => {
    const number = name === 'after' ? 40005 : 40004;
    expect(await refusedWith(number, await ask(`?${name}`))).toMatch(new RegExp(`^${name} `));
  });

  test.each(Object.entries(GOOD))('%s twice', async (name, value) => {
    for (const second of [value, '', 'x']) {
      const message = await refusedWith(40004, await ask(`?${name}=${value}&${name}=${second}`));
      expect(message).toMatch(new RegExp(`^${name} must be given once`));
    }
  });

  test('half of a surrogate pair', async () => {
    for (const name of ['after', 'id', 'since', 'until', 'limit']) {
      const { error, message } = await refusalIn(await ask(`?${name}=${HALF}`));
      expect([error, message.split(' ')[0]]).toEqual([name === 'after' ? 40005 : 40004, name]);
    }
    expect(await refusedWith(40004, await ask(`?user=${HALF}`))).toMatch('user');
  });

  test('a since that is later than the until', async () => {
    const times = '?since=2026-03-01T12:00:00.001Z&until=2026-03-01T13:00:00%2B01:00';
    for (const query of [times, `${times}&user=nobody`, `${times}&after=99999999999999999`])
      expect(await refusedWith(40004, await ask(query))).toBe('since must not be later than until.');
  });

  test('with every part that is right, nothing is refused', async () => {
    expect(await numbersIn(await ask(`?${new URLSearchParams(GOOD)}`))).toEqual([]);
    const { after, ...others } = GOOD;
    expect(await numbersIn(await ask(`?${new URLSearchParams(others)}`))).toEqual([1]);
  });
});

describe('what is acceptable to the client', () => {
  const ask = auditor(embedded);

  test.each([
    undefined,
    '*/*',
    'application/*',
    NDJSON,
    'APPLICATION/X-NDJSON',
    `${NDJSON}, ${SSE}`,
    `${NDJSON};q=0.5, ${SSE};q=0.4`,
    `${SSE};q=0, */*`,
    'application/json, */*;q=0.1',
    'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  ])('may be lines: %s', async (accept) => {
    const answer = await ask('?limit=1', accept === undefined ? {} : { headers: { accept } });
    expect(await numbersIn(answer)).toEqual([1]);
  });

  test.each([SSE, 'text/*', `${SSE}, ${NDJSON}`, `${SSE};q=0.5, ${NDJSON};q=0.4`, `${NDJSON};q=0, */*`])(
    'may be an event stream: %s',
    async (accept) => {
      const leaving = new AbortController();
      const answer = await ask('?limit=1', { headers: { accept }, signal: leaving.signal });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream(;|$)/);
      leaving.abort();
    },
  );

  test.each(['application/json', 'text/html', 'image/*', `${NDJSON};q=0`, `*/*;q=0`, 'nonsense'])(
    'may be nothing of this, which is 40601: %s',
    async (accept) => {
      const message = await refusedWith(40601, await ask('', { headers: { accept } }));
      expect(message).toContain(NDJSON);
      expect(message).toContain(SSE);
      const head = await ask('', { method: 'HEAD', headers: { accept } });
      expect([head.status, await head.text()]).toEqual([406, '']);
    },
  );
});

describe('without the scope audit', () => {
  const { privateKey } = loadOrCreateKey(join(embedded.dir, 'key.json'));
  const exp = Math.floor(Date.now() / 1_000) + 3_600;
  const ask = (token: string | undefined, query = '', init: RequestInit = {}): Promise<Response> =>
    fetch(`${embedded.url}/events${query}`, {
      ...init,
      headers: { ...init.headers, ...(token && { authorization: token }) },
    });
  const tokenOf = (sub: string, scope?: unknown) => `Bearer ${signedJwt(privateKey, { sub, exp, scope })}`;

  test('a token is refused, and told which scope is needed (RFC 6750 section 3.1)', async () => {
    for (const user of ['alice', 'bob', 'nobody']) {
      const answer = await ask(tokenOf(user));
      expect(answer.headers.get('www-authenticate')).toBe(
        'Bearer realm="plants", error="insufficient_scope", scope="audit"',
      );
      expect(await refusedWith(40301, answer)).toContain('audit');
    }
  });

  test.each(['audit', 'a audit b', 'audit b', 'a audit', 'audit audit'])(
    'in the claim it is there: %j',
    async (scope) => {
      expect(await numbersIn(await ask(tokenOf('alice', scope)))).toHaveLength(LOG.length);
    },
  );

  test.each([
    undefined,
    null,
    '',
    ' ',
    'a b',
    'auditor',
    'audi',
    'AUDIT',
    'Audit',
    'xaudit',
    'audit,b',
    'a\taudit',
    'a\naudit',
    '"audit"',
    'plants:audit',
    'audit:read',
    ['audit'],
    ['a', 'audit'],
    [['audit']],
    { audit: true },
    { includes: 'audit' },
    7,
    true,
  ])('in the claim it is not there: %j', async (scope) => {
    await refusedWith(40301, await ask(tokenOf('alice', scope)));
  });

  test('a scope under another name is none', async () => {
    for (const claim of ['scp', 'scopes', 'Scope', 'permissions', 'roles']) {
      const token = signedJwt(privateKey, { sub: 'alice', exp, [claim]: 'audit' });
      await refusedWith(40301, await ask(`Bearer ${token}`));
    }
  });

  const ASKED: [string, RequestInit?][] = [
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
  const CHANGING = /^(date|request-id|connection|keep-alive)$/;
  const all = async (answer: Response) => ({
    status: answer.status,
    headers: [...answer.headers].filter(([name]) => !CHANGING.test(name)),
    body: await answer.text(),
  });

  test.each(['GET', 'HEAD'])('the answer to a %s is the same whatever is asked', async (method) => {
    for (const token of [tokenOf('alice'), tokenOf('nobody', 'read')]) {
      const first = await all(await ask(token, '', { method }));
      expect(first.status).toBe(403);
      for (const [query, init] of ASKED)
        expect(await all(await ask(token, query, { ...init, method })), query).toEqual(first);
    }
  });

  test.each(['GET', 'HEAD'])('and so it is to a %s without a good token, which is 401', async (method) => {
    const expired = signedJwt(privateKey, { sub: 'carol', exp: 1, scope: 'audit' });
    for (const [token, number, challenge] of [
      [undefined, 40101, 'Bearer realm="plants"'],
      ['Basic Y2Fyb2w6YXVkaXQ=', 40101, 'Bearer realm="plants"'],
      ['Bearer nonsense', 40102, 'Bearer realm="plants", error="invalid_token"'],
      [`Bearer ${expired}`, 40102, 'Bearer realm="plants", error="invalid_token"'],
    ] as const) {
      const answer = await ask(token, '', { method });
      expect(answer.headers.get('www-authenticate')).toMatch(challenge);
      if (method === 'GET') await refusedWith(number, answer.clone());
      const first = await all(answer);
      expect(first.status).toBe(401);
      for (const [query, init] of ASKED)
        expect(await all(await ask(token, query, { ...init, method })), query).toEqual(first);
    }
  });

  test('nothing is asked of the log, and not even its absence can be seen', async () => {
    const end = vi.fn(() => Promise.reject(new StoreUnavailable('away')));
    const subscribe = vi.fn();
    const scopes = { alice: [], carol: ['audit'] };
    const { url } = await appOver(
      { end, subscribe },
      {
        verifyToken: (user) => ({
          user,
          scopes: scopes[user as keyof typeof scopes],
          until: Number.POSITIVE_INFINITY,
        }),
      },
    );
    for (const [query, init] of ASKED) {
      const headers = { ...init?.headers, authorization: 'Bearer alice' };
      await refusedWith(40301, await fetch(`${url}/events${query}`, { ...init, headers }));
    }
    expect([end, subscribe].map(({ mock }) => mock.calls)).toEqual([[], []]);
    await refusedWith(50301, await fetch(`${url}/events`, { headers: CAROL }));
  });
});

describe('what is posted', () => {
  async function startOver(env: Record<string, string>) {
    const service = await startService(env);
    return { service, ask: auditor(service) };
  }

  test.each(['the embedded log', 'EventStoreDB'])(
    'over %s is what an auditor sees, who has plants of their own, and no more',
    async (store) => {
      const env = store === 'EventStoreDB' ? { EVENTSTOREDB_URL: (await startDouble()).url } : {};
      const { service, ask } = await startOver(env);
      expect(await linesIn(await ask())).toEqual([]);
      await refusedWith(40004, await ask('?user=alice'));
      const posted: unknown[] = [];
      for (const [user, id, plant] of [
        ['alice', 2, { name: 'Fern', tag: 'indoor' }],
        ['bob', 2, { name: 'Oak' }],
        ['carol', 1, { name: 'Moss' }],
        ['alice', -9_223_372_036_854_775_808n, { name: '' }],
      ] as const) {
        const since = new Date().toISOString();
        const answer = await service.as(user).create(id, plant);
        expect(answer.status).toBe(200);
        posted.push({
          specversion: '1.0',
          id: expect.stringMatching(UUID),
          source: 'urn:plant-store',
          type: 'PlantCreated',
          subject: `plant-${user}/${id}`,
          time: expect.toSatisfy((time: string) => time >= since && time <= new Date().toISOString()),
          datacontenttype: 'application/json',
          data: { id: `${id}`, user, ...plant },
          position: answer.headers.get('log-position')?.split('.')[1],
          revision: '0',
          correlationid: answer.headers.get('request-id'),
          schemaversion: 1,
        });
        await service.as(user).create(id, plant); // which is safe, and no event
      }
      expect(await linesIn(await ask())).toEqual(posted);
      expect(await service.as('carol', 'audit').list()).toEqual([{ name: 'Moss' }]);
      expect(await service.as('bob').list()).toEqual([{ name: 'Oak' }]);
    },
  );

  test('leaves one line in the log of requests, without its query', async () => {
    const { service, ask } = await startOver({});
    const { status, headers } = await ask('?user=whisper&access_token=hush', {
      headers: { 'x-secret': 'hush' },
    });
    expect(status).toBe(400);
    const lines = () => service.log().filter(({ requestId }) => requestId === headers.get('request-id'));
    await expect.poll(lines).toHaveLength(1);
    expect(lines()[0]).toMatchObject({
      user: 'carol',
      method: 'GET',
      path: '/events',
      status: 400,
      msg: 'request',
    });
    expect(JSON.stringify(service.log())).not.toMatch(/whisper|hush/);
  });
});

describe('data that is bytes', () => {
  test('comes as base64', async () => {
    const double = await startDouble();
    const data = Uint8Array.of(0, 1, 254, 255);
    double.write('plant-alice/1', { type: 'PlantPainted', contentType: 'application/octet-stream', data });
    const ask = auditor(await startService({ EVENTSTOREDB_URL: double.url }));
    const [event, ...others] = await linesIn(await ask());
    expect(event).toMatchObject({ datacontenttype: 'application/octet-stream', data_base64: 'AAH+/w==' });
    expect(event).not.toHaveProperty('data');
    expect(others).toEqual([]);
  });
});

describe('a log longer than one batch', () => {
  const LENGTH = 1_300;
  const long = Array.from({ length: LENGTH }, (_, i) =>
    planted(i, i % 2 === 0 ? 'alice' : 'bob', `${i}`, '2026-03-01T12:00:00.000Z', `plant ${i}`),
  );
  const ids = (lines: Line[]) => lines.map(({ id }) => id);
  const numbered = (is: (i: number) => boolean) => long.filter((_, i) => is(i)).map(({ id }) => id);

  async function startOver(store: string) {
    if (store === 'EventStoreDB') {
      const double = await startDouble();
      const positions = fillDouble(double, long);
      return { ...(await startService({ EVENTSTOREDB_URL: double.url })), positions };
    }
    const DATA_DIR = tempDir();
    const positions = long.map((_, i) => BigInt(2 * i + 1));
    fillLog(DATA_DIR, long, positions);
    return { ...(await startService({ DATA_DIR })), positions };
  }

  test.each(['the embedded log', 'EventStoreDB'])('of %s comes whole and in order', async (store) => {
    const service = await startOver(store);
    const ask = auditor(service);
    const [everything, ofBob, first, last] = await Promise.all([
      ask().then(linesIn),
      ask('?user=bob').then(linesIn),
      ask('?limit=501').then(linesIn),
      ask(`?after=${service.positions.at(-3)}`).then(linesIn),
    ]);
    expect(ids(everything)).toEqual(numbered(() => true));
    expect(everything.map(({ position }) => BigInt(position))).toEqual(service.positions);
    expect(ids(ofBob)).toEqual(numbered((i) => i % 2 === 1));
    expect(ids(first)).toEqual(numbered((i) => i < 501));
    expect(ids(last)).toEqual(numbered((i) => i >= LENGTH - 2));
    await refusedWith(40004, await ask('?user=nobody'));
    expect((await ask('?user=nobody', { method: 'HEAD' })).status).toBe(400);
  });
});

describe('a log that is away', () => {
  const SECRET = 'secret: disk /dev/sdz failed';

  test('over EventStoreDB is 50301, until it is available again', async () => {
    const clock = slowClock();
    const double = await startDouble();
    fillDouble(double, LOG);
    const ask = auditor(await startService({ EVENTSTOREDB_URL: double.url }));
    expect(await numbersIn(await answered(ask))).toHaveLength(LOG.length);
    await double.stop();
    for (const headers of [{ accept: NDJSON }, { accept: SSE }]) {
      const [answer] = await untilSettled(ask('', { headers }));
      expect(answer.headers.get('retry-after')).toBe('1');
      await refusedWith(50301, answer);
    }
    await double.restart();
    clock.pass(10_000); // no attempt to reach the server is put off for longer
    expect(await numbersIn(await answered(ask))).toHaveLength(LOG.length);
  });

  test.each<[string, Partial<EventStore>]>([
    ['asked for its end', { end: () => Promise.reject(new StoreUnavailable(SECRET)) }],
    [
      'before its first batch',
      {
        end: async () => 1n,
        // biome-ignore lint/correctness/useYield: it fails before there is anything
        async *subscribe() {
          throw new StoreUnavailable(SECRET);
        },
      },
    ],
    ['that is closed', { end: async () => 1n, async *subscribe() {} }],
    [
      'after batches in which nothing fits',
      {
        end: async () => 9n,
        async *subscribe() {
          yield { events: [recorded(1)], caughtUp: false };
          throw new StoreUnavailable(SECRET);
        },
      },
    ],
  ])('%s is 50301, and told to the log only', async (_, fault) => {
    const { url, log } = await appOver(fault, AUDITORS);
    const answer = await fetch(`${url}/events?type=PlantMoved`, { headers: CAROL });
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(await refusedWith(50301, answer)).not.toMatch(/secret|disk|sdz/);
    expect(log()).toContain(answer.headers.get('request-id'));
  });

  test('in the middle of an answer cuts the connection: half a log is no log', async () => {
    const fault = {
      end: async () => 9n,
      async *subscribe(): AsyncGenerator<Batch> {
        yield { events: [recorded(1), recorded(2)], caughtUp: false };
        throw new StoreUnavailable(SECRET);
      },
    };
    const { url, log } = await appOver(fault, AUDITORS);
    const answer = await fetch(`${url}/events`, { headers: CAROL });
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow();
    await expect.poll(log).toContain(SECRET);
  });
});

function recorded(n: number, padding = ''): RecordedEvent {
  return {
    position: BigInt(n),
    ...planted(n, 'alice', `${n}`, '2026-03-01T12:00:00.000Z', `plant ${n}${padding}`),
  };
}

/** The HTTP side over a log that has a batch of one event after the other, as fast as they are taken. */
async function overEndless({ padding = 0, end = 1_000_000 } = {}) {
  const seen = { reading: 0, given: 0, begun: [] as Position[] };
  const text = 'x'.repeat(padding);
  async function* subscribe({
    after,
    signal,
  }: {
    after: Position;
    signal: AbortSignal;
  }): AsyncGenerator<Batch> {
    seen.reading++;
    seen.begun.push(after);
    try {
      for (let n = Number(after) + 1; !signal.aborted; n++) {
        seen.given++;
        yield { events: [recorded(n, text)], caughtUp: false };
        await nextTurn();
      }
    } finally {
      seen.reading--;
    }
  }
  const { url } = await appOver({ end: async () => BigInt(end), subscribe }, AUDITORS);
  /** Asks with a connection of its own, whose answer is not read yet. */
  const open = async (query = '', method = 'GET'): Promise<IncomingMessage> => {
    const request = get(`${url}/events${query}`, { agent: false, headers: CAROL, method });
    onTestFinished(() => void request.destroy());
    request.on('error', () => {});
    const [answer] = await once(request, 'response');
    answer.on('error', () => {});
    return answer;
  };
  /** Moves the clock on until the log is not read any more for a client that does not read. */
  const released = async (): Promise<void> => {
    await untilSettled(expect.poll(() => seen.reading).toBe(0));
  };
  return { seen, url, open, released };
}

describe('while an answer is sent', () => {
  test('events that are appended do not make it endless', async () => {
    const { seen, open } = await overEndless({ end: 3 });
    const text = Buffer.concat(await (await open()).toArray()).toString();
    expect(text.match(/"position":"\d+"/g)).toEqual(['"position":"1"', '"position":"2"', '"position":"3"']);
    await expect.poll(() => seen.reading).toBe(0);
  });

  test('a client that leaves in the middle is noticed', async () => {
    const { seen, open } = await overEndless();
    const answer = await open();
    await once(answer, 'readable');
    expect(seen.reading).toBe(1);
    answer.destroy();
    await expect.poll(() => seen.reading).toBe(0);
  });

  test('a client that leaves while it does not read is noticed, too', async () => {
    const { seen, open } = await overEndless({ padding: 60_000 });
    stopClock(); // it is noticed by its leaving, not by its idling
    const answer = await open();
    for (let last = -1; last !== seen.given; await pause(20)) last = seen.given;
    answer.destroy();
    await expect.poll(() => seen.reading).toBe(0);
  });

  test('a client that leaves before anything has been found is noticed', async () => {
    const { seen, url } = await overEndless();
    const leaving = new AbortController();
    const answer = fetch(`${url}/events?type=PlantMoved`, { headers: CAROL, signal: leaving.signal });
    answer.catch(() => {});
    await expect.poll(() => seen.given).toBeGreaterThan(10);
    leaving.abort();
    await expect(answer).rejects.toThrow();
    await expect.poll(() => seen.reading).toBe(0);
  });

  test('and after a HEAD, nobody reads the log any more', async () => {
    const { seen, open } = await overEndless();
    await (await open('', 'HEAD')).toArray();
    expect(seen.given).toBeGreaterThan(0);
    await expect.poll(() => seen.reading).toBe(0);
  });

  test('a client that stops reading holds nothing but its socket, and misses nothing', async () => {
    const { seen, open, released } = await overEndless({ padding: 60_000, end: 1_000 });
    stopClock();
    const answer = await open();
    await released();
    expect(seen.given).toBeLessThan(500);
    const text = Buffer.concat(await answer.toArray()).toString();
    const positions = [...text.matchAll(/"position":"(\d+)"/g)].map(([, position]) => Number(position));
    expect(positions).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
    expect(seen.begun.length).toBeGreaterThan(1);
    await expect.poll(() => seen.reading).toBe(0);
  });
});

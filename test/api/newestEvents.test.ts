import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import type {
  EventLog,
  EventStore,
  Position,
  RecordedEvent,
} from '../../packages/event-log/src/eventStore.ts';
import { MAX_LIMIT } from '../../packages/event-log/src/replay/eventPages.ts';
import { openLogReader } from '../../packages/event-log/src/sqlite/read.ts';
import { AUDITORS, appOver } from '../support/appOver.ts';
import { appendTo, type EventToStore, eventId, writeTo } from '../support/logs.ts';
import { refusedWith } from '../support/refusal.ts';
import { storePool } from '../support/storePool.ts';
import { openOver } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const CAROL = { authorization: 'Bearer carol' };
const NDJSON = 'application/x-ndjson';

const USERS = ['alice', 'bob', 'alice/1', 'alicf'];
const TYPES = ['PlantCreated', 'PlantMoved'];
const minute = (n: number) => `2026-03-01T12:${String(n % 60).padStart(2, '0')}:00Z`;

/** Events of several users, types and times; those of `alicf` are rare. */
function someEvents(count: number): EventToStore[] {
  const revisions = new Map<string, number>();
  return Array.from({ length: count }, (_, i) => {
    const user = i % 17 === 0 ? 'alicf' : USERS[i % 3];
    const stream = `plant-${user}/${i % 5}`;
    const revision = revisions.get(stream) ?? 0;
    revisions.set(stream, revision + 1);
    const metadata = i % 7 === 0 ? {} : { occurredAt: minute(i * 7) };
    return { stream, revision, id: eventId(i + 1), type: TYPES[i % 2] ?? '', data: { i }, metadata };
  });
}

const oneOf = (user: string, n: number): EventToStore => ({
  stream: `plant-${user}/${n}`,
  id: eventId(n),
  data: {},
});

const pooled = storePool((url) => openOver(url));

/** A log with these events, and a function that appends some more, like another program. */
async function openLog(events: EventToStore[], kind = 'the embedded log') {
  if (kind === 'EventStoreDB') {
    const { store, server } = await pooled();
    const append = (...more: EventToStore[]) => void writeTo(server, ...more);
    append(...events);
    const names = ['logId', 'lastPosition', 'readEvent', 'readAll', 'readBackwards'] as const;
    const log = Object.fromEntries(names.map((name) => [name, store[name].bind(store)]));
    return { log: log as unknown as EventLog, append };
  }
  const dir = appendTo(tempDir(), ...events);
  const log = openLogReader(join(dir, 'log.db'), { raw: true });
  onTestFinished(() => log.close());
  return { log, append: (...more: EventToStore[]) => void appendTo(dir, ...more) };
}

async function serviceOver(store: Partial<EventStore>) {
  const { url } = await appOver(store, AUDITORS);
  const get = (path: string, init: RequestInit = {}) => fetch(`${url}${path}`, { headers: CAROL, ...init });
  return { url, get, page: async (path: string) => pageOf(await get(path)) };
}

/** The IDs of the events of a response, and the target of its Link. */
async function pageOf(response: Response) {
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(response.headers.get('content-type')).toBe(NDJSON);
  const events = text.split('\n').slice(0, -1);
  const link = response.headers.get('link');
  const next = link === null ? undefined : /^<(\/events\?[^>]*)>; rel="next"$/.exec(link)?.[1];
  if (link !== null) expect(next).toBeDefined();
  return { ids: events.map((line) => JSON.parse(line).id as string), next, events };
}

type Service = Awaited<ReturnType<typeof serviceOver>>;

/** The IDs on all pages from a path on. */
async function everyPage({ page }: Service, path: string, between = () => {}) {
  const pages: string[][] = [];
  for (let next: string | undefined = path; next !== undefined; between()) {
    const { ids, next: following } = await page(next);
    pages.push(ids);
    next = following;
  }
  return pages;
}

describe.each(['the embedded log', 'EventStoreDB'])('GET /events?order=descending over %s', (kind) => {
  test('has the events of a replay with the same filters in reverse, page by page', async () => {
    const { log } = await openLog(someEvents(60), kind);
    const service = await serviceOver(log);
    const times = fc.nat({ max: 59 }).map(minute);
    const filters = fc.record(
      {
        user: fc.constantFrom(...USERS),
        id: fc.nat({ max: 5 }).map(String),
        type: fc.constantFrom(...TYPES),
        since: times,
        until: times,
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(filters, fc.integer({ min: 1, max: 50 }), async (filter, limit) => {
        fc.pre(!(filter.since && filter.until && filter.since > filter.until));
        const query = new URLSearchParams(filter);
        const replayed = await service.page(`/events?${query}`);
        const pages = await everyPage(service, `/events?order=descending&limit=${limit}&${query}`);
        expect(pages.flat()).toEqual(replayed.ids.toReversed());
        for (const page of pages) expect(page.length).toBeLessThanOrEqual(limit);
      }),
      // Filters do not depend on the store.
      { numRuns: kind === 'EventStoreDB' ? 4 : 12 },
    );
  });

  test('starts before the position of an event, or a cursor, which names its log', async () => {
    const { log } = await openLog(someEvents(5), kind);
    const service = await serviceOver(log);
    const { ids, events } = await service.page('/events');
    const { position } = JSON.parse(events[2] ?? '');
    for (const before of [position, `${await log.logId()}.${position}`]) {
      const earlier = await service.page(`/events?order=descending&before=${before}`);
      expect(earlier).toMatchObject({ ids: ids.slice(0, 2).toReversed(), next: undefined });
    }
    expect((await service.page('/events?order=descending&before=0')).ids).toEqual([]);
    const response = await service.get('/events?order=descending&limit=1');
    expect(response.headers.get('log-position')).toBe(`${await log.logId()}.${await log.lastPosition()}`);
  });

  test('rejects other positions with 40005', async () => {
    const { log } = await openLog(someEvents(3), kind);
    const { get } = await serviceOver(log);
    const [logId, last] = [await log.logId(), await log.lastPosition()];
    const beyond = [`${last + 1n}`, `${logId}.${last + 1n}`, '9223372036854775807'];
    const others = [`s0123456789ab.${last}`, `0.${last}`, `${logId}.${last}.1`, `${logId}.${last}%0d%0aX:1`];
    for (const before of ['', 'x', '-1', '01', `${logId}.`, `${logId}.-1`, '.', ...beyond, ...others]) {
      const message = await refusedWith(40005, await get(`/events?order=descending&before=${before}`));
      expect(message, before).toMatch(/^before is /);
    }
  });
});

describe('GET /events?order=descending', () => {
  test('misses and repeats no event while events are appended', async () => {
    const { log, append } = await openLog(someEvents(40));
    const service = await serviceOver(log);
    const before = (await service.page('/events')).ids;
    let appended = 0;
    const between = () => append(oneOf('alice', 1_000 + appended++));
    const pages = await everyPage(service, '/events?order=descending&limit=7', between);
    expect(pages.flat()).toEqual(before.toReversed());
    expect(appended).toBeGreaterThan(5);
  });

  test('has at most 100 events without a limit, and no Link at the end, or for limit 0', async () => {
    const { log, append } = await openLog([]);
    const { page } = await serviceOver(log);
    const nothing = { ids: [], next: undefined };
    expect(await page('/events?order=descending')).toMatchObject(nothing);
    append(...someEvents(110));
    expect((await page('/events?order=descending')).ids).toHaveLength(100);
    const all = await page('/events?order=descending&limit=2147483647');
    expect(all).toMatchObject({ ids: { length: 110 }, next: undefined });
    expect(await page('/events?order=descending&limit=0')).toMatchObject(nothing);
    expect(await page('/events?order=descending&user=nobody')).toMatchObject(nothing);
  });

  test('finds a rare event behind empty pages, or at once by its user', async () => {
    const { log } = await openLog([oneOf('alice', 1_001), ...someEvents(250)]);
    const readBackwards: EventLog['readBackwards'] = (range) =>
      log.readBackwards({ ...range, limit: Math.min(range.limit, 4) });
    const service = await serviceOver({ ...log, readBackwards });
    const pages = await everyPage(service, '/events?order=descending&type=PlantCreated&id=1001&limit=5');
    expect(pages.flat()).toHaveLength(1);
    expect(pages.slice(0, -1).flat()).toEqual([]);
    expect(pages).toHaveLength(4); // 20 reads of 4 events each
    const [ofUser] = await everyPage(service, '/events?order=descending&user=alice&id=1001');
    expect(ofUser).toHaveLength(1);
  });

  test('is NDJSON only, as HEAD without the body', async () => {
    const { log } = await openLog(someEvents(3));
    const { get } = await serviceOver(log);
    const path = '/events?order=descending&limit=1';
    const accepting = (accept: string) => get(path, { headers: { ...CAROL, accept } });
    await pageOf(await accepting('text/event-stream, */*;q=0.1'));
    const message = `With order=descending, the media type is ${NDJSON}.`;
    expect(await refusedWith(40601, await accepting('text/event-stream'))).toBe(message);
    const head = await get(path, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect(head.headers.get('link')).toBe((await get(path)).headers.get('link'));
  });
});

test.each([
  ['order=up', 'order must be ascending or descending.'],
  ['order=descending&order=descending', 'order must be given once.'],
  ['before=1', 'before requires order=descending.'],
  ['order=ascending&before=1', 'before requires order=descending.'],
  ['order=descending&after=1', 'after cannot be combined with order=descending.'],
  ['order=descending&limit=-1', 'limit must be an integer from 0 to 2147483647, in decimal digits.'],
])('%s is 40004', async (query, message) => {
  const { get } = await serviceOver({ lastPosition: async () => 9n });
  expect(await refusedWith(40004, await get(`/events?${query}`))).toBe(message);
});

function recorded(position: Position, padding = ''): RecordedEvent {
  const id = `${position}`;
  const data = { padding };
  return { position, stream: `plant-alice/${id}`, revision: 0n, id, type: 'Written', data, metadata: {} };
}

/** A log of a million events, from which at most a number of them is read at a time. */
function endless(perRead: number, padding = '') {
  const seen = { reads: 0 };
  const end = 1_000_000n;
  const log: Partial<EventStore> = {
    lastPosition: async () => end,
    readEvent: async (position) => recorded(position),
    async readBackwards({ before = end + 1n, limit }) {
      seen.reads++;
      const events = Array.from({ length: Math.min(limit, perRead) }, (_, i) =>
        recorded(before - BigInt(i) - 1n, padding),
      );
      return { events, position: events.at(-1)?.position ?? before, isEnd: false };
    },
  };
  return { log, seen, end };
}

test('a page has at most 1 000 events, and ends early if they are large', async () => {
  const { log, end } = endless(500);
  const path = '/events?order=descending&limit=2147483647';
  const { ids, next } = await (await serviceOver(log)).page(path);
  expect(ids).toHaveLength(MAX_LIMIT);
  expect(next).toBe(`/events?limit=2147483647&order=descending&before=m.${end - 999n}`);
  const large = await (await serviceOver(endless(100, 'x'.repeat(60_000)).log)).page(path);
  expect(large.ids).toHaveLength(18); // 1 MiB
  expect(large.next).toContain(`before=m.${large.ids.at(-1)}`);
});

test('a page without a match ends after 20 reads, with a Link that keeps the filters', async () => {
  const { log, seen, end } = endless(500);
  const { page } = await serviceOver(log);
  const type = `<>"&\u00e9;, rel='x'`;
  const { ids, next } = await page(`/events?order=descending&type=${encodeURIComponent(type)}&foo=1`);
  expect([ids, seen.reads]).toEqual([[], 20]);
  const query = new URLSearchParams(next?.split('?')[1]);
  const before = `m.${end + 1n - (100n + 19n * 500n)}`;
  expect(Object.fromEntries(query)).toEqual({ type, order: 'descending', before });
});

test('a client that disconnects ends the reading', async () => {
  const leaving = new AbortController();
  const { log, seen } = endless(500);
  const reading = Promise.withResolvers<void>();
  const read = Promise.withResolvers<void>();
  onTestFinished(() => read.resolve());
  const readBackwards: EventStore['readBackwards'] = async (range) => {
    reading.resolve();
    await read.promise;
    return (log as EventStore).readBackwards(range);
  };
  const { app, url } = await appOver({ ...log, readBackwards }, AUDITORS);
  const closed = new Promise<void>((resolve) =>
    app.server.once('request', (_, response) => response.once('close', () => resolve())),
  );
  const path = `${url}/events?order=descending&type=None`;
  const response = fetch(path, { headers: CAROL, signal: leaving.signal });
  response.catch(() => {});
  await reading.promise;
  leaving.abort();
  await closed;
  read.resolve();
  await app.close();
  expect(seen.reads).toBeLessThanOrEqual(1);
});

import { refusedWith } from '@event-sourced/testing/refusal';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type BarCounts, Bars } from '../../packages/audit/src/histogram/bars.ts';
import { newestEvents, type OrderedEventQuery } from '../../packages/audit/src/routes/newestEvents.ts';
import type { EventLog, EventStore, RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { occurredAt } from '../../packages/event-log/src/replay/cloudEvent.ts';
import { EventFilter, UnknownUser } from '../../packages/event-log/src/replay/eventFilter.ts';
import { PLANT_STREAMS } from '../../src/plants/stream.ts';
import { AUDITORS, appOver } from '../support/appOver.ts';

const MAX_LIMIT = 1_000;

const USERS = ['alice', 'bob', 'alice/1', 'alicf'];
const TYPES = ['PlantCreated', 'PlantMoved'];
const minute = (n: number) => `2026-03-01T12:${String(n % 60).padStart(2, '0')}:00Z`;

/** Events of several users, types and times, at positions with gaps. */
const someEvents = (count: number, padding = ''): RecordedEvent[] =>
  Array.from({ length: count }, (_, i) => ({
    position: BigInt(2 * i + 1),
    stream: `plant-${USERS[i % 4]}/${i % 5}`,
    revision: 0n,
    id: `${i}`,
    type: TYPES[i % 2] ?? '',
    data: { padding },
    metadata: i % 7 === 0 ? {} : { occurredAt: minute(i * 7) },
  }));

/** A log of these events, which is read in portions of a few events at most. */
function logOf(events: RecordedEvent[], perRead = Number.POSITIVE_INFINITY) {
  const seen = { reads: 0 };
  const log: Partial<EventLog> = {
    logId: async () => 'm',
    lastPosition: async () => events.at(-1)?.position ?? 0n,
    readEvent: async (at) => events.find(({ position }) => position === at),
    async readBackwards({ before, limit, prefix = '' }) {
      seen.reads++;
      const earlier = events.filter(
        ({ position, stream }) => (before === undefined || position < before) && stream.startsWith(prefix),
      );
      const read = earlier.toReversed().slice(0, Math.min(limit, perRead));
      const isEnd = read.length === earlier.length;
      return { events: read, position: read.at(-1)?.position ?? before ?? 0n, isEnd };
    },
  };
  return { log: log as EventLog, seen };
}

/** A page: the IDs of its events, and the query of the next one. */
async function pageOf(log: EventLog, query: OrderedEventQuery) {
  const { signal } = new AbortController();
  const toLine = ({ id, data }: RecordedEvent) => `${id} ${JSON.stringify(data)}\n`;
  const options = { query, streams: PLANT_STREAMS, toLine, nextTurn: async () => {}, signal };
  const { lines = '', headers } = (await newestEvents(log, options)) ?? {};
  expect(headers?.['log-position']).toBe(`m.${await log.lastPosition()}`);
  const target = /^<events\?([^>]*)>; rel="next"$/.exec(headers?.link ?? '')?.[1];
  return {
    ids: lines.split('\n').flatMap((line) => line.split(' ')[0] || []),
    next: target === undefined ? undefined : Object.fromEntries(new URLSearchParams(target)),
  };
}

/** The IDs on all pages. */
async function everyPage(log: EventLog, query: OrderedEventQuery, between = () => {}) {
  const pages: string[][] = [];
  for (let next: OrderedEventQuery | undefined = query; next !== undefined; between()) {
    const { ids, next: following } = await pageOf(log, next);
    pages.push(ids);
    next = following;
  }
  return pages;
}

describe('pages of the newest events', () => {
  test('have the events that match any filters in reverse', async () => {
    const events = someEvents(60);
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
    const sizes = fc.integer({ min: 1, max: 50 });
    await fc.assert(
      fc.asyncProperty(filters, sizes, sizes, async (filters, limit, perRead) => {
        fc.pre(!(filters.since && filters.until && filters.since > filters.until));
        const filter = new EventFilter(filters, PLANT_STREAMS);
        const pages = await everyPage(logOf(events, perRead).log, { ...filters, limit: `${limit}` });
        const matching = events.filter((event) => filter.matches(event));
        expect(pages.flat()).toEqual(matching.map(({ id }) => id).toReversed());
        for (const page of pages) expect(page.length).toBeLessThanOrEqual(limit);
      }),
    );
  });

  test('miss and repeat no event while events are appended', async () => {
    const [before, all] = [someEvents(40), someEvents(60)];
    const events = [...before];
    const append = () => void events.push(...all.slice(events.length, events.length + 2));
    const pages = await everyPage(logOf(events).log, { limit: '7' }, append);
    expect(pages.flat()).toEqual(before.map(({ id }) => id).toReversed());
    expect(events.length).toBeGreaterThan(50);
  });

  test('have 100 events without a limit, and 1 000 with any; fewer if they are large', async () => {
    const { log } = logOf(someEvents(MAX_LIMIT + 10));
    expect((await pageOf(log, {})).ids).toHaveLength(100);
    const { ids, next } = await pageOf(log, { limit: '2147483647', order: 'descending' });
    expect(ids).toHaveLength(MAX_LIMIT);
    expect(next).toEqual({ limit: '2147483647', order: 'descending', before: 'm.21' });
    const large = await pageOf(logOf(someEvents(30, 'x'.repeat(60_000))).log, { limit: '30' });
    expect(large.ids).toHaveLength(18); // 1 MiB
  });

  test.each<OrderedEventQuery>([{ limit: '0' }, { user: 'bob', id: '9' }, { before: '0' }, { before: '1' }])(
    'end if no event matches %j',
    async (query) => {
      expect(await pageOf(logOf(someEvents(3)).log, query)).toEqual({ ids: [], next: undefined });
    },
  );

  test.each<OrderedEventQuery>([{}, { limit: '0' }, { before: '1' }, { id: '1' }])(
    'with %j, an unknown user is an error',
    async (query) => {
      const page = pageOf(logOf(someEvents(3)).log, { ...query, user: 'mallory' });
      await expect(page).rejects.toThrow(new UnknownUser('mallory'));
    },
  );

  test('without a match end after 20 reads, with a Link that keeps the filters', async () => {
    const { log, seen } = logOf(someEvents(250), 4);
    const type = `<>"&\u00e9;, rel='x'`;
    const { ids, next } = await pageOf(log, { type, order: 'descending' });
    expect([ids, seen.reads]).toEqual([[], 20]);
    expect(next).toEqual({ type, order: 'descending', before: `m.${2 * (250 - 20 * 4) + 1}` });
    expect(await pageOf(log, { user: 'bob', id: '9' })).toMatchObject({ next: undefined }); // has an index
  });
});

/** The API over a log of three events. Carol is an auditor. */
async function serve(store: Partial<EventStore> = logOf(someEvents(3)).log) {
  const { url, app, log } = await appOver(store, AUDITORS);
  const get = (query: string, { headers = {}, ...init }: RequestInit = {}, path = '/events') =>
    fetch(`${url}${path}?${query}`, { ...init, headers: { ...headers, authorization: 'Bearer carol' } });
  return { app, log, get };
}

describe('GET /events?order=descending', () => {
  test.each<[query: string, number: number, message: RegExp | string]>([
    ['order=up', 40004, 'order must be "ascending" or "descending".'],
    ['order=descending&order=descending', 40004, 'order must be given once.'],
    ['before=1', 40004, 'before requires order=descending.'],
    ['order=ascending&before=1', 40004, 'before requires order=descending.'],
    ['order=descending&after=1', 40004, 'after cannot be combined with order=descending.'],
    ['order=descending&limit=-1', 40004, /^limit must be an integer/],
    ...['', ...'x -1 01 m. m.-1 . 0.3 s0123456789ab.3 m.3.1 m.3%0d%0aX:1 6 2 m.6'.split(' ')].map(
      (before): [string, number, RegExp] => [`order=descending&before=${before}`, 40005, /^before is /],
    ),
  ])('%s is %i', async (query, number, message) => {
    const { get } = await serve();
    expect(await refusedWith(number, await get(query))).toMatch(message);
  });

  test('is NDJSON only, as HEAD without the body', async () => {
    const { get } = await serve();
    const query = 'order=descending&limit=1';
    const accept = 'text/event-stream';
    const page = await get(query, { headers: { accept: `${accept}, */*;q=0.1` } });
    expect(page.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
    const message = 'With order=descending, the media type is application/x-ndjson.';
    expect(await refusedWith(40601, await get(query, { headers: { accept } }))).toBe(message);
    const head = await get(query, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect(head.headers.get('link')).toBe(page.headers.get('link'));
  });

  test('stops reading when the client disconnects', async () => {
    const { log, seen } = logOf(someEvents(1_000), 4);
    const reading = Promise.withResolvers<void>();
    const read = Promise.withResolvers<void>();
    onTestFinished(() => read.resolve());
    const readBackwards: EventStore['readBackwards'] = async (range) => {
      reading.resolve();
      await read.promise;
      return log.readBackwards(range);
    };
    const { app, log: logged, get } = await serve({ ...log, readBackwards });
    const leaving = new AbortController();
    const response = get('order=descending&type=None', { signal: leaving.signal });
    response.catch(() => {});
    await reading.promise;
    leaving.abort();
    await expect.poll(logged).toContain('"disconnected":true');
    read.resolve();
    await app.close();
    expect(seen.reads).toBeLessThanOrEqual(1);
  });
});

describe('GET /events/histogram', () => {
  /** The counts of all responses, each of which has the position before which the next one counts. */
  async function histograms(events: RecordedEvent[], filters: Record<string, string>, perRead?: number) {
    const { get } = await serve(logOf(events, perRead).log);
    const all: (BarCounts & { events: number; end: string; before?: string })[] = [];
    for (let before: object | undefined = {}; before; ) {
      const query = `${new URLSearchParams({ ...filters, ...before })}`;
      const response = await get(query, {}, '/events/histogram');
      expect(response.status).toBe(200);
      const counts = (await response.json()) as (typeof all)[number];
      all.push(counts);
      before = counts.before === undefined ? undefined : { before: counts.before };
    }
    return all;
  }

  test('counts the events that match, and those with a time in ranges, with several requests for a long log', async () => {
    const events = someEvents(500);
    for (const filters of [{}, { user: 'bob' }, { type: 'PlantMoved', since: minute(20) }, { id: '3' }]) {
      const filter = new EventFilter(filters, PLANT_STREAMS);
      const matching = events.filter((event) => filter.matches(event));
      const all = await histograms(events, filters, 10);
      expect(all.length).toBe('user' in filters ? 1 : 3);
      expect(all.reduce((sum, { events }) => sum + events, 0)).toBe(matching.length);
      const bars = new Bars();
      for (const counts of all) bars.merge(counts);
      const expected = new Bars();
      const times = matching.map(occurredAt).filter((time) => time !== undefined);
      for (const time of times) expected.add(time);
      expect(bars.counts().bars).toEqual(expected.counts().bars);
      expect(all[0]?.end).toBe('999');
    }
  });

  test.each<[query: string, number: number]>([
    ['limit=1', 40004],
    ['user=mallory', 40004],
    [`since=${minute(2)}&until=${minute(1)}`, 40004],
    ['before=x', 40005],
    ['before=6', 40005],
  ])('%s is %i', async (query, number) => {
    const { get } = await serve();
    await refusedWith(number, await get(query, {}, '/events/histogram'));
  });
});

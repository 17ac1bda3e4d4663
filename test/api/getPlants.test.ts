import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { responseTo } from '@event-sourced/testing/rawHttp';
import { fixedParts, refusedWith } from '@event-sourced/testing/refusal';
import { describe, expect, test } from 'vitest';
import { REACHED_TIMEOUT_MS } from '../../packages/event-log/src/views/waiting.ts';
import { serviceOfFile } from '../support/service.ts';

const { url, as, bearer, events } = await serviceOfFile();
const alice = as('alice');
const bob = as('bob');

/** Alice has many plants, and Bob has one after each tenth of hers. */
const MANY = 1_203;
const names: string[] = [];
for (let i = 1; i <= MANY; i += 100) {
  const ids = Array.from({ length: Math.min(100, MANY + 1 - i) }, (_, n) => i + n);
  await Promise.all(
    ids.flatMap((id) => [
      alice.create(id, { name: `Fern ${id}`, tag: 'indoor' }),
      ...(id % 10 === 0 ? [bob.create(id, { name: `Oak ${id}` })] : []),
    ]),
  );
}
for (const { data } of events('alice')) names.push(data.name);

const namesIn = async (response: Response): Promise<string[]> => {
  expect(response.status).toBe(200);
  return ((await response.json()) as { name: string }[]).map(({ name }) => name);
};
const positionIn = ({ headers }: Response): string => headers.get('log-position') ?? '';

describe('the list', () => {
  test('is empty for a user without plants', async () => {
    const response = await as('nobody').get();
    expect([response.status, await response.text()]).toEqual([200, '[]']);
    expect(response.headers.get('link')).toBeNull();
    expect(positionIn(response)).toBe(positionIn(await alice.get()));
  });

  test('has all pages of plants when no limit is given', async () => {
    const response = await alice.get();
    expect(response.headers.get('link')).toBeNull();
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(await namesIn(response)).toEqual(names);
    expect(new Set(names).size).toBe(MANY);
  });
});

describe('limit', () => {
  test.each([
    [0, 0],
    [1, 1],
    [500, 500],
    [501, 501],
    [1202, 1202],
    [1203, 1203],
    [2147483647, 1203],
  ])('of %i returns the oldest %i', async (limit, count) => {
    const response = await alice.get(`?limit=${limit}`);
    expect(response.headers.has('link')).toBe(limit > 0 && limit < MANY);
    expect(await namesIn(response)).toEqual(names.slice(0, count));
  });

  test.each([
    ...'+5 %2B5 05 00 1e3 5.0 -1 -0 %205 5%20 5%0A 0x5 five Infinity %D9%A5 2147483648'.split(' '),
    ...'99999999999999999999 5,6 null [5]'.split(' '),
    '',
  ])('cannot be %j', async (limit) => {
    const message = await refusedWith(40004, await bob.get(`?limit=${limit}`));
    expect(message).toMatch(/^limit must be .*2147483647/);
  });
});

describe('fields=id,name,tag', () => {
  const FIELDS = 'fields=id,name,tag';
  const LIMITS = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 0n];

  test('returns each plant with its exact ID, as an integer, with any limit and cursor', async () => {
    const grace = as('grace');
    for (const id of LIMITS) await grace.create(id, { name: `Fern ${id}`, ...(id === 0n && { tag: '' }) });
    await as('mallory').create(1, { name: 'Oak' });
    const texts = LIMITS.map((id) => `{"id":${id},"name":"Fern ${id}"${id === 0n ? ',"tag":""' : ''}}`);
    const list = await grace.get(`?${FIELDS}`);
    expect(await list.text()).toBe(`[${texts.join()}]`);
    expect(await (await grace.get()).text()).not.toContain('"id"');
    const page = await grace.get(`?limit=3&${FIELDS}`);
    expect(await page.text()).toBe(`[${texts.slice(0, 3).join()}]`);
    const [, target = ''] = /^<(.*)>; rel="next"$/.exec(page.headers.get('link') ?? '') ?? [];
    const next = await grace.get(new URL(target, page.url).search);
    expect([await next.text(), next.headers.get('link')]).toEqual([`[${texts[3]}]`, null]);
    expect(await (await grace.get(`?limit=0&${FIELDS}`)).text()).toBe('[]');
  });

  test('also returns them in a streamed list', async () => {
    const response = await alice.get(`?${FIELDS}`);
    const plants = (await response.json()) as { id: number; name: string }[];
    expect(plants.map(({ name }) => name)).toEqual(names);
    expect(plants.map(({ id }) => `Fern ${id}`)).toEqual(names);
  });

  test.each([
    '',
    'id',
    'name,tag',
    'id,name',
    'id,name,tag,',
    'id,id,name,tag',
    'ID,name,tag',
    'id,%20name,tag',
  ])('cannot be %j', async (fields) => {
    const response = await bob.get(`?fields=${fields}`);
    expect(await refusedWith(40004, response)).toBe('fields must be "id,name,tag".');
  });

  test('must be given once', async () => {
    expect(await refusedWith(40004, await bob.get(`?${FIELDS}&${FIELDS}`))).toBe(
      'fields must be given once.',
    );
  });
});

describe('a client that keeps in step', () => {
  test.each([
    ['a streamed list', ''],
    ['an empty list', '?after={now}'],
    ['a page that ends with the last plant', `?limit=${MANY}`],
    ['limit=0', '?limit=0'],
  ])('continues with the Log-Position of %s', async (_, query) => {
    const now = positionIn(await alice.get('?limit=0'));
    const last = await alice.get(query.replace('{now}', now));
    expect(last.headers.get('link')).toBeNull();
    await last.text();
    const after = `?after=${positionIn(last)}`;
    expect(await namesIn(await alice.get(after))).toEqual([]);
    await as('mallory').create(1, { name: 'Oak' });
    expect(await namesIn(await alice.get(after))).toEqual([]);
  });
});

describe('following the Links', () => {
  test.each([3, 500, 700])('of pages of %i returns every plant once, and ends', async (limit) => {
    // One plant at a time is a request each: Bob's plants are enough for that.
    const [user, expected] = limit < 500 ? [bob, events('bob').map(({ data }) => data.name)] : [alice, names];
    const pages: string[][] = [];
    for (let query: string | undefined = `?limit=${limit}`; query !== undefined; ) {
      const response = await user.get(query);
      pages.push(await namesIn(response));
      const link: string | null = response.headers.get('link');
      query = /^<plants(\?[^>]*)>; rel="next"$/.exec(link ?? '')?.[1];
      expect(query === undefined).toBe(link === null);
    }
    expect(pages.flat()).toEqual(expected);
    expect(pages.map(({ length }) => length)).toEqual(
      Array.from({ length: Math.ceil(expected.length / limit) }, (_, i) =>
        Math.min(limit, expected.length - i * limit),
      ),
    );
  });

  test('also returns plants created since the first page', async () => {
    const erin = as('erin');
    for (const id of [1, 2]) await erin.create(id, { name: `Fern ${id}` });
    const link = (await erin.get('?limit=1')).headers.get('link') ?? '';
    await erin.create(3, { name: 'Fern 3' });
    const next = new URL(link.slice(1, link.indexOf('>')), url);
    expect(await namesIn(await erin.get(next.search))).toEqual(['Fern 2']);
    next.searchParams.delete('limit');
    expect(await namesIn(await erin.get(next.search))).toEqual(['Fern 2', 'Fern 3']);
  });

  test('with the cursor of another user returns only own plants', async () => {
    const link = (await alice.get('?limit=600')).headers.get('link') ?? '';
    const { search } = new URL(link.slice(1, link.indexOf('>')), url);
    const ofBob = await namesIn(await bob.get(search));
    expect(ofBob.length).toBeGreaterThan(0);
    expect(ofBob.every((name) => name.startsWith('Oak'))).toBe(true);
  });

  test('from the end returns an empty page', async () => {
    const end = positionIn(await alice.get('?limit=0'));
    expect(await namesIn(await alice.get(`?after=${end}`))).toEqual([]);
  });
});

describe('Log-Position', () => {
  test('of a write makes a read include the write', async () => {
    const frank = as('frank');
    for (let id = 1; id <= 20; id++) {
      const position = positionIn(await frank.create(id, { name: `Fern ${id}` }));
      const response = await frank.get('', { 'log-position': position });
      expect((await namesIn(response)).at(-1)).toBe(`Fern ${id}`);
      expect(positionIn(response)).toBe(position);
    }
  });

  test('of an earlier write does not return an earlier list', async () => {
    const heidi = as('heidi');
    const old = positionIn(await heidi.create(1, { name: 'Fern' }));
    await heidi.create(2, { name: 'Moss' });
    expect(await namesIn(await heidi.get('', { 'log-position': old }))).toEqual(['Fern', 'Moss']);
  });
});

describe.each([
  ['Log-Position', (position: string) => alice.get('?limit=1', { 'log-position': position })],
  ['after', (position: string) => alice.get(`?limit=1&after=${encodeURIComponent(position)}`)],
])('%s', (name, get) => {
  const inThisLog = async (text: string) => {
    const [logId = ''] = positionIn(await alice.get('?limit=0')).split('.');
    return text.replace('{logId}', logId);
  };

  test.each([
    ...'. 5 .5 garbage {logId} {logId}. {logId}.-1 {logId}.05 {logId}.1.0'.split(' '),
    ...'{logId}.9223372036854775808'.split(' '),
    '',
    '{logId}.5 5',
  ])('cannot be %j', async (text) => {
    expect(await refusedWith(40005, await get(await inThisLog(text)))).toMatch(`${name} `);
  });

  test('that is not reached in time is 503 with Retry-After', async () => {
    const ahead = await inThisLog('{logId}.999999999');
    stopClock();
    const [refused, waited] = await untilSettled(get(ahead));
    expect(waited).toBeGreaterThanOrEqual(REACHED_TIMEOUT_MS);
    expect(refused.headers.get('retry-after')).toBe('1');
    await refusedWith(50302, refused);
  });

  test('cannot be a position of another log', async () => {
    const of = '00000000-0000-4000-8000-000000000000.1';
    expect(await refusedWith(40005, await get(of))).toBe(`${name} is a position of another log.`);
  });
});

test.each(['limit=5&limit=6', 'limit=5&limit=5', 'limit=5&limit=', 'after=0&after=0'])(
  'a query parameter must be given once: %s',
  async (query) => {
    const message = await refusedWith(40004, await bob.get(`?${query}`));
    expect(message).toBe(`${query.split('=')[0]} must be given once.`);
  },
);

test.each(['', '?limit=0', '?limit=700', '?limit=700&fields=id,name,tag'])(
  'HEAD responds like GET, without the body: /plants%s',
  async (query) => {
    const get = await alice.get(query);
    const head = await alice.request(`/plants${query}`, { method: 'HEAD' });
    expect((await get.text()).length).toBeGreaterThan(1);
    expect(await head.text()).toBe('');
    expect(fixedParts(head)).toEqual(fixedParts(get));
  },
);

test('the body of a GET is ignored', async () => {
  const head = `GET /plants?limit=1 HTTP/1.1\r\nHost: plants\r\nAuthorization: ${await bearer('bob')}\r\n`;
  const body = 'Connection: close\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nnonsense';
  expect(await namesIn(await responseTo(url, head + body))).toHaveLength(1);
});

import fc from 'fast-check';
import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import { BadFilter, EventQuery, type Filter, filterOf, matches } from '../../src/audit/eventFilter.ts';
import { replay, UnknownUser } from '../../src/audit/replay.ts';
import type { Batch, EventLog, Position, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { BadPosition } from '../../src/eventStore/position.ts';

const isQuery = Compile(EventQuery);
const MINUTE = 60_000;
const NOON = Date.UTC(2026, 2, 1, 12);

/** What a filter may ask about an event, said by hand; `at` in minutes after noon. */
type Facts = { user?: string; id?: string; at?: number };

const ALICE = { user: 'alice', id: '1' };
const BOB = { user: 'bob', id: '1' };
const LARGEST = '9223372036854775807';

/** The whole log of these tests: position, stream, type, occurredAt, and what that means. Its clock is not monotone. */
const LOG: [bigint, string, string, unknown, Facts][] = [
  [2n, 'plant-alice/1', 'PlantCreated', '2026-03-01T12:00:00Z', { ...ALICE, at: 0 }],
  [3n, 'plant-bob/1', 'PlantCreated', '2026-03-01T12:02:00.000Z', { ...BOB, at: 2 }],
  [7n, 'plant-alice/1', 'PlantMoved', '2026-03-01T13:01:00+01:00', { ...ALICE, at: 1 }],
  [8n, 'plant-alice/2', 'PlantCreated', '2026-03-01t12:02:00z', { ...ALICE, id: '2', at: 2 }],
  [9n, 'plant-alice/1/1', 'PlantCreated', '2026-03-01T12:02:00Z', { user: 'alice/1', id: '1', at: 2 }],
  [20n, 'plant-bob/1', 'PlantMoved', 'yesterday', BOB],
  [21n, 'plant-bob/-7', 'PlantCreated', undefined, { ...BOB, id: '-7' }],
  [22n, 'plant-alice/01', 'PlantCreated', '2026-03-01T12:03:00Z', { at: 3 }],
  [23n, 'plant-alice', 'PlantCreated', '2026-03-01T12:03:00Z', { at: 3 }],
  [24n, 'garden-alice/1', 'PlantCreated', '2026-03-01T12:03:00Z', { at: 3 }],
  [
    2n ** 62n,
    `plant-bob/${LARGEST}`,
    'PlantCreated',
    '2026-03-01T11:58:00-00:05',
    { ...BOB, id: LARGEST, at: 3 },
  ],
];

const EVENTS: RecordedEvent[] = LOG.map(([position, stream, type, occurredAt], i) => ({
  position,
  stream,
  revision: 0n,
  id: `event ${i}`,
  type,
  data: {},
  metadata: occurredAt === undefined ? null : { occurredAt },
}));
const END = EVENTS.at(-1)?.position as Position;
const positions = (events: readonly RecordedEvent[]): Position[] => events.map(({ position }) => position);

/** A log that gives its events in batches of these sizes, the last one over and over, and knows who is reading. */
function logOf(events: readonly RecordedEvent[], sizes = [3], { late = false, end = END } = {}) {
  const seen = { reading: 0, given: 0 };
  async function* subscribe({
    after,
    signal,
  }: {
    after: Position;
    signal: AbortSignal;
  }): AsyncGenerator<Batch> {
    seen.reading++;
    try {
      const rest = events.filter(({ position }) => position > after);
      for (let turn = 0; rest.length > 0; turn++) {
        const batch = rest.splice(0, sizes[Math.min(turn, sizes.length - 1)]);
        seen.given += batch.length;
        yield { events: batch, caughtUp: rest.length === 0 && !late };
        if (signal.aborted) return;
      }
      yield { events: [], caughtUp: true };
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    } finally {
      seen.reading--;
    }
  }
  const eventAt = async (at: Position) => events.find(({ position }) => position === at);
  return { log: { end: async () => end, eventAt, subscribe } as unknown as EventLog, seen };
}

async function all(log: EventLog, filter: Filter): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  for await (const { events } of replay(log, filter, { signal: new AbortController().signal }))
    found.push(...events);
  return found;
}

const EVERYTHING = filterOf({});

describe('a filter lets through', () => {
  const through = (query: EventQuery): Position[] =>
    positions(EVENTS.filter((event) => matches(filterOf(query), event)));

  test.each<[string, EventQuery, Position[]]>([
    ['everything, when it asks for nothing', {}, positions(EVENTS)],
    ['the plants of a user', { user: 'alice' }, [2n, 7n, 8n]],
    ['the plants of another user', { user: 'bob' }, [3n, 20n, 21n, 2n ** 62n]],
    ['the plants of a user whose name has a slash', { user: 'alice/1' }, [9n]],
    ['nothing of a user whose name only begins so', { user: 'ali' }, []],
    ['nothing of a user whose name is written otherwise', { user: 'Alice' }, []],
    ['the plants of all users with an id', { id: '1' }, [2n, 3n, 7n, 9n, 20n]],
    ['a negative id', { id: '-7' }, [21n]],
    ['the largest id', { id: LARGEST }, [2n ** 62n]],
    ['one plant', { user: 'alice', id: '1' }, [2n, 7n]],
    ['no plant that another user has', { user: 'alice', id: '-7' }, []],
    ['a type', { type: 'PlantMoved' }, [7n, 20n]],
    ['a type of one plant', { user: 'bob', id: '1', type: 'PlantMoved' }, [20n]],
    ['nothing of a type that is written otherwise', { type: 'plantmoved' }, []],
    ['what happened from then on', { since: '2026-03-01T12:02:00Z' }, [3n, 8n, 9n, 22n, 23n, 24n, 2n ** 62n]],
    ['what happened until then', { until: '2026-03-01T12:01:00Z' }, [2n, 7n]],
    ['a moment', { since: '2026-03-01T12:01:00Z', until: '2026-03-01T12:01:00Z' }, [7n]],
    [
      'a moment by another clock',
      { since: '2026-03-01T06:31:00-05:30', until: '2026-03-01T12:01:00z' },
      [7n],
    ],
    ['nothing of the millisecond before', { until: '2026-03-01T11:59:59.999Z' }, []],
    ['nothing of the millisecond after', { since: '2026-03-01T12:03:00.001Z' }, []],
    [
      'nothing without a time, however wide it is',
      { since: '0000-01-01T00:00:00Z', user: 'bob' },
      [3n, 2n ** 62n],
    ],
    ['nothing without a time, however late it ends', { until: '9999-12-31T23:59:59Z', id: '-7' }, []],
  ])('%s', (_, query, expected) => {
    expect(through(query)).toEqual(expected);
  });
});

describe('a replay', () => {
  const user = fc.constantFrom('alice', 'bob', 'alice/1');
  const minute = fc.integer({ min: -1, max: 4 });
  const offset = fc.constantFrom('Z', 'z', '+00:00', '-00:00', '+05:30', '-11:00');
  const time = fc.tuple(minute, offset).map(([at, zone]) => {
    const [, sign = '+', hours = 0, minutes = 0] = /^([+-])(\d\d):(\d\d)$/.exec(zone) ?? [];
    const ahead = (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1);
    return { at, text: new Date(NOON + (at + ahead) * MINUTE).toISOString().replace('Z', zone) };
  });
  const question = fc.record(
    {
      after: fc.constantFrom(0n, ...positions(EVENTS)),
      user,
      id: fc.constantFrom('1', '2', '-7', LARGEST, '3'),
      type: fc.constantFrom('PlantCreated', 'PlantMoved', 'PlantDied'),
      since: time,
      until: time,
      limit: fc.integer({ min: 0, max: EVENTS.length + 1 }),
    },
    { requiredKeys: [] },
  );
  const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 });

  test('of any question, in whatever batches, gives what a look at each event gives', async () => {
    await fc.assert(
      fc.asyncProperty(question, sizes, fc.boolean(), async (asked, batches, late) => {
        const { after = 0n, since, until, limit = EVENTS.length } = asked;
        const expected: Position[] = [];
        for (const [position, , type, , { user, id, at }] of LOG) {
          const isFound =
            position > after &&
            (asked.user === undefined || asked.user === user) &&
            (asked.id === undefined || asked.id === id) &&
            (asked.type === undefined || asked.type === type) &&
            (since === undefined || (at !== undefined && at >= since.at)) &&
            (until === undefined || (at !== undefined && at <= until.at));
          if (isFound && expected.length < limit) expected.push(position);
        }
        const query: EventQuery = {
          ...asked,
          ...{ after: `${after}`, limit: `${limit}`, since: since?.text, until: until?.text },
        } as EventQuery;
        for (const part of ['since', 'until'] as const) if (!asked[part]) delete query[part];
        expect(isQuery.Check(query)).toBe(true);
        if (since && until && since.at > until.at) {
          expect(() => filterOf(query)).toThrow(BadFilter);
          return;
        }
        const { log, seen } = logOf(EVENTS, batches, { late });
        expect(positions(await all(log, filterOf(query)))).toEqual(expected);
        expect(seen.reading).toBe(0);
      }),
      { numRuns: 1_000 },
    );
  });

  test('ends where the log ended when it began, however much is appended meanwhile', async () => {
    const appended = EVENTS.map((event) => ({ ...event, position: event.position + END }));
    for (const size of [1, 3, 5, 100]) {
      const { log, seen } = logOf([...EVENTS, ...appended], [size]);
      expect(positions(await all(log, EVERYTHING))).toEqual(positions(EVENTS));
      expect(seen.given).toBeLessThan(EVENTS.length + size);
    }
  });

  test('ends although the last event of the log is none that is subscribed to', async () => {
    const { log } = logOf(EVENTS, [3], { end: END + 5n });
    expect(positions(await all(log, EVERYTHING))).toEqual(positions(EVENTS));
  });

  test('reads no further than its limit', async () => {
    const { log, seen } = logOf(EVENTS, [2]);
    expect(positions(await all(log, filterOf({ type: 'PlantMoved', limit: '1' })))).toEqual([7n]);
    expect(seen).toEqual({ reading: 0, given: 4 });
  });

  test('of nothing reads nothing', async () => {
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, filterOf({ limit: '0' }))).toEqual([]);
    expect(seen).toEqual({ reading: 0, given: 0 });
  });

  test('of an empty log is empty', async () => {
    const { log } = logOf([], [1], { end: 0n });
    expect(await all(log, EVERYTHING)).toEqual([]);
    expect(await all(log, filterOf({ type: 'PlantCreated', since: '2026-03-01T12:00:00Z' }))).toEqual([]);
  });

  test('may begin at the end of the log, but not beyond', async () => {
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, filterOf({ after: `${END}` }))).toEqual([]);
    const message = `after is beyond the end of the log, which is at ${END}.`;
    await expect(all(log, filterOf({ after: `${END + 1n}` }))).rejects.toThrow(new BadPosition(message));
    expect(seen.given).toBe(0);
  });

  test('gives up when it is told to, and lets go of the log', async () => {
    const { log, seen } = logOf(EVENTS, [1]);
    const stop = new AbortController();
    const found: Position[] = [];
    for await (const { events } of replay(log, EVERYTHING, { signal: stop.signal })) {
      found.push(...positions(events));
      if (found.length === 3) stop.abort();
    }
    expect(found).toEqual([2n, 3n, 7n]);
    expect(seen.reading).toBe(0);
  });
});

describe('of a user whom the log does not know', () => {
  const NOBODY = new UnknownUser('nobody');
  const WAYS: [string, Parameters<typeof logOf>][] = [
    ['in one batch', [EVENTS, [100]]],
    ['in many batches', [EVENTS, [2]]],
    ['whose last batch does not say yet that it is the last', [EVENTS, [100], { late: true }]],
    [
      'to which others append meanwhile',
      [
        [...EVENTS, { ...(EVENTS[0] as RecordedEvent), position: END + 1n }],
        [11, 1],
      ],
    ],
    ['without any event', [[], [1], { end: 0n }]],
  ];

  test.each(WAYS)('a replay of a log %s is refused', async (_, given) => {
    await expect(all(logOf(...given).log, filterOf({ user: 'nobody' }))).rejects.toThrow(NOBODY);
    await expect(
      all(logOf(...given).log, filterOf({ user: 'nobody', type: 'PlantMoved', id: '1' })),
    ).rejects.toThrow(NOBODY);
  });

  test('nothing can be said after a position', async () => {
    expect(await all(logOf(EVENTS).log, filterOf({ user: 'nobody', after: '2' }))).toEqual([]);
  });

  test('is not somebody of whom nothing fits', async () => {
    expect(await all(logOf(EVENTS).log, filterOf({ user: 'alice/1', type: 'PlantMoved' }))).toEqual([]);
    expect(await all(logOf(EVENTS).log, filterOf({ user: 'bob', id: '2' }))).toEqual([]);
  });

  test('is one whose name stands in no stream of a plant', async () => {
    const [garden] = EVENTS.slice(9);
    const { log } = logOf([garden as RecordedEvent], [1], { end: 24n });
    await expect(all(log, filterOf({ user: 'alice' }))).rejects.toThrow(new UnknownUser('alice'));
  });
});

describe('a question', () => {
  test('with every part becomes a filter', () => {
    const query = {
      after: '9223372036854775807',
      user: 'alice',
      id: '-9223372036854775808',
      type: 'PlantCreated',
      since: '2026-03-01T13:00:00+01:00',
      until: '2026-03-01T12:00:00.5Z',
      limit: '2147483647',
    };
    expect(filterOf(query)).toStrictEqual({
      after: 9223372036854775807n,
      user: 'alice',
      id: '-9223372036854775808',
      type: 'PlantCreated',
      since: NOON,
      until: NOON + 500,
      limit: 2147483647,
    });
  });

  test('without any begins at the start and has no end', () => {
    expect(EVERYTHING).toStrictEqual({ after: 0n, limit: Number.POSITIVE_INFINITY });
  });

  test('whose since is later than its until is refused, and by the names they were given', () => {
    const query = { since: '2026-03-01T12:00:00.001Z', until: '2026-03-01T13:00:00+01:00' };
    expect(() => filterOf(query)).toThrow(new BadFilter('since must not be later than until.'));
    expect(() => filterOf(query, (part) => `--${part}`)).toThrow('--since must not be later than --until.');
    expect(() => filterOf({ ...query, since: '2026-03-01T12:00:00Z' })).not.toThrow();
  });

  test.each([
    '',
    '-1',
    '+1',
    '01',
    '1.0',
    '1e3',
    ' 1',
    '1 ',
    'x',
    '٥',
    '9223372036854775808',
    '99999999999999999999',
  ])('whose position is %j is refused, and by the name it was given', (after) => {
    expect(() => filterOf({ after })).toThrow(new BadPosition('after is not a log position.'));
    expect(() => filterOf({ after }, () => 'Last-Event-ID')).toThrow('Last-Event-ID is not a log position.');
  });
});

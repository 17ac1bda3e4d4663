import fc from 'fast-check';
import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import { BadFilter, EventQuery, matches, parseFilter } from '../../src/audit/eventFilter.ts';
import { replay, UnknownUser } from '../../src/audit/replay.ts';
import type { EventLog, Position, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { BadPosition } from '../../src/eventStore/position.ts';

const isQuery = Compile(EventQuery);
const MINUTE = 60_000;
const NOON = Date.UTC(2026, 2, 1, 12);

/** The properties of an event that a filter checks; `at` in minutes after noon. */
type Facts = { user?: string; id?: string; at?: number };

const ALICE = { user: 'alice', id: '1' };
const BOB = { user: 'bob', id: '1' };
const LARGEST = '9223372036854775807';
const MAX = { user: 'bob', id: LARGEST };

/**
 * The whole log of these tests: position, stream, type, occurredAt, and the properties. Its clock is not
 * monotonic.
 */
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
  [2n ** 62n, `plant-bob/${LARGEST}`, 'PlantCreated', '2026-03-01T11:58:00-00:05', { ...MAX, at: 3 }],
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

/** A log with pages of these sizes, the last one repeated; with `late`, the last page has isEnd false. */
function logOf(events: readonly RecordedEvent[], sizes = [3], { late = false, end = END } = {}) {
  const seen = { given: 0 };
  let pages = 0;
  const log: Partial<EventLog> = {
    lastPosition: async () => end,
    readEvent: async (at) => events.find(({ position }) => position === at),
    readAll: async ({ after }) => {
      const rest = events.filter(({ position }) => position > after);
      const page = rest.slice(0, sizes[Math.min(pages++, sizes.length - 1)]);
      seen.given += page.length;
      const isEnd = page.length === rest.length && (!late || rest.length === 0);
      const last = page.at(-1)?.position ?? after;
      return { events: page, position: isEnd && last < end ? end : last, isEnd };
    },
  };
  return { log: log as EventLog, seen };
}

const { signal } = new AbortController();

/** The positions of the replayed events. */
async function all(log: EventLog, query: EventQuery = {}): Promise<Position[]> {
  const found: Position[] = [];
  for await (const { events } of replay(log, parseFilter(query), { signal }))
    found.push(...positions(events));
  return found;
}

describe('a filter accepts', () => {
  const accepted = (query: EventQuery): Position[] =>
    positions(EVENTS.filter((event) => matches(parseFilter(query), event)));

  test.each<[string, EventQuery, Position[]]>([
    ['all events, without parameters', {}, positions(EVENTS)],
    ['the plants of a user', { user: 'alice' }, [2n, 7n, 8n]],
    ['the plants of another user', { user: 'bob' }, [3n, 20n, 21n, 2n ** 62n]],
    ['the plants of a user whose name has a slash', { user: 'alice/1' }, [9n]],
    ['nothing for a prefix of a user name', { user: 'ali' }, []],
    ['nothing for a user name in another case', { user: 'Alice' }, []],
    ['the plants of all users with an id', { id: '1' }, [2n, 3n, 7n, 9n, 20n]],
    ['a negative id', { id: '-7' }, [21n]],
    ['the largest id', { id: LARGEST }, [2n ** 62n]],
    ['one plant', { user: 'alice', id: '1' }, [2n, 7n]],
    ['no plant of another user with the ID', { user: 'alice', id: '-7' }, []],
    ['a type', { type: 'PlantMoved' }, [7n, 20n]],
    ['a type of one plant', { user: 'bob', id: '1', type: 'PlantMoved' }, [20n]],
    ['nothing for a type in another case', { type: 'plantmoved' }, []],
    ['events since a time', { since: '2026-03-01T12:02:00Z' }, [3n, 8n, 9n, 22n, 23n, 24n, 2n ** 62n]],
    ['events until a time', { until: '2026-03-01T12:01:00Z' }, [2n, 7n]],
    ['events at a time', { since: '2026-03-01T12:01:00Z', until: '2026-03-01T12:01:00Z' }, [7n]],
    [
      'events at a time with another offset',
      { since: '2026-03-01T06:31:00-05:30', until: '2026-03-01T12:01:00z' },
      [7n],
    ],
    ['no events one millisecond earlier', { until: '2026-03-01T11:59:59.999Z' }, []],
    ['no events one millisecond later', { since: '2026-03-01T12:03:00.001Z' }, []],
    ['no events without a time for since', { since: '0000-01-01T00:00:00Z', user: 'bob' }, [3n, 2n ** 62n]],
    ['no events without a time for until', { until: '9999-12-31T23:59:59Z', id: '-7' }, []],
  ])('%s', (_, query, expected) => {
    expect(accepted(query)).toEqual(expected);
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
  const anyQuery = fc.record(
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

  test('for any query, in any batches, returns exactly the matching events', async () => {
    await fc.assert(
      fc.asyncProperty(anyQuery, sizes, fc.boolean(), async (selected, batches, late) => {
        const { after = 0n, since, until, limit = EVENTS.length } = selected;
        const expected: Position[] = [];
        for (const [position, , type, , { user, id, at }] of LOG) {
          const isFound =
            position > after &&
            (selected.user === undefined || selected.user === user) &&
            (selected.id === undefined || selected.id === id) &&
            (selected.type === undefined || selected.type === type) &&
            (since === undefined || (at !== undefined && at >= since.at)) &&
            (until === undefined || (at !== undefined && at <= until.at));
          if (isFound && expected.length < limit) expected.push(position);
        }
        const query: EventQuery = {
          ...selected,
          ...{ after: `${after}`, limit: `${limit}`, since: since?.text, until: until?.text },
        } as EventQuery;
        for (const part of ['since', 'until'] as const) if (!selected[part]) delete query[part];
        expect(isQuery.Check(query)).toBe(true);
        if (since && until && since.at > until.at) {
          expect(() => parseFilter(query)).toThrow(BadFilter);
          return;
        }
        const { log } = logOf(EVENTS, batches, { late });
        expect(await all(log, query)).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  test('ends at the end of the log at its start, whatever is appended meanwhile', async () => {
    const appended = EVENTS.map((event) => ({ ...event, position: event.position + END }));
    for (const size of [1, 3, 5, 100]) {
      const { log, seen } = logOf([...EVENTS, ...appended], [size]);
      expect(await all(log)).toEqual(positions(EVENTS));
      expect(seen.given).toBeLessThan(EVENTS.length + size);
    }
  });

  test('ends although the last event of the log is in another category', async () => {
    const { log } = logOf(EVENTS, [3], { end: END + 5n });
    expect(await all(log)).toEqual(positions(EVENTS));
  });

  test('reads no further than its limit', async () => {
    const { log, seen } = logOf(EVENTS, [2]);
    expect(await all(log, { type: 'PlantMoved', limit: '1' })).toEqual([7n]);
    expect(seen).toEqual({ given: 4 });
  });

  test('with limit 0 reads nothing', async () => {
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, { limit: '0' })).toEqual([]);
    expect(seen).toEqual({ given: 0 });
  });

  test('of an empty log is empty', async () => {
    const { log } = logOf([], [1], { end: 0n });
    for (const query of [{}, { type: 'PlantCreated', since: '2026-03-01T12:00:00Z' }])
      expect(await all(log, query)).toEqual([]);
  });

  test('can start at the end of the log, but not beyond', async () => {
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, { after: `${END}` })).toEqual([]);
    const message = `after is beyond the end of the log, which is at ${END}.`;
    await expect(all(log, { after: `${END + 1n}` })).rejects.toThrow(new BadPosition(message));
    expect(seen.given).toBe(0);
  });

  test('ends when it is aborted', async () => {
    const { log } = logOf(EVENTS, [1]);
    const stop = new AbortController();
    const found: Position[] = [];
    for await (const { events } of replay(log, parseFilter({}), { signal: stop.signal })) {
      found.push(...positions(events));
      if (found.length === 3) stop.abort();
    }
    expect(found).toEqual([2n, 3n, 7n]);
  });
});

describe('for an unknown user', () => {
  const late = { ...(EVENTS[0] as RecordedEvent), position: END + 1n };
  test.each<[string, () => { log: EventLog }]>([
    ['in one batch', () => logOf(EVENTS, [100])],
    ['in many batches', () => logOf(EVENTS, [2])],
    ['whose last batch is not marked as the end', () => logOf(EVENTS, [100], { late: true })],
    ['with concurrent appends', () => logOf([...EVENTS, late], [11, 1])],
    ['without events', () => logOf([], [1], { end: 0n })],
  ])('a replay of a log %s fails with UnknownUser', async (_, open) => {
    for (const query of [{ user: 'nobody' }, { user: 'nobody', type: 'PlantMoved', id: '1' }])
      await expect(all(open().log, query)).rejects.toThrow(new UnknownUser('nobody'));
  });

  test('a replay after a position is empty', async () => {
    expect(await all(logOf(EVENTS).log, { user: 'nobody', after: '2' })).toEqual([]);
  });

  test('a known user without matching events is accepted', async () => {
    expect(await all(logOf(EVENTS).log, { user: 'alice/1', type: 'PlantMoved' })).toEqual([]);
    expect(await all(logOf(EVENTS).log, { user: 'bob', id: '2' })).toEqual([]);
  });

  test('only streams of plants are considered', async () => {
    const [otherCategory] = EVENTS.slice(9);
    const { log } = logOf([otherCategory as RecordedEvent], [1], { end: 24n });
    await expect(all(log, { user: 'alice' })).rejects.toThrow(new UnknownUser('alice'));
  });
});

describe('parseFilter', () => {
  test('parses all parameters', () => {
    const query = {
      after: '9223372036854775807',
      user: 'alice',
      id: '-9223372036854775808',
      type: 'PlantCreated',
      since: '2026-03-01T13:00:00+01:00',
      until: '2026-03-01T12:00:00.5Z',
      limit: '2147483647',
    };
    expect(parseFilter(query)).toStrictEqual({
      after: 9223372036854775807n,
      user: 'alice',
      id: '-9223372036854775808',
      type: 'PlantCreated',
      since: NOON,
      until: NOON + 500,
      limit: 2147483647,
    });
  });

  test('without parameters starts at the beginning, without a limit', () => {
    expect(parseFilter({})).toStrictEqual({ after: 0n, limit: Number.POSITIVE_INFINITY });
  });

  test('excludes events before since and after until, also by less than a millisecond', () => {
    const times = { since: '2026-03-01T12:00:00.0001Z', until: '2026-03-01T12:00:00.4999Z' };
    expect(parseFilter(times)).toMatchObject({ since: NOON + 1, until: NOON + 499 });
    const same = { since: times.since, until: times.since };
    expect(parseFilter(same)).toMatchObject({ since: NOON + 1, until: NOON });
  });

  test('rejects since later than until, with the given names of the parameters', () => {
    const query = { since: '2026-03-01T12:00:00.001Z', until: '2026-03-01T13:00:00+01:00' };
    expect(() => parseFilter(query)).toThrow(new BadFilter('since must not be later than until.'));
    expect(() => parseFilter(query, (part) => `--${part}`)).toThrow(
      '--since must not be later than --until.',
    );
    expect(() => parseFilter({ ...query, since: '2026-03-01T12:00:00Z' })).not.toThrow();
  });

  const NOT_CANONICAL = ['', '-1', '+1', '01', '1.0', '1e3', ' 1', '1 ', 'x', '٥'];
  test.each([...NOT_CANONICAL, '9223372036854775808', '99999999999999999999'])(
    'rejects the position %j, with the given name of the parameter',
    (after) => {
      expect(() => parseFilter({ after })).toThrow(new BadPosition('after is not a log position.'));
      expect(() => parseFilter({ after }, () => 'Last-Event-ID')).toThrow(
        'Last-Event-ID is not a log position.',
      );
    },
  );
});

import { Compile } from 'typebox/compile';
import { describe, expect, test } from 'vitest';
import type { Position, RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { BadPosition } from '../../packages/event-log/src/position.ts';
import {
  BadFilter,
  EventFilter,
  type EventQuery,
  eventQuery,
} from '../../packages/event-log/src/replay/eventFilter.ts';
import { PLANT_STREAMS } from '../../src/plants/stream.ts';

const LARGEST = '9223372036854775807';

/** Position, stream, type and occurredAt of events. Their clock is not monotonic. */
const EVENTS: RecordedEvent[] = (
  [
    [2n, 'plant-alice/1', 'PlantCreated', '2026-03-01T12:00:00Z'],
    [3n, 'plant-bob/1', 'PlantCreated', '2026-03-01T12:02:00.000Z'],
    [7n, 'plant-alice/1', 'PlantMoved', '2026-03-01T13:01:00+01:00'],
    [8n, 'plant-alice/2', 'PlantCreated', '2026-03-01t12:02:00z'],
    [9n, 'plant-alice/1/1', 'PlantCreated', '2026-03-01T12:02:00Z'],
    [20n, 'plant-bob/1', 'PlantMoved', 'yesterday'],
    [21n, 'plant-bob/-7', 'PlantCreated', undefined],
    [22n, 'plant-alice/01', 'PlantCreated', '2026-03-01T12:03:00Z'],
    [23n, 'plant-alice', 'PlantCreated', '2026-03-01T12:03:00Z'],
    [24n, 'garden-alice/1', 'PlantCreated', '2026-03-01T12:03:00Z'],
    [30n, `plant-bob/${LARGEST}`, 'PlantCreated', '2026-03-01T11:58:00-00:05'],
  ] as const
).map(([position, stream, type, occurredAt]) => ({
  ...{ position, stream, type, revision: 0n, id: `${position}`, data: {} },
  metadata: occurredAt === undefined ? null : { occurredAt },
}));

const filterOf = (query: EventQuery, name?: (filter: string) => string) =>
  new EventFilter(query, PLANT_STREAMS, name);

test.each<[EventQuery, Position[]]>([
  [{}, EVENTS.map(({ position }) => position)],
  [{ user: 'alice' }, [2n, 7n, 8n]],
  [{ user: 'bob' }, [3n, 20n, 21n, 30n]],
  [{ user: 'alice/1' }, [9n]],
  [{ user: 'ali' }, []],
  [{ user: 'Alice' }, []],
  [{ id: '1' }, [2n, 3n, 7n, 9n, 20n]],
  [{ id: '-7' }, [21n]],
  [{ id: LARGEST }, [30n]],
  [{ user: 'alice', id: '1' }, [2n, 7n]],
  [{ user: 'alice', id: '-7' }, []],
  [{ type: 'PlantMoved' }, [7n, 20n]],
  [{ user: 'bob', id: '1', type: 'PlantMoved' }, [20n]],
  [{ type: 'plantmoved' }, []],
  [{ since: '2026-03-01T12:02:00Z' }, [3n, 8n, 9n, 22n, 23n, 24n, 30n]],
  [{ until: '2026-03-01T12:01:00Z' }, [2n, 7n]],
  [{ since: '2026-03-01T12:01:00Z', until: '2026-03-01T12:01:00Z' }, [7n]],
  [{ since: '2026-03-01T06:31:00-05:30', until: '2026-03-01T12:01:00z' }, [7n]],
  [{ until: '2026-03-01T11:59:59.999Z' }, []],
  [{ since: '2026-03-01T12:03:00.001Z' }, []],
  // Also by less than a millisecond.
  [{ since: '2026-03-01T12:03:00.0001Z' }, []],
  [{ until: '2026-03-01T12:00:00.0009Z' }, [2n]],
  // Events without a time match neither.
  [{ since: '0000-01-01T00:00:00Z', user: 'bob' }, [3n, 30n]],
  [{ until: '9999-12-31T23:59:59Z', id: '-7' }, []],
])('the filter %j matches its events', (query, expected) => {
  const filter = filterOf(query);
  const matching = EVENTS.filter((event) => filter.matches(event));
  expect(matching.map(({ position }) => position)).toEqual(expected);
  for (const { stream } of matching) expect(stream.startsWith(filter.prefix ?? '')).toBe(true);
});

test('a filter starts at the beginning, without a limit, unless the query has others', () => {
  expect(filterOf({})).toMatchObject({ after: 0n, limit: Number.POSITIVE_INFINITY });
  const query = { after: LARGEST, limit: '2147483647' };
  expect(filterOf(query)).toMatchObject({ after: 2n ** 63n - 1n, limit: 2_147_483_647 });
});

test('since later than until is rejected, with the names of the parameters', () => {
  const query = { since: '2026-03-01T12:00:00.001Z', until: '2026-03-01T13:00:00+01:00' };
  expect(() => filterOf(query)).toThrow(new BadFilter('since', 'must not be later than until'));
  expect(() => filterOf(query, (part) => `--${part}`)).toThrow('--since must not be later than --until.');
  expect(() => filterOf({ ...query, since: '2026-03-01T12:00:00Z' })).not.toThrow();
});

describe('an invalid value is rejected:', () => {
  const isQuery = Compile(eventQuery(PLANT_STREAMS));
  const NOT_CANONICAL = ['', '-1', '+1', '01', '1.0', '1e3', ' 1', '1 ', 'x', '٥'];
  const HALF = '\ud83c';

  test.each([...NOT_CANONICAL, '9223372036854775808', HALF])('after %j', (after) => {
    expect(() => filterOf({ after })).toThrow(new BadPosition('after is not a log position.'));
    expect(() => filterOf({ after }, () => 'Last-Event-ID')).toThrow('Last-Event-ID is not a log position.');
  });

  test.each<[name: keyof EventQuery, valid: string, invalid: string[]]>([
    ['user', 'x'.repeat(255), ['', 'x'.repeat(256), '\0', 'alice\n', '\x7f', '\x85', HALF]],
    [
      'id',
      '-9223372036854775808',
      ['', '+1', '01', '-0', '1.0', '1e3', 'x', ' 1', '9223372036854775808', HALF],
    ],
    ['type', '\0', ['']],
    ['since', '2026-03-01T12:00:00+01:00', ['', 'yesterday', '2026-03-01', '2026-02-29T00:00:00Z', HALF]],
    ['until', '2026-03-01t12:00:00z', ['', '2026-03-01T12:00:00', '2026-03-01T12:00:00Z\0', '1772366400000']],
    ['limit', '2147483647', [...NOT_CANONICAL, '2147483648', '99999999999999999999']],
  ])('%s', (name, valid, invalid) => {
    expect(isQuery.Check({ [name]: valid })).toBe(true);
    for (const value of [...invalid, [valid, valid]])
      expect(isQuery.Check({ [name]: value }), JSON.stringify(value)).toBe(false);
  });
});

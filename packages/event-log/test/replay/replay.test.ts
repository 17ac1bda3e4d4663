import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventLog, Position, RecordedEvent } from '../../src/eventStore.ts';
import { BadPosition } from '../../src/position.ts';
import { EventFilter, type EventQuery, type StreamNames } from '../../src/replay/eventFilter.ts';
import { replay, UnknownUser } from '../../src/replay/replay.ts';

const EVENTS: RecordedEvent[] = (
  [
    [2n, 'plant-alice/1', 'PlantCreated'],
    [3n, 'plant-bob/1', 'PlantCreated'],
    [7n, 'plant-alice/1', 'PlantMoved'],
    [8n, 'plant-alice/2', 'PlantCreated'],
    [20n, 'plant-bob/1', 'PlantMoved'],
    [24n, 'garden-dave/1', 'PlantCreated'],
    [2n ** 62n, 'plant-bob/2', 'PlantCreated'],
  ] as const
).map(([position, stream, type]) => ({
  ...{ position, stream, type, revision: 0n, id: `${position}`, data: {}, metadata: {} },
}));
const END = 2n ** 62n;
const positions = (events: readonly RecordedEvent[]): Position[] => events.map(({ position }) => position);

/** A log with pages of these sizes, the last one repeated; with `late`, the last page has isEnd false. */
function logOf(events: readonly RecordedEvent[], sizes = [3], { late = false, end = END } = {}) {
  const seen = { read: 0 };
  let pages = 0;
  const log: Partial<EventLog> = {
    lastPosition: async () => end,
    readEvent: async (at) => events.find(({ position }) => position === at),
    readAll: async ({ after }) => {
      const rest = events.filter(({ position }) => position > after);
      const page = rest.slice(0, sizes[Math.min(pages++, sizes.length - 1)]);
      seen.read += page.length;
      const isEnd = page.length === rest.length && (!late || rest.length === 0);
      const last = page.at(-1)?.position ?? after;
      return { events: page, position: isEnd && last < end ? end : last, isEnd };
    },
  };
  return { log: log as EventLog, seen };
}

/** The streams of users' things: plant-USER/ID. */
const STREAMS: StreamNames = {
  parse: (stream) => {
    const [, user = '', id = ''] = /^plant-(.+)\/(\d+)$/.exec(stream) ?? [];
    return user ? { user, id } : undefined;
  },
  prefix: (user, id = '') => `plant-${user}/${id}`,
  noun: 'thing',
  user: { isValid: () => true, rule: '' },
  id: { isValid: () => true, rule: '' },
};
const filterOf = (query: EventQuery) => new EventFilter(query, STREAMS);

/** The positions of the replayed events. */
async function all(log: EventLog, query: EventQuery = {}): Promise<Position[]> {
  const batches = await Array.fromAsync(
    replay(log, filterOf(query), { signal: new AbortController().signal }),
  );
  return batches.flatMap(({ events }) => positions(events));
}

describe('a replay', () => {
  test('in any batches returns the matching events after a position, up to a limit', async () => {
    const query = fc.record(
      {
        after: fc.constantFrom(0n, ...positions(EVENTS)),
        user: fc.constantFrom('alice', 'bob'),
        type: fc.constantFrom('PlantCreated', 'PlantMoved', 'PlantDied'),
        limit: fc.nat({ max: EVENTS.length + 1 }),
      },
      { requiredKeys: ['after', 'limit'] },
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(query, sizes, fc.boolean(), async ({ after, limit, ...facts }, batches, late) => {
        const filter = filterOf(facts);
        const expected = EVENTS.filter((event) => event.position > after && filter.matches(event));
        const { log } = logOf(EVENTS, batches, { late });
        expect(await all(log, { ...facts, after: `${after}`, limit: `${limit}` })).toEqual(
          positions(expected.slice(0, limit)),
        );
      }),
      { numRuns: 200 },
    );
  });

  test('ends at the end of the log at its start, whatever is appended meanwhile', async () => {
    const appended = EVENTS.map((event) => ({ ...event, position: event.position + END }));
    for (const size of [1, 3, 5, 100]) {
      const { log, seen } = logOf([...EVENTS, ...appended], [size]);
      expect(await all(log)).toEqual(positions(EVENTS));
      expect(seen.read).toBeLessThan(EVENTS.length + size);
    }
  });

  test('ends although the last event of the log is in another category', async () => {
    const { log } = logOf(EVENTS, [3], { end: END + 5n });
    expect(await all(log)).toEqual(positions(EVENTS));
  });

  test.each<[EventQuery, number]>([
    [{ type: 'PlantMoved', limit: '1' }, 4],
    [{ limit: '0' }, 0],
  ])('with %j reads no further than its limit', async (query, read) => {
    const { log, seen } = logOf(EVENTS, [2]);
    expect(await all(log, query)).toHaveLength(Number(query.limit));
    expect(seen).toEqual({ read });
  });

  test('can start at the end of the log, also of an empty one, but not beyond', async () => {
    expect(await all(logOf([], [1], { end: 0n }).log)).toEqual([]);
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, { after: `${END}` })).toEqual([]);
    const message = `after is beyond the end of the log, which is at ${END}.`;
    await expect(all(log, { after: `${END + 1n}` })).rejects.toThrow(new BadPosition(message));
    expect(seen.read).toBe(0);
  });
});

describe('for an unknown user', () => {
  const late = { ...(EVENTS[0] as RecordedEvent), position: END + 1n };
  test.each<[string, () => { log: EventLog }]>([
    ['in one batch', () => logOf(EVENTS, [100])],
    ['in many batches', () => logOf(EVENTS, [2])],
    ['whose last batch is not marked as the end', () => logOf(EVENTS, [100], { late: true })],
    ['with concurrent appends', () => logOf([...EVENTS, late], [EVENTS.length, 1])],
    ['without events', () => logOf([], [1], { end: 0n })],
  ])('a replay of a log %s fails with UnknownUser', async (_, open) => {
    for (const query of [{ user: 'dave' }, { user: 'nobody', type: 'PlantMoved', id: '1' }])
      await expect(all(open().log, query)).rejects.toThrow(new UnknownUser(query.user));
  });

  test('a replay after a position is empty, as for a known user without matching events', async () => {
    expect(await all(logOf(EVENTS).log, { user: 'nobody', after: '2' })).toEqual([]);
    expect(await all(logOf(EVENTS).log, { user: 'bob', id: '3' })).toEqual([]);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventLog, Position, RecordedEvent } from '../../src/eventStore.ts';
import { BadPosition } from '../../src/position.ts';
import { EventFilter, type EventQuery, type StreamNames, UnknownUser } from '../../src/replay/eventFilter.ts';
import { replay } from '../../src/replay/replay.ts';

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
    readBackwards: async ({ before = end + 1n, limit, prefix = '' }) => {
      const earlier = events.filter(({ position, stream }) => position < before && stream.startsWith(prefix));
      const page = earlier.toReversed().slice(0, limit);
      return { events: page, position: page.at(-1)?.position ?? before, isEnd: page.length < limit };
    },
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
  all: 'plant-',
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

  test('ends at the end that the log had at the start, even if events are appended meanwhile', async () => {
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

  test('can start at the end of a log, even an empty one, but not beyond', async () => {
    expect(await all(logOf([], [1], { end: 0n }).log)).toEqual([]);
    const { log, seen } = logOf(EVENTS);
    expect(await all(log, { after: `${END}` })).toEqual([]);
    const message = `after is beyond the end of the log, which is at ${END}.`;
    await expect(all(log, { after: `${END + 1n}` })).rejects.toThrow(new BadPosition(message));
    expect(seen.read).toBe(0);
  });
});

test.each([{}, { after: '2' }, { limit: '0' }, { id: '1', type: 'PlantMoved' }])(
  'with %j, an unknown user is an error, and a known user without matching events is not',
  async (query) => {
    for (const user of ['dave', 'mallory', 'b'])
      await expect(all(logOf(EVENTS).log, { ...query, user })).rejects.toThrow(new UnknownUser(user));
    expect(await all(logOf(EVENTS).log, { ...query, user: 'bob', type: 'None' })).toEqual([]);
  },
);

test('a user is distinguished from a user whose name is a prefix', async () => {
  const ofOther = { ...(EVENTS[0] as RecordedEvent), stream: 'plant-b/c/1' };
  const many = Array.from({ length: 1_200 }, (_, i) => ({ ...ofOther, position: BigInt(i + 1) }));
  for (const events of [[ofOther], many]) {
    await expect(all(logOf(events).log, { user: 'b' })).rejects.toThrow(UnknownUser);
    expect(await all(logOf(events, [2_000], { end: 1_200n }).log, { user: 'b/c', id: '2' })).toEqual([]);
  }
});

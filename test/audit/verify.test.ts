import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { ViewComparison } from '../../projections/viewComparison.ts';
import { verifyLog } from '../../src/audit/verify.ts';
import { copyLog } from '../../src/copy/copyLog.ts';
import {
  type EventLog,
  type EventStore,
  NO_STREAM,
  type RecordedEvent,
  StoreUnavailable,
} from '../../src/eventStore/eventStore.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { createPlant } from '../../src/plants/createPlant.ts';
import { everything } from '../eventStore/contract.ts';
import { MTH } from '../merkle/rfc9162.ts';
import { storePool } from '../support/storePool.ts';
import { appendMany, named, openIn, openOver, overFakeServer, startFakeServer } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE: ReadonlySet<string> = new Set();
const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

type Options = Partial<Parameters<typeof verifyLog>[0]>;

const verify = (log: EventLog, options: Options = {}) =>
  verifyLog({ log, gapless: true, skip: NONE, signal: new AbortController().signal, ...options });

const problemsOf = async (log: EventLog, options: Options = {}) => (await verify(log, options)).problems;

/** By definition: over the RFC 8785 text of each event without its position. */
const rootOf = (events: RecordedEvent[]): string =>
  MTH(
    events.map(({ position, revision, ...rest }) => `${canonicalize({ ...rest, revision: `${revision}` })}`),
  ).toString('hex');

const pooled = storePool(openOver);

type Kind = 'the embedded log' | 'EventStoreDB';

/** A server and a store for one test, which may close them. */
async function ownServer() {
  const server = await startFakeServer();
  return { server, store: await overFakeServer(server.url) };
}

/** An empty log, and a function that appends events. */
async function opened(kind: Kind, over = pooled) {
  if (kind === 'the embedded log') {
    const store = await openIn(tempDir());
    return { store, gapless: true, fill: (events: number) => appendMany(store, events) };
  }
  const { server, store } = await over();
  const fill = (events: number): void => {
    for (let i = 0; i < events; i++) server.write(`plant-u${i % 7}/${i}`, { data: {}, metadata: {} });
  };
  return { store, gapless: false, fill };
}

async function createPlants(store: EventStore): Promise<void> {
  const context = { now: () => new Date(0), newEventId: randomUUID, correlationId: 'c' };
  const plants = [
    { user: 'alice', id: 1n, name: 'Fern', tag: 'indoor' },
    { user: 'bob', id: 1n, name: '' },
    { user: 'alice', id: -(2n ** 63n), name: 'unit \u001f, nul \0, line \u2028, \ufffd' },
    { user: 'bob', id: 2n ** 63n - 1n, name: 'emoji 🌱👩‍🌾', tag: '\ufeff' },
    { user: 'a-b/%/🌱 ', id: 3n, name: 'Moss' },
  ];
  for (const plant of plants) await createPlant(store, plant, context);
}

describe.each<Kind>(['the embedded log', 'EventStoreDB'])('verifying %s', (kind) => {
  test('returns its size, last position and root, without problems', async () => {
    const { store, gapless } = await opened(kind);
    await createPlants(store);
    const events = await everything(store);
    expect(await verify(store, { gapless })).toEqual({
      size: 5,
      position: events[4]?.position,
      root: rootOf(events),
      view: undefined,
      unknown: 0,
      skipped: 0,
      problems: [],
      problemCount: 0,
    });
  });

  test('without events returns the root of the empty log', async () => {
    const { store, gapless } = await opened(kind);
    expect(await verify(store, { gapless })).toMatchObject({
      size: 0,
      position: 0n,
      root: EMPTY_ROOT,
      problems: [],
    });
  });

  test('accepts every earlier root of the log, and no other', async () => {
    const { store, gapless } = await opened(kind);
    await createPlants(store);
    const events = await everything(store);
    for (let size = 0; size <= events.length; size++) {
      const root = rootOf(events.slice(0, size));
      expect(await problemsOf(store, { gapless, expect: { size, root } })).toEqual([]);
      const other = rootOf(events.slice(0, (size + 1) % 6));
      expect(await problemsOf(store, { gapless, expect: { size, root: other } })).toEqual([
        { problem: `the first ${size} events are not the expected ones: their root is ${root}` },
      ]);
    }
    const root = rootOf(events);
    expect(await problemsOf(store, { gapless, expect: { size: 6, root } })).toEqual([
      { problem: 'the log has 5 events, fewer than the expected 6' },
    ]);
  });

  test('returns the same root after a copy to the other store', async () => {
    const { store: from } = await opened(kind);
    const { store: to, gapless } = await opened(
      kind === 'EventStoreDB' ? 'the embedded log' : 'EventStoreDB',
    );
    await createPlants(from);
    await copyLog({ from, to });
    const expected = { size: 5, root: rootOf(await everything(from)) };
    expect(await verify(to, { gapless, expect: expected })).toMatchObject({ ...expected, problems: [] });
  });

  test('ignores events appended after its start', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const end = await store.lastPosition();
    let isFirst = true;
    const onProgress = (): void => {
      if (isFirst) void store.append('plant-late/1', named('late'), NO_STREAM);
      isFirst = false;
    };
    expect(await verify(store, { gapless, onProgress })).toMatchObject({ size: 1_100, position: end });
  });

  test('reports its progress, up to the end', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const positions = (await everything(store)).map(({ position }) => position);
    const end = positions.at(-1) as bigint;
    const reported: { events: number; position: bigint; end: bigint }[] = [];
    await verify(store, { gapless, onProgress: (progress) => void reported.push(progress) });
    expect(reported.length).toBeGreaterThan(1);
    expect(reported).toEqual(
      reported.map(({ events }) => ({ events, position: positions[events - 1], end })),
    );
    expect(reported.at(-1)).toEqual({ events: 1_100, position: end, end });
  });

  test('ends when it is aborted', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const stopping = new AbortController();
    const reason = new Error('stopped');
    const onProgress = (): void => stopping.abort(reason);
    await expect(verify(store, { gapless, onProgress, signal: stopping.signal })).rejects.toBe(reason);
  });

  test('fails if the log is closed', async () => {
    const { store, gapless, fill } = await opened(kind, ownServer);
    await fill(1_100);
    const onProgress = (): void => void store.close();
    await expect(verify(store, { gapless, onProgress })).rejects.toThrow(StoreUnavailable);
  });
});

/** A log in memory, which may have events that no store accepts. */
function logOf(events: RecordedEvent[]): EventLog & { streamsRead: string[] } {
  const streamsRead: string[] = [];
  return {
    streamsRead,
    logId: async () => 'm',
    async readStream(stream, maxCount) {
      streamsRead.push(stream);
      return events
        .filter((event) => event.stream === stream)
        .sort((one, other) => Number(one.revision - other.revision))
        .slice(0, maxCount);
    },
    readEvent: async (at) => events.find(({ position }) => position === at),
    lastPosition: async () => events.reduce((last, { position }) => (position > last ? position : last), 0n),
    async readAll({ after }) {
      const following = events.filter(({ position }) => position > after);
      return { events: following, position: following.at(-1)?.position ?? after, isEnd: true };
    },
    subscribe: () => {
      throw new Error('only live readers subscribe');
    },
    close: async () => {},
  };
}

function created(position: number, user: string, change: Partial<RecordedEvent> = {}): RecordedEvent {
  return {
    position: BigInt(position),
    stream: `plant-${user}/${position}`,
    revision: 0n,
    id: `01980000-0000-7000-8000-${String(Math.abs(position)).padStart(12, '0')}`,
    type: 'PlantCreated',
    data: { id: `${position}`, user, name: 'Fern' },
    metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00Z' },
    ...change,
  };
}

/** An event of an unknown type. */
const unknownEvent = (position: number, stream: string, revision: number): RecordedEvent =>
  created(position, 'alice', { stream, revision: BigInt(revision), type: 'PlantWatered', data: {} });

describe('positions', () => {
  test('of a gapless log start at 1', async () => {
    const missing = { position: 3n, problem: 'positions 1 to 2 are missing before it' };
    expect(await problemsOf(logOf([created(3, 'alice')]))).toEqual([missing]);
    const early = { position: 0n, problem: 'positions start at 1' };
    expect(await problemsOf(logOf([created(0, 'alice'), created(1, 'bob')]))).toEqual([early]);
  });

  test('of a gapless log have no gaps; each gap is reported once', async () => {
    const log = logOf([1, 3, 7, 8].map((position) => created(position, 'alice')));
    expect(await problemsOf(log)).toEqual([
      { position: 3n, problem: 'position 2 is missing before it' },
      { position: 7n, problem: 'positions 4 to 6 are missing before it' },
    ]);
  });

  test('of another log may have gaps, but must increase', async () => {
    const log = logOf([100, 301, 300, 700].map((position) => created(position, 'alice')));
    expect(await problemsOf(log, { gapless: false })).toEqual([
      { position: 300n, problem: 'it follows position 301' },
    ]);
  });

  test('below 1 are problems, but not those that follow', async () => {
    const log = logOf([created(-7, 'alice'), created(1, 'alice'), created(2, 'bob')]);
    expect(await problemsOf(log)).toEqual([{ position: -7n, problem: 'positions start at 1' }]);
  });
});

describe('a PlantCreated', () => {
  const own = created(1, 'alice');
  test.for<[string, Partial<RecordedEvent>, string]>([
    ['without data', { data: null }, 'its data is not that of a PlantCreated'],
    ['without a name', { data: { id: '1', user: 'alice' } }, 'its data is not that of a PlantCreated'],
    [
      'with an ID that is not an int64',
      { data: { id: '01', user: 'alice', name: '' } },
      'its data is not that of a PlantCreated',
    ],
    [
      'in the stream of bob',
      { stream: 'plant-bob/1' },
      'it is in the stream "plant-bob/1", but its data belongs to "plant-alice/1"',
    ],
    [
      'in a stream that is not of a plant',
      { stream: 'garden' },
      'it is in the stream "garden", but its data belongs to "plant-alice/1"',
    ],
    ['without metadata', { metadata: undefined }, 'its metadata is not that of a PlantCreated'],
    [
      'with an invalid time',
      { metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: 'now' } },
      'its metadata is not that of a PlantCreated',
    ],
    [
      'of another version',
      { metadata: { $correlationId: 'c', schemaVersion: 2, occurredAt: '2026-03-01T12:00:00Z' } },
      'its metadata is not that of a PlantCreated',
    ],
    ['with an event ID that is not a UUID', { id: 'x' }, 'its ID is not a UUID'],
  ])('%s is the only problem', async ([, change, problem]) => {
    const log = logOf([{ ...own, ...change }, created(2, 'bob')]);
    expect(await problemsOf(log)).toEqual([{ position: 1n, problem }]);
  });

  test('at a later revision is a problem', async () => {
    const log = logOf([
      unknownEvent(1, 'plant-alice/2', 0),
      created(2, 'alice', { revision: 1n }),
      created(3, 'bob'),
    ]);
    expect(await problemsOf(log)).toEqual([
      { position: 2n, problem: 'it is a PlantCreated at revision 1 of its stream' },
    ]);
  });

  test('in SKIP_EVENTS is counted and in the root, and its data is no problem', async () => {
    const events = [created(1, 'alice', { data: { name: 5 } }), created(2, 'bob')];
    const skip = new Set([events[0]?.id as string]);
    expect(await verify(logOf(events), { skip })).toMatchObject({
      size: 2,
      root: rootOf(events),
      skipped: 1,
      problems: [],
    });
  });
});

test('unknown event types are counted and in the root', async () => {
  const events = [created(1, 'alice'), unknownEvent(2, 'plant-alice/1', 1), unknownEvent(3, 'garden', 0)];
  expect(await verify(logOf(events))).toMatchObject({ unknown: 2, root: rootOf(events), problems: [] });
});

describe('revisions', () => {
  test.for<[string, [stream: string, revision: number][], position: number, problem: string]>([
    ['that start at 1', [['a', 1]], 1, 'revision 0 of its stream is not before it'],
    [
      'with a gap',
      [
        ['a', 0],
        ['b', 0],
        ['a', 2],
      ],
      3,
      'revision 1 of its stream is not before it',
    ],
    [
      'in the wrong order',
      [
        ['a', 1],
        ['b', 0],
        ['a', 0],
      ],
      1,
      'revision 0 of its stream is not before it',
    ],
    [
      'with a duplicate',
      [
        ['a', 0],
        ['b', 0],
        ['a', 0],
      ],
      3,
      'revision 0 of its stream is also at position 1',
    ],
  ])('%s are a problem', async ([, written, position, problem]) => {
    const log = logOf(written.map(([stream, revision], i) => unknownEvent(i + 1, stream, revision)));
    expect(await problemsOf(log)).toEqual([{ position: BigInt(position), problem }]);
  });

  test('are valid if and only if those of each stream count from 0 in log order', async () => {
    const written = fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.integer({ min: -1, max: 3 })), {
      maxLength: 7,
    });
    await fc.assert(
      fc.asyncProperty(written, async (pairs) => {
        const log = logOf(pairs.map(([stream, revision], i) => unknownEvent(i + 1, stream, revision)));
        const counts = new Map<string, number>();
        const isValid = pairs.every(([stream, revision]) => {
          const next = counts.get(stream) ?? 0;
          counts.set(stream, next + 1);
          return revision === next;
        });
        expect((await verify(log)).problemCount === 0).toBe(isValid);
      }),
      { numRuns: 60, examples: [[[['a', -1]]]] },
    );
  });

  test('of a long stream are checked without reading it repeatedly', async () => {
    const log = logOf(Array.from({ length: 500 }, (_, i) => unknownEvent(i + 1, 'plant-alice/1', i)));
    expect(await problemsOf(log)).toEqual([]);
    expect(log.streamsRead.length).toBeLessThan(3);
  });

  test('of streams with one event are checked without reading them', async () => {
    const log = logOf(Array.from({ length: 500 }, (_, i) => created(i + 1, i % 2 ? 'alice' : 'bob')));
    expect(await problemsOf(log)).toEqual([]);
    expect(log.streamsRead).toEqual([]);
  });
});

test('more than 100 problems are counted, and the first 100 listed', async () => {
  const events = Array.from({ length: 150 }, (_, i) => created(i + 1, 'alice', { data: {} }));
  const { problems, problemCount } = await verify(logOf(events));
  expect(problemCount).toBe(150);
  expect(problems.map(({ position }) => position)).toEqual(
    events.slice(0, 100).map(({ position }) => position),
  );
});

describe('an earlier root detects a change:', () => {
  const text = fc.string({ unit: 'binary', maxLength: 5 });
  const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)));
  const event = fc.record({
    id: text,
    stream: text,
    revision: fc.nat(3).map(BigInt),
    type: text,
    data: json,
    metadata: json,
  });
  const events = fc.array(event, { minLength: 2, maxLength: 6 });

  const numbered = (all: Omit<RecordedEvent, 'position'>[]) =>
    logOf(all.map((one, i) => ({ ...one, position: BigInt(i + 1) })));

  const textOf = (value: unknown) => canonicalize(typeof value === 'bigint' ? `${value}` : value);

  /** Whether the root of the log before detects that the log after does not start with the same events. */
  async function isFound(
    before: Omit<RecordedEvent, 'position'>[],
    after: Omit<RecordedEvent, 'position'>[],
  ) {
    const { size, root } = await verify(numbered(before));
    const { problems } = await verify(numbered(after), { expect: { size, root } });
    return problems.some(({ problem }) => problem.includes('expected'));
  }

  test.each(['id', 'stream', 'revision', 'type', 'data', 'metadata'] as const)('another %s', async (part) => {
    await fc.assert(
      fc.asyncProperty(events, event, fc.nat(), async (before, other, n) => {
        const at = n % before.length;
        const [own, its] = [before[at]?.[part], other[part]];
        fc.pre(textOf(own) !== textOf(its));
        const after = before.with(at, { ...(before[at] as typeof other), [part]: its });
        expect(await isFound(before, after)).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test('an event removed, inserted or swapped', async () => {
    await fc.assert(
      fc.asyncProperty(events, event, fc.nat(), async (before, other, n) => {
        const at = n % before.length;
        const [own, next] = [before[at] as typeof other, before[at + 1]];
        const isOther = (one: typeof other): boolean =>
          rootOf([{ ...own, position: 1n }]) !== rootOf([{ ...one, position: 1n }]);
        expect(await isFound(before, before.toSpliced(at, 1))).toBe(true);
        if (isOther(other)) expect(await isFound(before, before.toSpliced(at, 0, other))).toBe(true);
        if (next && isOther(next))
          expect(await isFound(before, before.toSpliced(at, 2, next, own))).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test('but not appended events', async () => {
    await fc.assert(
      fc.asyncProperty(events, event, async (before, other) => {
        expect(await isFound(before, [...before, other])).toBe(false);
      }),
      { numRuns: 20 },
    );
  });
});

describe('an event without a canonical form', () => {
  const lone = (text: string) => unknownEventWith({ text });
  const unknownEventWith = (data: unknown) => ({ ...unknownEvent(1, 'plant-alice/1', 0), data });
  const bytes = (...all: number[]) => unknownEventWith(Buffer.of(...all));

  test.for<[string, RecordedEvent, RecordedEvent]>([
    ['an unpaired surrogate', lone('\ud83c'), lone('\ud83d')],
    ['binary data', bytes(0, 255), bytes(0, 254)],
  ])('(%s) is a problem, and in the root, so that a change is detected', async ([, before, after]) => {
    const { size, root, problems } = await verify(logOf([before]));
    expect(problems).toEqual([{ position: 1n, problem: 'it has no canonical form (RFC 8785)' }]);
    const { problemCount } = await verify(logOf([after]), { expect: { size, root } });
    expect(problemCount).toBe(2);
  });
});

describe('the embedded log with data of another writer', () => {
  test.for<[string, before: string, after: string]>([
    ['a space', '{ "a":1}', '{"a":1}'],
    ['digits beyond the precision of a number', '{"a":9007199254740993}', '{"a":9007199254740992}'],
    ['text that is not JSON', 'a', 'b'],
    ['JSON with other spacing, and its text as a JSON string', '{ "a":1}', '"{ \\"a\\":1}"'],
    ['text that is not JSON, and the same as a JSON string', 'a', '"a"'],
  ])('has another root after a change of %s', async ([, before, after]) => {
    const roots = await Promise.all(
      [before, after].map(async (data) => (await verify(await logWith(data))).root),
    );
    expect(roots[0]).not.toBe(roots[1]);
  });

  test.each(['zoé', 'zo\ufffd'])(
    'has another root when the stream of %s is changed to Latin-1',
    async (user) => {
      const dir = tempDir();
      const store = await openIn(dir);
      const context = { now: () => new Date(0), newEventId: randomUUID, correlationId: 'c' };
      await createPlant(store, { user, id: 1n, name: 'Fern' }, context);
      await store.close();
      const { size, root, problemCount } = await verify(reading(dir));
      expect(problemCount).toBe(0);
      using db = new DatabaseSync(join(dir, 'log.db'));
      db.exec('DROP TRIGGER events_are_never_updated');
      const stream = Buffer.from('plant-zoé/1', 'latin1').toString('hex');
      db.exec(`UPDATE events SET stream = CAST(x'${stream}' AS TEXT)`);
      expect((await verify(reading(dir), { expect: { size, root } })).problemCount).toBeGreaterThan(0);
    },
  );

  /** A log with one event, whose data another program wrote. */
  async function logWith(data: string): Promise<EventLog> {
    const dir = tempDir();
    await (await openIn(dir)).close();
    using db = new DatabaseSync(join(dir, 'log.db'));
    db.prepare("INSERT INTO events VALUES (1, 'e1', 'plant-alice/1', 0, 'PlantWatered', ?, '{}', '')").run(
      data,
    );
    return reading(dir);
  }

  function reading(dir: string): EventLog {
    const log = openLogReader(join(dir, 'log.db'), { exact: true });
    onTestFinished(() => log.close());
    return log;
  }
});

describe('a view', () => {
  const EVENTS = Array.from({ length: 150 }, (_, i) => created(i + 1, i % 2 ? 'alice' : 'bob'));

  /** A view with these events applied, of a log with this ID, and its comparison. */
  function viewOf(events: RecordedEvent[], logId = 'm') {
    const file = join(tempDir(), 'view.db');
    const view = new PlantsByUser(file);
    view.reset(logId);
    view.apply(events, NONE);
    view.save();
    const comparison = ViewComparison.open(logOf(events), file, NONE) as ViewComparison;
    onTestFinished(() => {
      comparison.close();
      view.close();
    });
    return { file, view, comparison };
  }

  test('that equals the fold of the log up to its checkpoint has no problems', async () => {
    const { comparison } = viewOf(EVENTS.slice(0, 80));
    expect(await verify(logOf(EVENTS), { view: comparison })).toMatchObject({
      size: 150,
      view: 80n,
      problems: [],
    });
  });

  test('without events has no problems', async () => {
    const { comparison } = viewOf([]);
    expect(await verify(logOf(EVENTS), { view: comparison })).toMatchObject({ view: 0n, problems: [] });
  });

  test('of another log is one problem, and not compared', async () => {
    const { comparison } = viewOf(EVENTS.slice(0, 80), 'other');
    expect(await problemsOf(logOf(EVENTS.slice(0, 20)), { view: comparison })).toEqual([
      { problem: 'the view belongs to another log: the next start rebuilds it' },
    ]);
  });

  test('with more than 100 wrong rows has them all counted, and the first 100 listed', async () => {
    const { file, comparison } = viewOf(EVENTS);
    using db = new DatabaseSync(file);
    db.exec("INSERT INTO plants SELECT 'mallory', position, number, id, plant FROM plants");
    const { problems, problemCount } = await verify(logOf(EVENTS), { view: comparison });
    expect(problems).toHaveLength(100);
    expect(problemCount).toBe(150);
  });

  test('that is rebuilt meanwhile is reported as rebuilt', async () => {
    const { view, comparison } = viewOf(EVENTS);
    view.reset('m');
    const { problems } = await verify(logOf(EVENTS), { view: comparison });
    expect(problems).toContainEqual({ problem: 'the view was rebuilt meanwhile: verify again' });
  });
});

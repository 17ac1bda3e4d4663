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
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { createPlant } from '../../src/plants/plant.ts';
import { named, openIn, openOver, overDouble, plantMany, startDouble } from '../copy/logs.ts';
import { everything } from '../eventStore/contract.ts';
import { MTH } from '../merkle/rfc9162.ts';
import { storePool } from '../support/storePool.ts';
import { tempDir } from '../support/tempDir.ts';

const NONE: ReadonlySet<string> = new Set();
const EMPTY_ROOT = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

type Options = Partial<Parameters<typeof verifyLog>[0]>;

const verify = (log: EventLog, options: Options = {}) =>
  verifyLog({ log, gapless: true, skip: NONE, signal: new AbortController().signal, ...options });

const faultsOf = async (log: EventLog, options: Options = {}) => (await verify(log, options)).faults;

/** By the definition: over RFC 8785 of each event without its position. */
const rootOf = (events: RecordedEvent[]): string =>
  MTH(
    events.map(({ position, revision, ...rest }) => `${canonicalize({ ...rest, revision: `${revision}` })}`),
  ).toString('hex');

const pooled = storePool(openOver);

type Kind = 'the embedded log' | 'EventStoreDB';

/** A server and its store for one test, which may close it. */
async function ownServer() {
  const server = await startDouble();
  return { server, store: await overDouble(server.url) };
}

/** A log without events, and a way to give it some. */
async function opened(kind: Kind, over = pooled) {
  if (kind === 'the embedded log') {
    const store = await openIn(tempDir());
    return { store, gapless: true, fill: (events: number) => plantMany(store, events) };
  }
  const { server, store } = await over();
  const fill = (events: number): void => {
    for (let i = 0; i < events; i++) server.write(`plant-u${i % 7}/${i}`, { data: {}, metadata: {} });
  };
  return { store, gapless: false, fill };
}

async function plantGarden(store: EventStore): Promise<void> {
  const surroundings = { now: () => new Date(0), newId: randomUUID, correlationId: 'c' };
  const plants = [
    { user: 'alice', id: 1n, name: 'Fern', tag: 'indoor' },
    { user: 'bob', id: 1n, name: '' },
    { user: 'alice', id: -(2n ** 63n), name: 'unit \u001f, nul \0, line \u2028, \ufffd' },
    { user: 'bob', id: 2n ** 63n - 1n, name: 'emoji 🌱👩‍🌾', tag: '\ufeff' },
    { user: 'a-b/%/🌱 ', id: 3n, name: 'Moss' },
  ];
  for (const plant of plants) await createPlant(store, plant, surroundings);
}

describe.each<Kind>(['the embedded log', 'EventStoreDB'])('verifying %s', (kind) => {
  test('gives its size, its last position and the root of its events, and finds nothing', async () => {
    const { store, gapless } = await opened(kind);
    await plantGarden(store);
    const events = await everything(store);
    expect(await verify(store, { gapless })).toEqual({
      size: 5,
      position: events[4]?.position,
      root: rootOf(events),
      view: undefined,
      foreign: 0,
      skipped: 0,
      faults: [],
      faultCount: 0,
    });
  });

  test('without an event gives the root of nothing', async () => {
    const { store, gapless } = await opened(kind);
    expect(await verify(store, { gapless })).toMatchObject({
      size: 0,
      position: 0n,
      root: EMPTY_ROOT,
      faults: [],
    });
  });

  test('holds every root that the log has had, and no other', async () => {
    const { store, gapless } = await opened(kind);
    await plantGarden(store);
    const events = await everything(store);
    for (let size = 0; size <= events.length; size++) {
      const root = rootOf(events.slice(0, size));
      expect(await faultsOf(store, { gapless, expect: { size, root } })).toEqual([]);
      const other = rootOf(events.slice(0, (size + 1) % 6));
      expect(await faultsOf(store, { gapless, expect: { size, root: other } })).toEqual([
        { fault: `the first ${size} events are not those that were expected: their root is ${root}` },
      ]);
    }
    const root = rootOf(events);
    expect(await faultsOf(store, { gapless, expect: { size: 6, root } })).toEqual([
      { fault: 'the log has 5 events, not the 6 that were expected' },
    ]);
  });

  test('gives the same root after a copy to the other store', async () => {
    const { store: from } = await opened(kind);
    const { store: to, gapless } = await opened(
      kind === 'EventStoreDB' ? 'the embedded log' : 'EventStoreDB',
    );
    await plantGarden(from);
    await copyLog({ from, to });
    const expected = { size: 5, root: rootOf(await everything(from)) };
    expect(await verify(to, { gapless, expect: expected })).toMatchObject({ ...expected, faults: [] });
  });

  test('takes what is there at the beginning', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const end = await store.end();
    let isFirst = true;
    const onProgress = (): void => {
      if (isFirst) void store.append('plant-late/1', named('late'), NO_STREAM);
      isFirst = false;
    };
    expect(await verify(store, { gapless, onProgress })).toMatchObject({ size: 1_100, position: end });
  });

  test('tells how far it has come, to the end', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const positions = (await everything(store)).map(({ position }) => position);
    const end = positions.at(-1) as bigint;
    const told: { events: number; position: bigint; end: bigint }[] = [];
    await verify(store, { gapless, onProgress: (progress) => void told.push(progress) });
    expect(told.length).toBeGreaterThan(1);
    expect(told).toEqual(told.map(({ events }) => ({ events, position: positions[events - 1], end })));
    expect(told.at(-1)).toEqual({ events: 1_100, position: end, end });
  });

  test('ends when it has to', async () => {
    const { store, gapless, fill } = await opened(kind);
    await fill(1_100);
    const stopping = new AbortController();
    const reason = new Error('stopped');
    const onProgress = (): void => stopping.abort(reason);
    await expect(verify(store, { gapless, onProgress, signal: stopping.signal })).rejects.toBe(reason);
  });

  test('fails where the log is closed', async () => {
    const { store, gapless, fill } = await opened(kind, ownServer);
    await fill(1_100);
    const onProgress = (): void => void store.close();
    await expect(verify(store, { gapless, onProgress })).rejects.toThrow(StoreUnavailable);
  });
});

/** A log in memory, which may hold what no store takes. */
function logOf(events: RecordedEvent[]): EventLog & { asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    mark: async () => 'm',
    async readStream(stream, maxCount) {
      asked.push(stream);
      return events
        .filter((event) => event.stream === stream)
        .sort((one, other) => Number(one.revision - other.revision))
        .slice(0, maxCount);
    },
    eventAt: async (at) => events.find(({ position }) => position === at),
    end: async () => events.reduce((last, { position }) => (position > last ? position : last), 0n),
    async *subscribe({ after }) {
      yield { events: events.filter(({ position }) => position > after), caughtUp: true };
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

/** An event of a type that the service does not know. */
const foreign = (position: number, stream: string, revision: number): RecordedEvent =>
  created(position, 'alice', { stream, revision: BigInt(revision), type: 'PlantWatered', data: {} });

describe('positions', () => {
  test('of a gapless log begin at 1', async () => {
    const missing = { position: 3n, fault: 'positions 1 to 2 are missing before it' };
    expect(await faultsOf(logOf([created(3, 'alice')]))).toEqual([missing]);
    const early = { position: 0n, fault: 'positions begin at 1' };
    expect(await faultsOf(logOf([created(0, 'alice'), created(1, 'bob')]))).toEqual([early]);
  });

  test('of a gapless log have no gaps, and each is named once', async () => {
    const log = logOf([1, 3, 7, 8].map((position) => created(position, 'alice')));
    expect(await faultsOf(log)).toEqual([
      { position: 3n, fault: 'position 2 is missing before it' },
      { position: 7n, fault: 'positions 4 to 6 are missing before it' },
    ]);
  });

  test('of another log may have gaps, but not go back', async () => {
    const log = logOf([100, 301, 300, 700].map((position) => created(position, 'alice')));
    expect(await faultsOf(log, { gapless: false })).toEqual([
      { position: 300n, fault: 'it follows position 301' },
    ]);
  });

  test('that come before the first are faults, and not the ones after them', async () => {
    const log = logOf([created(-7, 'alice'), created(1, 'alice'), created(2, 'bob')]);
    expect(await faultsOf(log)).toEqual([{ position: -7n, fault: 'positions begin at 1' }]);
  });
});

describe('a PlantCreated', () => {
  const own = created(1, 'alice');
  test.for<[string, Partial<RecordedEvent>, string]>([
    ['without data', { data: null }, 'its data is not that of a PlantCreated'],
    ['without a name', { data: { id: '1', user: 'alice' } }, 'its data is not that of a PlantCreated'],
    [
      'with an id that is no int64',
      { data: { id: '01', user: 'alice', name: '' } },
      'its data is not that of a PlantCreated',
    ],
    [
      'in the stream of bob',
      { stream: 'plant-bob/1' },
      'it is in the stream "plant-bob/1", but its data is of "plant-alice/1"',
    ],
    [
      'in a stream that is no plant’s',
      { stream: 'garden' },
      'it is in the stream "garden", but its data is of "plant-alice/1"',
    ],
    ['without metadata', { metadata: undefined }, 'its metadata is not that of a PlantCreated'],
    [
      'at no time',
      { metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: 'now' } },
      'its metadata is not that of a PlantCreated',
    ],
    [
      'of another version',
      { metadata: { $correlationId: 'c', schemaVersion: 2, occurredAt: '2026-03-01T12:00:00Z' } },
      'its metadata is not that of a PlantCreated',
    ],
    ['with an id that is no UUID', { id: 'x' }, 'its id is no UUID'],
  ])('%s is named, and only it', async ([, change, fault]) => {
    const log = logOf([{ ...own, ...change }, created(2, 'bob')]);
    expect(await faultsOf(log)).toEqual([{ position: 1n, fault }]);
  });

  test('at a later revision is named', async () => {
    const log = logOf([
      foreign(1, 'plant-alice/2', 0),
      created(2, 'alice', { revision: 1n }),
      created(3, 'bob'),
    ]);
    expect(await faultsOf(log)).toEqual([
      { position: 2n, fault: 'it is a PlantCreated at revision 1 of its stream' },
    ]);
  });

  test('that an operator passes over is counted, and in the root, and nothing is said of its data', async () => {
    const events = [created(1, 'alice', { data: { name: 5 } }), created(2, 'bob')];
    const skip = new Set([events[0]?.id as string]);
    expect(await verify(logOf(events), { skip })).toMatchObject({
      size: 2,
      root: rootOf(events),
      skipped: 1,
      faults: [],
    });
  });
});

test('events of other types are counted, and in the root', async () => {
  const events = [created(1, 'alice'), foreign(2, 'plant-alice/1', 1), foreign(3, 'garden', 0)];
  expect(await verify(logOf(events))).toMatchObject({ foreign: 2, root: rootOf(events), faults: [] });
});

describe('revisions', () => {
  test.for<[string, [stream: string, revision: number][], position: number, fault: string]>([
    ['that begin at 1', [['a', 1]], 1, 'revision 0 of its stream is not before it'],
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
      'that are there twice',
      [
        ['a', 0],
        ['b', 0],
        ['a', 0],
      ],
      3,
      'revision 0 of its stream is also at position 1',
    ],
  ])('%s are named', async ([, written, position, fault]) => {
    const log = logOf(written.map(([stream, revision], i) => foreign(i + 1, stream, revision)));
    expect(await faultsOf(log)).toEqual([{ position: BigInt(position), fault }]);
  });

  test('are right if and only if those of each stream count from 0 in log order', async () => {
    const written = fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.integer({ min: -1, max: 3 })), {
      maxLength: 7,
    });
    await fc.assert(
      fc.asyncProperty(written, async (pairs) => {
        const log = logOf(pairs.map(([stream, revision], i) => foreign(i + 1, stream, revision)));
        const counts = new Map<string, number>();
        const isRight = pairs.every(([stream, revision]) => {
          const next = counts.get(stream) ?? 0;
          counts.set(stream, next + 1);
          return revision === next;
        });
        expect((await verify(log)).faultCount === 0).toBe(isRight);
      }),
      { numRuns: 60, examples: [[[['a', -1]]]] },
    );
  });

  test('of a long stream are known without asking for it again and again', async () => {
    const log = logOf(Array.from({ length: 500 }, (_, i) => foreign(i + 1, 'plant-alice/1', i)));
    expect(await faultsOf(log)).toEqual([]);
    expect(log.asked.length).toBeLessThan(3);
  });

  test('of streams with one event need no asking', async () => {
    const log = logOf(Array.from({ length: 500 }, (_, i) => created(i + 1, i % 2 ? 'alice' : 'bob')));
    expect(await faultsOf(log)).toEqual([]);
    expect(log.asked).toEqual([]);
  });
});

test('more than a hundred faults are counted, and the first hundred listed', async () => {
  const events = Array.from({ length: 150 }, (_, i) => created(i + 1, 'alice', { data: {} }));
  const { faults, faultCount } = await verify(logOf(events));
  expect(faultCount).toBe(150);
  expect(faults.map(({ position }) => position)).toEqual(
    events.slice(0, 100).map(({ position }) => position),
  );
});

describe('with what the log had, a change is found:', () => {
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

  /** Whether a log is found not to begin with the events that another one has had. */
  async function isFound(
    before: Omit<RecordedEvent, 'position'>[],
    after: Omit<RecordedEvent, 'position'>[],
  ) {
    const { size, root } = await verify(numbered(before));
    const { faults } = await verify(numbered(after), { expect: { size, root } });
    return faults.some(({ fault }) => fault.includes('expected'));
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

  test('an event less, one more in between, or two that are swapped', async () => {
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

  test('but a log that has only grown is as it was', async () => {
    await fc.assert(
      fc.asyncProperty(events, event, async (before, other) => {
        expect(await isFound(before, [...before, other])).toBe(false);
      }),
      { numRuns: 20 },
    );
  });
});

describe('what has no canonical form', () => {
  const lone = (text: string) => foreignData({ text });
  const foreignData = (data: unknown) => ({ ...foreign(1, 'plant-alice/1', 0), data });
  const bytes = (...all: number[]) => foreignData(Buffer.of(...all));

  test.for<[string, RecordedEvent, RecordedEvent]>([
    ['half a surrogate pair', lone('\ud83c'), lone('\ud83d')],
    ['bytes', bytes(0, 255), bytes(0, 254)],
  ])('(%s) is named, and in the root, so that a change is found', async ([, before, after]) => {
    const { size, root, faults } = await verify(logOf([before]));
    expect(faults).toEqual([{ position: 1n, fault: 'it has no canonical form (RFC 8785)' }]);
    const { faultCount } = await verify(logOf([after]), { expect: { size, root } });
    expect(faultCount).toBe(2);
  });
});

describe('the embedded log after another writer', () => {
  test.for<[string, before: string, after: string]>([
    ['a space', '{ "a":1}', '{"a":1}'],
    ['digits that a number loses', '{"a":9007199254740993}', '{"a":9007199254740992}'],
    ['text that is no JSON', 'a', 'b'],
    ['JSON that is written otherwise, and the text of it', '{ "a":1}', '"{ \\"a\\":1}"'],
    ['text that is no JSON, and the same as JSON', 'a', '"a"'],
  ])('is found to be changed, too: %s', async ([, before, after]) => {
    const roots = await Promise.all(
      [before, after].map(async (data) => (await verify(await logWith(data))).root),
    );
    expect(roots[0]).not.toBe(roots[1]);
  });

  test.each(['zoé', 'zo\ufffd'])(
    'the stream of %s is found to be another, too, once it is Latin-1',
    async (user) => {
      const dir = tempDir();
      const store = await openIn(dir);
      const surroundings = { now: () => new Date(0), newId: randomUUID, correlationId: 'c' };
      await createPlant(store, { user, id: 1n, name: 'Fern' }, surroundings);
      await store.close();
      const { size, root, faultCount } = await verify(reading(dir));
      expect(faultCount).toBe(0);
      using db = new DatabaseSync(join(dir, 'log.db'));
      db.exec('DROP TRIGGER events_are_never_updated');
      const stream = Buffer.from('plant-zoé/1', 'latin1').toString('hex');
      db.exec(`UPDATE events SET stream = CAST(x'${stream}' AS TEXT)`);
      expect((await verify(reading(dir), { expect: { size, root } })).faultCount).toBeGreaterThan(0);
    },
  );

  /** A log with one event, whose data another program has written. */
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
    const log = openSqliteLog(join(dir, 'log.db'), { exact: true });
    onTestFinished(() => log.close());
    return log;
  }
});

describe('a view', () => {
  const EVENTS = Array.from({ length: 150 }, (_, i) => created(i + 1, i % 2 ? 'alice' : 'bob'));

  /** A view that has seen the events, by a log with this mark, and its comparison. */
  function seen(events: RecordedEvent[], mark = 'm') {
    const file = join(tempDir(), 'view.db');
    const view = new PlantsByUser(file);
    view.reset(mark);
    view.apply(events, NONE);
    view.save();
    const comparison = ViewComparison.open(file, NONE) as ViewComparison;
    onTestFinished(() => {
      comparison.close();
      view.close();
    });
    return { file, view, comparison };
  }

  test('that is the fold of the log is so up to its checkpoint', async () => {
    const { comparison } = seen(EVENTS.slice(0, 80));
    expect(await verify(logOf(EVENTS), { view: comparison })).toMatchObject({
      size: 150,
      view: 80n,
      faults: [],
    });
  });

  test('that has seen nothing is so', async () => {
    const { comparison } = seen([]);
    expect(await verify(logOf(EVENTS), { view: comparison })).toMatchObject({ view: 0n, faults: [] });
  });

  test('that another log has made is named once, and not compared', async () => {
    const { comparison } = seen(EVENTS.slice(0, 80), 'other');
    expect(await faultsOf(logOf(EVENTS.slice(0, 20)), { view: comparison })).toEqual([
      { fault: 'the view is of another log: it is built anew at the next start' },
    ]);
  });

  test('with more than a hundred wrong rows: all are counted, and the first hundred listed', async () => {
    const { file, comparison } = seen(EVENTS);
    using db = new DatabaseSync(file);
    db.exec("INSERT INTO plants SELECT 'mallory', position, plant FROM plants");
    const { faults, faultCount } = await verify(logOf(EVENTS), { view: comparison });
    expect(faults).toHaveLength(100);
    expect(faultCount).toBe(150);
  });

  test('that is built anew meanwhile is said to be, however much it lacks', async () => {
    const { view, comparison } = seen(EVENTS);
    view.reset('m');
    const { faults } = await verify(logOf(EVENTS), { view: comparison });
    expect(faults).toContainEqual({ fault: 'the view has been built anew meanwhile: verify again' });
  });
});

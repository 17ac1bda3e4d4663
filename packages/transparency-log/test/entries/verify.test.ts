import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { appendMany, openIn, overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import canonicalize from 'canonicalize';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type EventLog,
  type EventStore,
  InvalidEvent,
  NO_STREAM,
  type RecordedEvent,
  StoreUnavailable,
} from '../../../event-log/src/eventStore.ts';
import { openLogReader } from '../../../event-log/src/sqlite/read.ts';
import { everything } from '../../../event-log/src/testing/contract.ts';
import { item, ToDoLists } from '../../../event-log/test/views/toDoLists.ts';
import { MTH } from '../../../tlog/test/merkle/rfc9162.ts';
import { type Verification, verifyLog } from '../../src/entries/verify.ts';

const NONE: ReadonlySet<string> = new Set();

type Options = Partial<Parameters<typeof verifyLog>[0]>;

/** Verifies a log. By default it has no gaps, and one type of events, whose data has a name. */
const verify = (log: EventLog, options: Options = {}): Promise<Verification> =>
  verifyLog({
    log,
    gapless: true,
    isKnown: (type) => type === 'PlantCreated',
    findProblem: ({ type, data }) =>
      type === 'PlantCreated' && !Object.hasOwn(Object(data), 'name') ? 'it has no name' : undefined,
    skip: NONE,
    signal: new AbortController().signal,
    ...options,
  });

const problemsOf = async (log: EventLog, options: Options = {}) => (await verify(log, options)).problems;

/** By definition: over the digest of the RFC 8785 text of each event without its position. */
const rootOf = (events: RecordedEvent[]): string =>
  MTH(
    events.map(({ position, revision, ...rest }) => {
      const text = `${canonicalize({ ...rest, revision: `${revision}` })}`;
      const sha256 = createHash('sha256').update(text).digest('hex');
      return createHash('sha256').update(`{"sha256":"${sha256}","type":"${rest.type}"}`).digest();
    }),
  );

type Kind = 'the embedded log' | 'EventStoreDB';

/** An empty log, its verification, and a function that appends events. */
async function opened(kind: Kind) {
  if (kind === 'the embedded log') {
    const store = await openIn(tempDir());
    const fill = (events: number) => appendMany(store, events);
    return { store, fill, verified: (options?: Options) => verify(store, options) };
  }
  const server = await startFakeServer();
  const store = await overFakeServer(server.url);
  const fill = (events: number): void => {
    for (let i = 0; i < events; i++) server.write(`plant-u${i % 7}/${i}`, { data: {}, metadata: {} });
  };
  return { store, fill, verified: (options?: Options) => verify(store, { gapless: false, ...options }) };
}

const create = (store: EventStore, stream: string, name: string) =>
  store.append(stream, { id: randomUUID(), type: 'PlantCreated', data: { name }, metadata: {} }, NO_STREAM);

describe.each<Kind>(['the embedded log', 'EventStoreDB'])('verifying %s', (kind) => {
  test('returns its size, last position and root, without problems, and accepts every earlier root', async () => {
    const { store, verified } = await opened(kind);
    const names = ['Fern', '', 'unit \u001f, nul \0, line \u2028, \ufffd', 'emoji 🌱👩‍🌾', '\ufeff'];
    for (const [i, name] of names.entries()) await create(store, `plant-a-b/%/🌱 ${i}`, name);
    const events = await everything(store);
    expect(await verified()).toEqual({
      size: 5,
      position: events[4]?.position,
      root: rootOf(events),
      views: {},
      unknown: 0,
      skipped: 0,
      erased: 0,
      records: 0,
      problems: [],
      problemCount: 0,
    });
    const problemsWith = async (size: number, root: string) => {
      const { hasExpected, problems } = await verified({ expect: { size, root } });
      expect(hasExpected).toBe(problems.length === 0);
      return problems.map(({ problem }) => problem);
    };
    for (let size = 0; size <= events.length; size++) {
      const root = rootOf(events.slice(0, size));
      expect(await problemsWith(size, root)).toEqual([]);
      expect(await problemsWith(size, rootOf(events.slice(0, (size + 1) % 6)))).toEqual([
        `the first ${size} events are not the expected events: their root is ${root}`,
      ]);
    }
    expect(await problemsWith(6, rootOf(events))).toEqual([
      'the log has 5 events, fewer than the expected 6',
    ]);
  });

  test('reports its progress, up to the end of the log at its start', async () => {
    const { store, verified, fill } = await opened(kind);
    await fill(1_100);
    const positions = (await everything(store)).map(({ position }) => position);
    const end = positions.at(-1) as bigint;
    const reported: { events: number; position: bigint; end: bigint }[] = [];
    const onProgress = (progress: (typeof reported)[number]): void => {
      if (reported.length === 0) void create(store, 'plant-late/1', 'late');
      reported.push(progress);
    };
    expect(await verified({ onProgress })).toMatchObject({ size: 1_100, position: end });
    expect(reported.length).toBeGreaterThan(1);
    for (const { events, ...rest } of reported)
      expect(rest).toEqual({ position: positions[events - 1], end });
    expect(reported.at(-1)?.events).toBe(1_100);
  });

  test('ends when it is aborted', async () => {
    const { verified, fill } = await opened(kind);
    await fill(1_100);
    const stopping = new AbortController();
    const reason = new Error('stopped');
    const onProgress = (): void => stopping.abort(reason);
    await expect(verified({ onProgress, signal: stopping.signal })).rejects.toBe(reason);
  });

  test('fails if the log is closed', async () => {
    const { store, verified, fill } = await opened(kind);
    await fill(1_100);
    await expect(verified({ onProgress: () => void store.close() })).rejects.toThrow(StoreUnavailable);
  });
});

/** A log in memory, which may have events that no store accepts. */
function logOf(events: RecordedEvent[]): EventLog {
  return {
    logId: async () => 'm',
    readStream: () => {
      throw new Error('verify reads in log order');
    },
    readEvent: async (at) => events.find(({ position }) => position === at),
    lastPosition: async () => events.reduce((last, { position }) => (position > last ? position : last), 0n),
    async readAll({ after }) {
      const following = events.filter(({ position }) => position > after);
      return { events: following, position: following.at(-1)?.position ?? after, isEnd: true };
    },
    readBackwards: () => {
      throw new Error('verify reads in log order');
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
    metadata: {},
    ...change,
  };
}

/** An event of an unknown type. */
const unknownEvent = (
  position: number,
  stream: string,
  revision: number,
  data: unknown = {},
): RecordedEvent =>
  created(position, 'alice', { stream, revision: BigInt(revision), type: 'PlantPruned', data });

const GAPLESS = { gapless: true };
test.for<[what: string, positions: number[], { gapless: boolean }, ...[at: number, problem: string][]]>([
  ['start at 1', [3], GAPLESS, [3, 'positions 1 to 2 are missing before it']],
  ['are not 0', [0, 1], GAPLESS, [0, 'positions start at 1']],
  ['are not negative', [-7, 1, 2], GAPLESS, [-7, 'positions start at 1']],
  [
    'have no gaps; each gap is reported once',
    [1, 3, 7, 8],
    GAPLESS,
    [3, 'position 2 is missing before it'],
    [7, 'positions 4 to 6 are missing before it'],
  ],
  [
    'may have gaps in another log, but increase',
    [100, 301, 300, 700],
    { gapless: false },
    [300, 'it follows position 301'],
  ],
])('positions %s', async ([, positions, options, ...problems]) => {
  const log = logOf(positions.map((position) => created(position, 'alice')));
  expect(await problemsOf(log, options)).toEqual(
    problems.map(([position, problem]) => ({ position: BigInt(position), problem })),
  );
});

test('an event has the problem that the application finds', async () => {
  const log = logOf([created(1, 'alice', { data: {} }), created(2, 'bob')]);
  expect(await problemsOf(log)).toEqual([{ position: 1n, problem: 'it has no name' }]);
});

test('an event in SKIP_EVENTS is counted and included in the root, and its data is not checked', async () => {
  const events = [created(1, 'alice', { data: {} }), created(2, 'bob')];
  const skip = new Set([events[0]?.id as string]);
  const expected = { size: 2, root: rootOf(events), skipped: 1, problems: [] };
  expect(await verify(logOf(events), { skip })).toMatchObject(expected);
});

test('unknown event types are counted and in the root', async () => {
  const events = [created(1, 'alice'), unknownEvent(2, 'plant-alice/1', 1), unknownEvent(3, 'garden', 0)];
  expect(await verify(logOf(events))).toMatchObject({ unknown: 2, root: rootOf(events), problems: [] });
});

test('an event without a canonical form is a problem, and in the root, so that a change is detected', async () => {
  const written = (bytes: Buffer) => logOf([unknownEvent(1, 'plant-alice/1', 0, bytes)]);
  const { size, root, problems } = await verify(written(Buffer.of(0, 255)));
  expect(problems).toEqual([{ position: 1n, problem: 'it has no canonical form (RFC 8785)' }]);
  const { problemCount } = await verify(written(Buffer.of(0, 254)), { expect: { size, root } });
  expect(problemCount).toBe(2);
});

describe('the embedded log with data of another writer', () => {
  test.for<[string, before: string, after: string]>([
    ['a space', '{ "a":1}', '{"a":1}'],
    ['digits beyond the precision of a number', '{"a":9007199254740993}', '{"a":9007199254740992}'],
    ['text that is not JSON', 'a', 'b'],
    ['JSON with other spacing, and its text as a JSON string', '{ "a":1}', '"{ \\"a\\":1}"'],
    ['text that is not JSON, and the same as a JSON string', 'a', '"a"'],
  ])('has another root after a change of %s', async ([, before, after]) => {
    const [{ root }, changed] = [await verify(await logWith(before)), await verify(await logWith(after))];
    expect(changed.root).not.toBe(root);
  });

  test.each(['zoé', 'zo\ufffd'])(
    'has another root when the stream of %s is changed to Latin-1',
    async (user) => {
      const dir = tempDir();
      const store = await openIn(dir);
      await create(store, `plant-${user}/1`, 'Fern');
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
    const insert = "INSERT INTO events VALUES (1, 'e1', 'plant-alice/1', 0, 'PlantPruned', ?, '{}', '')";
    db.prepare(insert).run(data);
    return reading(dir);
  }

  function reading(dir: string): EventLog {
    const log = openLogReader(join(dir, 'log.db'), { forHashing: true });
    onTestFinished(() => log.close());
    return log;
  }
});

/** A view that halts on an event without data. */
class Lists extends ToDoLists {
  protected override fold(event: RecordedEvent, statements: Parameters<ToDoLists['fold']>[1]): void {
    if (event.data === null) throw new InvalidEvent(event);
    super.fold(event, statements);
  }
}

describe('a view', () => {
  const added = (position: number): RecordedEvent => ({
    ...item(position, position % 2 ? 'home' : 'work', 'Fern'),
    stream: `list-${position}`,
  });
  const EVENTS = Array.from({ length: 150 }, (_, i) => added(i + 1));

  /** The verification of a log with these events, and of a view with the first ones, changed by this SQL. */
  async function verifiedWith(applied: number, { logId = 'm', sql = '', events = EVENTS } = {}) {
    const file = join(tempDir(), 'view.db');
    const open = (path: string) => new Lists(path);
    const view = open(file);
    view.bind(logId);
    view.apply(EVENTS.slice(0, applied), NONE);
    view.close();
    using db = new DatabaseSync(file);
    db.exec(sql);
    const views = [{ name: 'lists', file, open }];
    const findProblem = ({ data }: RecordedEvent) => (data === null ? 'it has no data' : undefined);
    const options = { views, dataDir: tempDir(), isKnown: () => true, findProblem };
    return { file, ...(await verify(logOf(events), options)) };
  }

  test('of another log is one problem, and not compared', async () => {
    const { problems } = await verifiedWith(80, { logId: 'other' });
    expect(problems).toEqual([
      { problem: 'the view lists belongs to another log: the next start rebuilds it' },
    ]);
  });

  test('that cannot be read is one problem', async () => {
    const { file, problems, views } = await verifiedWith(80, { sql: 'DELETE FROM bookmark' });
    expect(problems).toEqual([{ problem: `cannot read the view ${file}: its bookmark is malformed` }]);
    expect(views).toEqual({ lists: { upTo: undefined } });
  });

  test('is compared beyond an invalid event, for which it must have no row', async () => {
    const malformed = { ...added(81), data: null };
    const { problems } = await verifiedWith(82, { events: EVENTS.with(80, malformed) });
    expect(problems).toEqual([
      { position: 81n, problem: 'it has no data' },
      { position: 81n, problem: expect.stringContaining('has a row that does not follow from the log') },
    ]);
  });
});

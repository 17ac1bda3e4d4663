import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { type Problem, ViewComparison } from '../../projections/viewComparison.ts';
import type { EventLog, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { tempDir } from '../support/tempDir.ts';
import { created } from './created.ts';

const NONE: ReadonlySet<string> = new Set();
const LOG_ID = 'slog';

const PLANTS = [
  created(1, 'alice', 'Fern'),
  created(2, 'bob', 'Oak'),
  created(3, 'alice', 'Moss'),
  created(5, 'bob', 'Elm'),
  created(6, 'alice', 'Ivy'),
  created(9, 'bob', 'Yew'),
];

/** A log with the reads of the comparison: single events, and the streams of plants. */
function logOf(events: readonly RecordedEvent[]): EventLog {
  const log: Partial<EventLog> = {
    readEvent: async (at) => events.find(({ position }) => position === at),
    readStream: async (name) => events.filter(({ stream }) => stream === name),
  };
  return log as EventLog;
}

/** A view with these events applied, open like in a server. */
async function viewOf(events: readonly RecordedEvent[], skip = NONE) {
  const file = join(tempDir(), 'view.db');
  const view = await PlantsByUser.open(file);
  await view.reset(LOG_ID);
  view.apply(events, skip);
  await view.save();
  onTestFinished(() => view.close());
  return { file, view, sql: (text: string) => tamper(file, text) };
}

function tamper(file: string, text: string): void {
  using db = new DatabaseSync(file);
  db.exec(text);
}

function open(file: string, events: readonly RecordedEvent[] = PLANTS, skip = NONE): ViewComparison {
  const comparison = ViewComparison.open(logOf(events), file, skip) as ViewComparison;
  onTestFinished(() => comparison.close());
  return comparison;
}

const missing = (position: bigint, user: string): Problem => ({
  position,
  problem: `the log has a plant of "${user}" that the view does not have`,
});
const surplus = (position: bigint, user: string, name: string): Problem => ({
  position,
  problem: `the view has a plant of "${user}" that the log does not have: {"name":"${name}"}`,
});
const beyond = (position: bigint, user: string, name: string): Problem => ({
  position,
  problem: `the view has a plant of "${user}" beyond its checkpoint: {"name":"${name}"}`,
});
const unknownCheckpoint = (position: bigint): Problem => ({
  position,
  problem: 'the checkpoint of the view names an event that the log does not have',
});

/** All differences from a log; `meanwhile` is called before the last read of the view. */
async function differences(
  comparison: ViewComparison,
  events: readonly RecordedEvent[],
  meanwhile: () => unknown = () => {},
): Promise<Problem[]> {
  for (const event of events) comparison.add(event);
  const problems = await comparison.problems();
  await meanwhile();
  return [...problems, ...(await Array.fromAsync(comparison.remaining()))];
}

describe('a view that is the fold of its log', () => {
  test('has no differences', async () => {
    expect(await differences(open((await viewOf(PLANTS)).file), PLANTS)).toEqual([]);
  });

  test('has none at any checkpoint, with later events in the log', async () => {
    for (let seen = 0; seen <= PLANTS.length; seen++) {
      const comparison = open((await viewOf(PLANTS.slice(0, seen))).file);
      expect(comparison.checkpoint.position).toBe(PLANTS[seen - 1]?.position ?? 0n);
      expect(await differences(comparison, PLANTS)).toEqual([]);
    }
  });

  test('has none if it processes events meanwhile', async () => {
    const { file, view } = await viewOf(PLANTS.slice(0, 3));
    const applyRest = (): Promise<void> => {
      view.apply(PLANTS.slice(3), NONE);
      return view.save();
    };
    expect(await differences(open(file), PLANTS, applyRest)).toEqual([]);
  });

  test('has none if an event creates no plant', async () => {
    const events = [
      ...PLANTS,
      { ...created(10, 'alice', 'x'), type: 'PlantWatered' },
      { ...created(11, 'alice', 'x'), revision: 1n },
      { ...created(12, 'alice', 'x'), stream: 'garden' },
    ];
    expect(await differences(open((await viewOf(events)).file, events), events)).toEqual([]);
  });

  test('has none for events in SKIP_EVENTS', async () => {
    const skip = new Set(['event-3']);
    const { file } = await viewOf(PLANTS, skip);
    expect(await differences(open(file, PLANTS, skip), PLANTS)).toEqual([]);
    expect(await differences(open(file), PLANTS)).toEqual([missing(3n, 'alice')]);
  });

  test('has none before an event that halted the projection', async () => {
    const malformed = { ...created(10, 'alice', ''), data: { name: 5 } };
    expect(await differences(open((await viewOf(PLANTS)).file), [...PLANTS, malformed])).toEqual([]);
  });

  test('is not changed, and can be written by its server', async () => {
    const { file, view } = await viewOf(PLANTS.slice(0, 3));
    const [before, wal] = [readFileSync(file), readFileSync(`${file}-wal`)];
    const comparison = open(file);
    await differences(comparison, PLANTS);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    view.apply(PLANTS.slice(3), NONE);
    await view.save();
    expect(view.applied.position).toBe(9n);
  });
});

describe('a view differs if', () => {
  const weed = (user: string, position: number) =>
    `INSERT INTO plants VALUES ('${user}', ${position}, 9, '9', '{"name":"Weed"}', 0, 0)`;
  const changed = { position: 2n, problem: 'by the log it is {"name":"Oak"}, in the view {"name":"Weed"}' };
  const ofBob = [2n, 5n, 9n].map((position) => missing(position, 'bob'));

  test.for<[what: string, sql: string, ...problems: Problem[]]>([
    ['a plant is changed', `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 2`, changed],
    ['a plant is missing', 'DELETE FROM plants WHERE position = 3', missing(3n, 'alice')],
    ['all plants of a user are missing', "DELETE FROM plants WHERE user = 'bob'", ...ofBob],
    ['a plant has no event', weed('alice', 4), surplus(4n, 'alice', 'Weed')],
    ['a plant belongs to another user', weed('alice', 2), surplus(2n, 'alice', 'Weed')],
    [
      'a plant has another position',
      'UPDATE plants SET position = 4 WHERE position = 3',
      missing(3n, 'alice'),
      surplus(4n, 'alice', 'Moss'),
    ],
    ['a plant is beyond the checkpoint', weed('alice', 10), beyond(10n, 'alice', 'Weed')],
    [
      'the checkpoint is between two events',
      'UPDATE checkpoint SET position = 8',
      unknownCheckpoint(8n),
      beyond(9n, 'bob', 'Yew'),
    ],
    [
      'the checkpoint has the ID of another event',
      "UPDATE checkpoint SET event_id = 'event-6'",
      unknownCheckpoint(9n),
    ],
  ])('%s', async ([, tamperWith, ...problems]) => {
    const { file, sql } = await viewOf(PLANTS);
    sql(tamperWith);
    expect(await differences(open(file), PLANTS)).toEqual(problems);
  });

  test('the log has lost processed events', async () => {
    const log = PLANTS.slice(0, 5);
    const problems = await differences(open((await viewOf(PLANTS)).file, log), log);
    expect(problems).toEqual([unknownCheckpoint(9n), surplus(9n, 'bob', 'Yew')]);
  });

  test('any row is changed, missing or added', async () => {
    const change = fc.constantFrom(
      (at: bigint) => `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = ${at}`,
      (at: bigint) => `UPDATE plants SET user = user || '!' WHERE position = ${at}`,
      (at: bigint) => `DELETE FROM plants WHERE position = ${at}`,
      (at: bigint) => `INSERT INTO plants VALUES ('carol', ${at}, 9, '9', '{"name":"Weed"}', 0, 0)`,
    );
    const { file: original, view } = await viewOf(PLANTS);
    await view.close();
    const file = join(tempDir(), 'view.db');
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...PLANTS), change, async ({ position }, change) => {
        copyFileSync(original, file);
        tamper(file, change(position));
        const comparison = ViewComparison.open(logOf(PLANTS), file, NONE) as ViewComparison;
        const problems = await differences(comparison, PLANTS);
        comparison.close();
        expect(new Set(problems.map((problem) => problem.position))).toEqual(new Set([position]));
      }),
      { numRuns: 30 },
    );
  });
});

describe('a view that is rebuilt meanwhile', () => {
  /** The differences of a view that is rebuilt from these events during the comparison. */
  async function differencesAfter(logId: string, events: readonly RecordedEvent[]): Promise<Problem[]> {
    const { file, view } = await viewOf(PLANTS);
    return differences(open(file), PLANTS, async () => {
      await view.reset(logId);
      view.apply(events, NONE);
      await view.save();
    });
  }

  test.for([
    ['is empty', LOG_ID, []],
    ['is behind', LOG_ID, PLANTS.slice(0, 2)],
    ['belongs to another log', 'another', PLANTS],
  ] as const)('and %s is reported as rebuilt', async ([, logId, events]) => {
    const rebuilt = { problem: 'the view was rebuilt meanwhile: verify again' };
    expect(await differencesAfter(logId, events)).toContainEqual(rebuilt);
  });

  test('and has caught up again has no differences', async () => {
    expect(await differencesAfter(LOG_ID, PLANTS)).toEqual([]);
  });

  test('in a new file does not affect a reader of the old one', async () => {
    const { file, view } = await viewOf(PLANTS);
    const comparison = open(file);
    await view.close();
    for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part);
    await (await PlantsByUser.open(file)).close();
    expect(await differences(comparison, PLANTS)).toEqual([]);
  });
});

describe('a file', () => {
  const tampered =
    (sql: string) =>
    async (file: string): Promise<void> => {
      await (await PlantsByUser.open(file)).close();
      tamper(file, sql);
    };

  test('that is missing is no view', () => {
    const file = join(tempDir(), 'view.db');
    expect(ViewComparison.open(logOf([]), file, NONE)).toBeUndefined();
    expect(existsSync(file)).toBe(false);
  });

  test.for<[what: string, make: (file: string) => unknown, reason: RegExp]>([
    ['of garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage')), /not a database/],
    ['that is empty', (file) => writeFileSync(file, ''), /not this view/],
    ['of another program', (file) => tamper(file, 'CREATE TABLE music (title TEXT)'), /not this view/],
    ['of another version', tampered('PRAGMA user_version = 7'), /version 7, not 3/],
    ['without its checkpoint', tampered('DELETE FROM checkpoint'), /checkpoint/],
  ])('%s is rejected with the reason, and not changed', async ([, make, reason]) => {
    const file = join(tempDir(), 'view.db');
    await make(file);
    const before = readFileSync(file);
    expect(() => ViewComparison.open(logOf([]), file, NONE)).toThrow(reason);
    expect(readFileSync(file).equals(before)).toBe(true);
  });
});

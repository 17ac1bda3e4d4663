import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PlantsByUser } from '../../projections/plantsByUser.ts';
import { type Fault, ViewComparison } from '../../projections/viewComparison.ts';
import type { EventLog, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { tempDir } from '../support/tempDir.ts';
import { created } from './created.ts';

const NONE: ReadonlySet<string> = new Set();
const MARK = 'slog';

const GARDEN = [
  created(1, 'alice', 'Fern'),
  created(2, 'bob', 'Oak'),
  created(3, 'alice', 'Moss'),
  created(5, 'bob', 'Elm'),
  created(6, 'alice', 'Ivy'),
  created(9, 'bob', 'Yew'),
];

/** Of a log the comparison asks only for single events. */
function logOf(events: readonly RecordedEvent[]): EventLog {
  const eventAt = async (at: bigint) => events.find(({ position }) => position === at);
  return { eventAt } as Partial<EventLog> as EventLog;
}

/** A view that has seen these events, open as a server has it. */
function viewOf(events: readonly RecordedEvent[], skip = NONE) {
  const file = join(tempDir(), 'view.db');
  const view = new PlantsByUser(file);
  view.reset(MARK);
  view.apply(events, skip);
  view.save();
  onTestFinished(() => view.close());
  return { file, view, sql: (text: string) => tamper(file, text) };
}

function tamper(file: string, text: string): void {
  using db = new DatabaseSync(file);
  db.exec(text);
}

function open(file: string, skip = NONE): ViewComparison {
  const comparison = ViewComparison.open(file, skip) as ViewComparison;
  onTestFinished(() => comparison.close());
  return comparison;
}

/** All that a comparison with a log gives; `meanwhile` happens before the view is looked at for the last time. */
async function differences(
  comparison: ViewComparison,
  events: readonly RecordedEvent[],
  meanwhile = () => {},
): Promise<Fault[]> {
  const faults = events.flatMap((event) => comparison.compare(event));
  meanwhile();
  return [...faults, ...(await Array.fromAsync(comparison.rest(logOf(events))))];
}

describe('a view that is the fold of its log', () => {
  test('has no differences', async () => {
    expect(await differences(open(viewOf(GARDEN).file), GARDEN)).toEqual([]);
  });

  test('has none at any checkpoint, whatever the log has beyond it', async () => {
    for (let seen = 0; seen <= GARDEN.length; seen++) {
      const comparison = open(viewOf(GARDEN.slice(0, seen)).file);
      expect(comparison.checkpoint.position).toBe(GARDEN[seen - 1]?.position ?? 0n);
      expect(await differences(comparison, GARDEN)).toEqual([]);
    }
  });

  test('has none when it goes on meanwhile', async () => {
    const { file, view } = viewOf(GARDEN.slice(0, 3));
    const goOn = (): void => {
      view.apply(GARDEN.slice(3), NONE);
      view.save();
    };
    expect(await differences(open(file), GARDEN, goOn)).toEqual([]);
  });

  test('has none where an event makes no plant', async () => {
    const events = [
      ...GARDEN,
      { ...created(10, 'alice', 'x'), type: 'PlantWatered' },
      { ...created(11, 'alice', 'x'), revision: 1n },
      { ...created(12, 'alice', 'x'), stream: 'garden' },
    ];
    expect(await differences(open(viewOf(events).file), events)).toEqual([]);
  });

  test('has none where an operator passes over an event', async () => {
    const skip = new Set(['event-3']);
    const { file } = viewOf(GARDEN, skip);
    expect(await differences(open(file, skip), GARDEN)).toEqual([]);
    expect(await differences(open(file), GARDEN)).toEqual([
      { position: 3n, fault: 'the log has a plant of "alice" that the view has not' },
    ]);
  });

  test('has none before an event that has stopped it', async () => {
    const malformed = { ...created(10, 'alice', ''), data: { name: 5 } };
    expect(await differences(open(viewOf(GARDEN).file), [...GARDEN, malformed])).toEqual([]);
  });

  test('is left as it is, and is no hindrance to its server', async () => {
    const { file, view } = viewOf(GARDEN.slice(0, 3));
    const [before, wal] = [readFileSync(file), readFileSync(`${file}-wal`)];
    const comparison = open(file);
    await differences(comparison, GARDEN);
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readFileSync(`${file}-wal`).equals(wal)).toBe(true);
    view.apply(GARDEN.slice(3), NONE);
    view.save();
    expect(view.checkpoint.position).toBe(9n);
  });
});

describe('a view differs where', () => {
  test.for<[what: string, sql: string, ...faults: Fault[]]>([
    [
      'a plant is another',
      `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = 2`,
      { position: 2n, fault: 'the log says {"name":"Oak"}, the view says {"name":"Weed"}' },
    ],
    [
      'a plant is missing',
      'DELETE FROM plants WHERE position = 3',
      { position: 3n, fault: 'the log has a plant of "alice" that the view has not' },
    ],
    [
      'all plants of a user are missing',
      "DELETE FROM plants WHERE user = 'bob'",
      { position: 2n, fault: 'the log has a plant of "bob" that the view has not' },
      { position: 5n, fault: 'the log has a plant of "bob" that the view has not' },
      { position: 9n, fault: 'the log has a plant of "bob" that the view has not' },
    ],
    [
      'a plant is that of an event there is not',
      `INSERT INTO plants VALUES ('alice', 4, '{"name":"Weed"}')`,
      { position: 4n, fault: 'the view has a plant of "alice" that the log has not: {"name":"Weed"}' },
    ],
    [
      'a plant is that of another user',
      `INSERT INTO plants VALUES ('alice', 2, '{"name":"Weed"}')`,
      { position: 2n, fault: 'the view has a plant of "alice" that the log has not: {"name":"Weed"}' },
    ],
    [
      'a plant has moved',
      'UPDATE plants SET position = 4 WHERE position = 3',
      { position: 3n, fault: 'the log has a plant of "alice" that the view has not' },
      { position: 4n, fault: 'the view has a plant of "alice" that the log has not: {"name":"Moss"}' },
    ],
    [
      'a plant is beyond the checkpoint',
      `INSERT INTO plants VALUES ('alice', 10, '{"name":"Weed"}')`,
      { position: 10n, fault: 'the view has a plant of "alice" beyond its checkpoint: {"name":"Weed"}' },
    ],
    [
      'the checkpoint is between two events',
      'UPDATE checkpoint SET position = 8',
      { position: 8n, fault: 'the checkpoint of the view names an event that is not there' },
      { position: 9n, fault: 'the view has a plant of "bob" beyond its checkpoint: {"name":"Yew"}' },
    ],
    [
      'the checkpoint is that of another event',
      "UPDATE checkpoint SET event_id = 'event-6'",
      { position: 9n, fault: 'the checkpoint of the view names an event that is not there' },
    ],
  ])('%s', async ([, sql, ...faults]) => {
    const { file, sql: tamperWith } = viewOf(GARDEN);
    tamperWith(sql);
    expect(await differences(open(file), GARDEN)).toEqual(faults);
  });

  test('the log has lost what it has seen', async () => {
    const { file } = viewOf(GARDEN);
    expect(await differences(open(file), GARDEN.slice(0, 5))).toEqual([
      { position: 9n, fault: 'the checkpoint of the view names an event that is not there' },
      { position: 9n, fault: 'the view has a plant of "bob" that the log has not: {"name":"Yew"}' },
    ]);
  });

  test('any one row is another, is missing or is too much', async () => {
    const change = fc.constantFrom(
      (at: bigint) => `UPDATE plants SET plant = '{"name":"Weed"}' WHERE position = ${at}`,
      (at: bigint) => `UPDATE plants SET user = user || '!' WHERE position = ${at}`,
      (at: bigint) => `DELETE FROM plants WHERE position = ${at}`,
      (at: bigint) => `INSERT INTO plants VALUES ('carol', ${at}, '{"name":"Weed"}')`,
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...GARDEN), change, async ({ position }, change) => {
        const { file, view, sql } = viewOf(GARDEN);
        sql(change(position));
        const comparison = ViewComparison.open(file, NONE) as ViewComparison;
        const faults = await differences(comparison, GARDEN);
        comparison.close();
        view.close();
        expect(new Set(faults.map((fault) => fault.position))).toEqual(new Set([position]));
      }),
      { numRuns: 30 },
    );
  });
});

describe('a view that is built anew meanwhile', () => {
  const anew = { fault: 'the view has been built anew meanwhile: verify again' };

  test.for<[when: string, rebuild: (view: PlantsByUser) => void]>([
    ['is empty', (view) => view.reset(MARK)],
    [
      'has not come as far',
      (view) => {
        view.reset(MARK);
        view.apply(GARDEN.slice(0, 2), NONE);
        view.save();
      },
    ],
    [
      'is that of another log',
      (view) => {
        view.reset('another');
        view.apply(GARDEN, NONE);
        view.save();
      },
    ],
  ])('and %s is said to be', async ([, rebuild]) => {
    const { file, view } = viewOf(GARDEN);
    expect(await differences(open(file), GARDEN, () => rebuild(view))).toContainEqual(anew);
  });

  test('and has come as far again is as good as the one before', async () => {
    const { file, view } = viewOf(GARDEN);
    const rebuild = (): void => {
      view.reset(MARK);
      view.apply(GARDEN, NONE);
      view.save();
    };
    expect(await differences(open(file), GARDEN, rebuild)).toEqual([]);
  });

  test('in a new file does not matter to who has the old one open', async () => {
    const { file, view } = viewOf(GARDEN);
    const comparison = open(file);
    view.close();
    for (const part of [file, `${file}-wal`, `${file}-shm`]) rmSync(part);
    new PlantsByUser(file).close();
    expect(await differences(comparison, GARDEN)).toEqual([]);
  });
});

describe('a file', () => {
  test('that is not there is no view', () => {
    const file = join(tempDir(), 'view.db');
    expect(ViewComparison.open(file, NONE)).toBeUndefined();
    expect(existsSync(file)).toBe(false);
  });

  test.for<[what: string, make: (file: string) => void, reason: RegExp]>([
    ['of garbage', (file) => writeFileSync(file, Buffer.alloc(10_000, 'garbage')), /not a database/],
    ['without anything in it', (file) => writeFileSync(file, ''), /no view of plants/],
    ['of another program', (file) => tamper(file, 'CREATE TABLE music (title TEXT)'), /no view of plants/],
    [
      'of another version',
      (file) => {
        new PlantsByUser(file).close();
        tamper(file, 'PRAGMA user_version = 7');
      },
      /version 7, not 1/,
    ],
    [
      'without its checkpoint',
      (file) => {
        new PlantsByUser(file).close();
        tamper(file, 'DELETE FROM checkpoint');
      },
      /checkpoint/,
    ],
  ])('%s is refused with the reason, and left as it is', ([, make, reason]) => {
    const file = join(tempDir(), 'view.db');
    make(file);
    const before = readFileSync(file);
    expect(() => ViewComparison.open(file, NONE)).toThrow(reason);
    expect(readFileSync(file).equals(before)).toBe(true);
  });
});

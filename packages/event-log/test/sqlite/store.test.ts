import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { appendTo, logWith, plantOf } from '@event-sourced/testing/logs';
import { openFiles, openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { NO_STREAM, START, type StoreObserver, WrongExpectedRevision } from '../../src/eventStore.ts';
import { openLogFile } from '../../src/sqlite/file.ts';
import { openSqliteStore } from '../../src/sqlite/store.ts';
import { event, eventStoreContract, everything } from '../../src/testing/contract.ts';

/** The transactions in a write-ahead log (https://sqlite.org/walformat.html): frames that end one. */
function commitsIn(wal: string): number {
  const bytes = readFileSync(wal);
  const FRAME = 24 + bytes.readUInt32BE(8);
  let commits = 0;
  for (let at = 32; at < bytes.length; at += FRAME) if (bytes.readUInt32BE(at + 4) > 0) commits++;
  return commits;
}

/** Records what a store reports: commits by the number of their appends, and appends by how they ended. */
function recorder() {
  const outcomes = { stored: 0, wrongRevision: 0, failed: 0 };
  const commits: number[] = [];
  let uncleanStops = 0;
  const observer: StoreObserver = {
    onAppends(outcome, count) {
      outcomes[outcome] += count;
    },
    onCommit(appends, seconds) {
      expect(seconds).toBeGreaterThan(0);
      commits.push(appends);
    },
    onUncleanStop: () => void uncleanStops++,
    onReconnect: () => expect.unreachable(),
    onLeaderChange: () => expect.unreachable(),
    onSubscriptionDropped: () => expect.unreachable(),
  };
  return { observer, outcomes, commits, uncleanStops: () => uncleanStops };
}

const open = openFiles((file) => openSqliteStore({ file }));
eventStoreContract('the embedded event store', open);

describe('the embedded log', () => {
  function logWithTwoEvents(): DatabaseSync {
    const db = openLogFile(join(logWith({ events: 2 }), 'log.db'));
    onTestFinished(() => db.close());
    return db;
  }

  const replace = (key: string) =>
    `INSERT OR REPLACE INTO events SELECT ${key}, type, data, metadata, recorded_at FROM events LIMIT 1`;
  test.each([
    ['updated', "UPDATE events SET data = '{}'"],
    ['deleted', 'DELETE FROM events'],
    ['replaced by position', replace("1, 'new', 'plant-x/9', 0")],
    ['replaced by id', replace("9, id, 'plant-x/9', 0")],
    ['replaced by stream', replace("9, 'new', stream, revision")],
  ])('cannot be %s', async (_, sql) => {
    const db = logWithTwoEvents();
    const before = db.prepare('SELECT * FROM events').all();
    expect(() => db.exec(sql)).toThrow('the log is append-only');
    expect(db.prepare('SELECT * FROM events').all()).toEqual(before);
  });

  test('accepts only values of the declared types', async () => {
    const db = logWithTwoEvents();
    expect(() => db.exec("INSERT INTO events VALUES (9, 'i', 's', 'zero', 't', '{}', '{}', 'now')")).toThrow(
      'cannot store TEXT value in INTEGER column',
    );
  });

  test('commits together what arrives while the writer is busy, and resolves each append in order', async () => {
    const dir = tempDir();
    const [store, file] = [await openIn(dir), join(dir, 'log.db')];
    const known = event('known');
    const first = await store.append('plant-alice/known', known, NO_STREAM);
    const busy = new DatabaseSync(file);
    busy.exec('BEGIN IMMEDIATE');
    const before = commitsIn(`${file}-wal`);
    const resolved: string[] = [];
    const appends = Array.from({ length: 1_000 }, async (_, i) => {
      const { position } = await store.append(`plant-bob/${i}`, event(`${i}`), NO_STREAM);
      resolved.push(`${i}`);
      return position;
    });
    const taken = store.append('plant-alice/known', event('other'), NO_STREAM);
    const repeated = store.append('plant-alice/known', known, NO_STREAM);
    const refused = expect(taken).rejects.toThrow(WrongExpectedRevision);
    await nextTurn();
    expect(resolved).toEqual([]);
    busy.exec('ROLLBACK');
    busy.close();
    const positions = await Promise.all(appends);
    expect(positions).toEqual(positions.map((_, i) => first.position + BigInt(i) + 1n));
    expect(resolved).toEqual(positions.map((_, i) => `${i}`));
    await refused;
    expect(await repeated).toEqual(first);
    expect(commitsIn(`${file}-wal`) - before).toBeLessThan(10);
    expect((await everything(store)).map(({ position }) => position)).toEqual([first.position, ...positions]);
  });

  test('reports each commit and how its appends ended, and that it was not closed', async () => {
    const dir = tempDir();
    const { observer, outcomes, commits, uncleanStops } = recorder();
    const file = join(dir, 'log.db');
    const store = await openSqliteStore({ file, observer });
    const once = event('once');
    await store.append('plant-alice/1', once, NO_STREAM);
    expect([commits, outcomes]).toEqual([[1], { stored: 1, wrongRevision: 0, failed: 0 }]);
    const appends = [
      store.append('plant-alice/1', once, NO_STREAM), // again: its first result
      store.append('plant-alice/1', event('other'), NO_STREAM),
      store.append('plant-alice/2', event('no such revision'), 7n),
      store.append('plant-bob/1', once, NO_STREAM),
      ...Array.from({ length: 12 }, (_, i) => store.append(`plant-bob/${i + 2}`, event(`${i}`), NO_STREAM)),
    ];
    await Promise.allSettled(appends);
    expect(commits).toEqual([1, 16]);
    expect(outcomes).toEqual({ stored: 14, wrongRevision: 2, failed: 1 });

    const copy = join(tempDir(), 'log.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${file}${suffix}`, `${copy}${suffix}`);
    await store.close();
    await expect(store.append('plant-carol/1', event('late'), NO_STREAM)).rejects.toThrow(
      'the log is closed',
    );
    expect(outcomes.failed).toBe(2);
    for (const [opened, stops] of [
      [file, 0],
      [copy, 1],
    ] as const) {
      const again = await openSqliteStore({ file: opened, observer });
      expect(uncleanStops()).toBe(stops);
      await again.close();
    }
  });

  test('yields to subscribers also events of another writer', async () => {
    const dir = tempDir();
    const store = await openIn(dir);
    const stop = new AbortController();
    const batches = store.subscribe({ after: START, signal: stop.signal });
    const following = Array.fromAsync(batches, ({ events }) => {
      if (events.at(-1)?.position === 3n) stop.abort();
      return events.map(({ stream }) => stream);
    });
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    appendTo(dir, plantOf('alice', 2, 'Fern'));
    await store.append('plant-alice/3', event('third'), NO_STREAM);
    expect((await following).flat()).toEqual(['plant-alice/1', 'plant-alice/2', 'plant-alice/3']);
  });

  test('is closed and opened during a read transaction without losing events', async () => {
    const dir = logWith({ events: 1 });
    const store = await openIn(dir);
    const reader = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    reader.exec('BEGIN');
    expect(reader.prepare('SELECT count(*) AS n FROM events').get()).toEqual({ n: 1 });
    await store.append('plant-alice/2', event('second'), NO_STREAM);
    await store.close();
    for (const isReading of [true, false]) {
      if (!isReading) reader.close();
      const again = await openIn(dir);
      expect(await everything(again)).toHaveLength(2);
      await again.close();
    }
  });
});

test('a log that is being closed starts no WAL checkpoint on the shared thread: its writer moves everything', async () => {
  const file = join(tempDir(), 'log.db');
  const walCheckpoint = vi.fn(async () => undefined);
  const store = await openSqliteStore({ file, walThread: { walCheckpoint } });
  const title = 'x'.repeat(8 * 1024 * 1024);
  const append = (i: number) =>
    store.append(`plant-alice/${i}`, { ...event(`${i}`), data: { title } }, NO_STREAM);
  const appended = Array.from({ length: 9 }, (_, i) => append(i));
  await store.close();
  await Promise.all(appended);
  expect(walCheckpoint).not.toHaveBeenCalled();
});

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type EventStore, NO_STREAM, START } from '../../../src/eventStore/eventStore.ts';
import { openLogFile, UnusableLog } from '../../../src/eventStore/sqlite/file.ts';
import { openSqliteStore } from '../../../src/eventStore/sqlite/store.ts';
import { tempDir } from '../../support/tempDir.ts';
import { event, eventStoreContract, everything } from '../contract.ts';

const files = new WeakMap<EventStore, string>();

async function open(again?: EventStore): Promise<EventStore> {
  const file = (again && files.get(again)) ?? join(tempDir(), 'log.db');
  const store = await openSqliteStore({ file, now: () => new Date(), onFatal: fail });
  files.set(store, file);
  return store;
}

function fail(error: Error): never {
  throw error;
}

eventStoreContract('the embedded event store', open);

describe('the embedded log', () => {
  async function logWithTwoEvents(): Promise<DatabaseSync> {
    const store = await open();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.append('plant-bob/1', event('second'), NO_STREAM);
    await store.close();
    const db = openLogFile(files.get(store) as string);
    onTestFinished(() => db.close());
    return db;
  }

  const REPLACE = 'INSERT OR REPLACE INTO events SELECT';
  test.each([
    ['updated', "UPDATE events SET data = '{}'"],
    ['deleted', 'DELETE FROM events'],
    [
      'replaced by position',
      `${REPLACE} 1, 'new', 'plant-x/9', 0, type, data, metadata, recorded_at FROM events LIMIT 1`,
    ],
    [
      'replaced by id',
      `${REPLACE} 9, id, 'plant-x/9', 0, type, data, metadata, recorded_at FROM events LIMIT 1`,
    ],
    [
      'replaced by stream',
      `${REPLACE} 9, 'new', stream, revision, type, data, metadata, recorded_at FROM events LIMIT 1`,
    ],
  ])('cannot be %s', async (_, sql) => {
    const db = await logWithTwoEvents();
    const before = db.prepare('SELECT * FROM events').all();
    expect(() => db.exec(sql)).toThrow('the log is append-only');
    expect(db.prepare('SELECT * FROM events').all()).toEqual(before);
  });

  test('accepts only values of the declared types', async () => {
    const db = await logWithTwoEvents();
    expect(() => db.exec("INSERT INTO events VALUES (9, 'i', 's', 'zero', 't', '{}', '{}', 'now')")).toThrow(
      'cannot store TEXT value in INTEGER column',
    );
  });

  test('is written with synchronous=FULL, so that a commit is durable', async () => {
    const db = await logWithTwoEvents();
    const pragma = (name: string) => Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
    expect(pragma('journal_mode')).toBe('wal');
    expect(pragma('synchronous')).toBe(2); // FULL
    expect(pragma('recursive_triggers')).toBe(1);
  });

  test('writes concurrent appends in one transaction', async () => {
    const file = join(tempDir(), 'log.db');
    let commits = 0;
    const now = () => new Date(1_000 * ++commits);
    const store = await openSqliteStore({ file, now, onFatal: fail });
    onTestFinished(() => store.close());
    await Promise.all([1, 2, 3].map((i) => store.append(`plant-alice/${i}`, event(`${i}`), NO_STREAM)));
    expect(commits).toBe(1);
    await store.append('plant-alice/4', event('4'), NO_STREAM);
    expect(commits).toBe(2);
  });

  test('rejects an event ID of another stream, and accepts later appends', async () => {
    const store = await open();
    onTestFinished(() => store.close());
    const once = event('once');
    await store.append('plant-alice/1', once, NO_STREAM);
    await expect(store.append('plant-bob/1', once, NO_STREAM)).rejects.toThrow('events.id');
    await store.append('plant-bob/2', event('next'), NO_STREAM);
    expect(await everything(store)).toHaveLength(2);
  });

  test('yields to subscribers also events of another writer', async () => {
    const store = await open();
    onTestFinished(() => store.close());
    const seen: string[] = [];
    const stop = new AbortController();
    const following = (async () => {
      for await (const { events } of store.subscribe({ after: START, signal: stop.signal })) {
        seen.push(...events.map(({ stream }) => stream));
        if (seen.length >= 3) stop.abort();
      }
    })();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const other = openLogFile(files.get(store) as string);
    other.exec("INSERT INTO events VALUES (2, 'i', 'plant-alice/2', 0, 'Other', '{}', '{}', 'now')");
    other.close();
    await store.append('plant-alice/3', event('third'), NO_STREAM);
    await following;
    expect(seen).toEqual(['plant-alice/1', 'plant-alice/2', 'plant-alice/3']);
  });

  test('returns data that is not JSON as text', async () => {
    const db = await logWithTwoEvents();
    db.exec("INSERT INTO events VALUES (9, 'i', 'plant-x/1', 0, 'Other', 'no json', '{}', 'now')");
    const store = await openSqliteStore({
      file: db.location() as string,
      now: () => new Date(),
      onFatal: fail,
    });
    onTestFinished(() => store.close());
    expect((await store.readEvent(9n))?.data).toBe('no json');
  });

  test('is closed during a read transaction without losing events', async () => {
    const store = await open();
    const file = files.get(store) as string;
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const reader = new DatabaseSync(file, { readOnly: true });
    reader.exec('BEGIN');
    expect(reader.prepare('SELECT count(*) AS n FROM events').get()).toEqual({ n: 1 });
    await store.append('plant-alice/2', event('second'), NO_STREAM);
    await store.close();
    reader.close();
    const again = await open(store);
    onTestFinished(() => again.close());
    expect(await everything(again)).toHaveLength(2);
  });

  test('is not created beside an orphaned write-ahead log', () => {
    const file = join(tempDir(), 'log.db');
    writeFileSync(`${file}-wal`, 'left over');
    expect(() => openLogFile(file)).toThrow(UnusableLog);
  });
});

describe('a log after a crash', () => {
  test('can be opened during a read transaction', async () => {
    const store = await open();
    const file = files.get(store) as string;
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const reader = new DatabaseSync(file, { readOnly: true });
    onTestFinished(() => reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM events').all();
    await store.append('plant-alice/2', event('second'), NO_STREAM);
    await store.close();
    const again = await open(store);
    onTestFinished(() => again.close());
    expect(await everything(again)).toHaveLength(2);
  });

  test('without its tables is rejected, since it is not new', () => {
    const file = join(tempDir(), 'log.db');
    const db = new DatabaseSync(file);
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); DROP TABLE t');
    db.close();
    expect(() => openLogFile(file)).toThrow('not a plant store log');
  });
});

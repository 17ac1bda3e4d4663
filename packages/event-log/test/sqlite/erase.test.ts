import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { erasable, eraseIn, scrubbed, stubFor } from '@event-sourced/testing/erase';
import { filesWith } from '@event-sourced/testing/filesWith';
import { appendTo, type EventToStore, logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isStub } from '../../src/erasure/erasure.ts';
import {
  type ErasableStore,
  type EventStore,
  NO_STREAM,
  type RecordedEvent,
  StoreUnavailable,
} from '../../src/eventStore.ts';
import { copyLogFile } from '../../src/sqlite/backup.ts';
import { checkLogFile } from '../../src/sqlite/integrity.ts';
import { openSqliteStore } from '../../src/sqlite/store.ts';
import { event, everything } from '../../src/testing/contract.ts';

const NEVER = new AbortController().signal;

async function openStore(dir = tempDir()): Promise<{ dir: string; store: ErasableStore }> {
  const store = await openSqliteStore({ file: join(dir, 'log.db') });
  onTestFinished(() => store.close());
  return { dir, store: erasable(store) };
}

const erase = (store: ErasableStore, user: string, perRecord?: number): Promise<number> =>
  eraseIn(store, 'list-', (stream) => stream.startsWith(`list-${user}/`), perRecord);

async function append(store: EventStore, user: string, count: number): Promise<void> {
  const append = (i: number) => store.append(`list-${user}/${i}`, event(`to do of ${user}`), NO_STREAM);
  await Promise.all(Array.from({ length: count }, (_, i) => append(i)));
}

const LIKE_STUB = {
  ...stubFor({ position: 1n, id: '', type: '', data: 0 } as RecordedEvent, 'list-alice/'),
  revision: 0,
} as EventToStore;
const LIKE_STUBS = [LIKE_STUB, { ...LIKE_STUB, id: crypto.randomUUID(), stream: 'list-alice/1' }];

describe('erasing streams', () => {
  test('leaves stubs at their positions, and appends the record', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 2);
    await append(store, 'bob', 1);
    const before = (await everything(store)) as [RecordedEvent, RecordedEvent, RecordedEvent];
    expect(await erase(store, 'alice')).toBe(2);
    const [first, second, bob, record, ...none] = await everything(store);
    expect(first).toEqual({ ...stubFor(before[0], 'list-'), revision: 0n });
    expect(second).toEqual({ ...stubFor(before[1], 'list-'), revision: 0n });
    expect(bob).toEqual(before[2]);
    expect(record).toMatchObject({ position: 4n, type: 'EventsErased', data: { erased: [0, 1] } });
    expect(none).toEqual([]);
    using db = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    expect(db.prepare('SELECT recorded_at FROM events WHERE position = 1').get()).toEqual({
      recorded_at: '',
    });
  });

  test('resolves with the positions of the records', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 2);
    const stubs = (await everything(store)).map((event) => stubFor(event, 'list-'));
    const records = ['list-erasure-1', 'list-erasure-2'].map((stream) => ({ stream, event: event(stream) }));
    expect(await store.erase(stubs, records)).toEqual([3n, 4n]);
    expect([store.indexOf(3n), store.positionOf(2)]).toEqual([2, 3n]);
  });

  test('removes their bytes from all files, also from split pages of indexes', async () => {
    const { dir, store } = await openStore();
    const users = Array.from({ length: 40 }, (_, i) => `gardener${i}`);
    for (let i = 0; i < 30; i++)
      await Promise.all(
        users.map((user) => store.append(`list-${user}/${i}`, event(`herb of ${user}.`), NO_STREAM)),
      );
    const erased = users.filter((_, i) => i % 4 === 0);
    const ids = (await everything(store))
      .filter(({ stream }) => erased.some((user) => stream.startsWith(`list-${user}/`)))
      .map(({ id }) => id);
    for (const user of erased) expect(await erase(store, user)).toBe(30);
    await scrubbed(store);
    const texts = erased.flatMap((user) => [`list-${user}/`, `herb of ${user}.`]);
    expect(filesWith(dir, ...texts, ...ids)).toEqual([]);
    expect(filesWith(dir, 'list-gardener1/')).toEqual(['log.db']);
  }, 300_000);

  test('removes them from a large log, of which only the indexes are rewritten', async () => {
    const user = "format('gardener%04d', (id * 7919) % 997)"; // streams in no order, so that pages are split
    const { dir, store } = await openStore(logWith({ events: 60_000, user }));
    const users = Array.from({ length: 997 }, (_, n) => `gardener${String(n).padStart(4, '0')}`);
    const erased = users.filter((_, n) => n % 2 === 1);
    const has = (stream: string): boolean => erased.some((name) => stream.startsWith(`plant-${name}/`));
    const events = await eraseIn(store, 'plant-', has);
    expect(events).toBeGreaterThan(20_000);
    await scrubbed(store);
    expect(filesWith(dir, ...erased)).toEqual([]);
    expect(filesWith(dir, 'gardener0004')).toEqual(['log.db']);
  }, 300_000);

  test('again erases nothing, and what was appended later is not erased before', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 1);
    expect(await erase(store, 'alice')).toBe(1);
    expect(await erase(store, 'alice')).toBe(0);
    await append(store, 'alice', 2); // the stream of the erased event can be used again
    expect((await store.readStream('list-alice/0', 2)).map(({ revision }) => revision)).toEqual([0n]);
    expect(await erase(store, 'alice')).toBe(2);
  });

  test('that no event is in appends no record', async () => {
    const { store } = await openStore();
    await append(store, 'bob', 1);
    expect(await erase(store, 'alice')).toBe(0);
    expect(await everything(store)).toHaveLength(1);
    expect(await store.scrub()).toBe(true);
  });

  test('with several records delivers all of them to subscribers', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 5);
    const stop = new AbortController();
    const batches = store.subscribe({ after: 5n, signal: stop.signal })[Symbol.asyncIterator]();
    await batches.next();
    const next = batches.next();
    await erase(store, 'alice', 3);
    const { value } = await next;
    expect(value.events.map(({ type }: RecordedEvent) => type)).toEqual(['EventsErased', 'EventsErased']);
    stop.abort();
  });

  test('overwrites what another program has written with the type of stubs', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 1);
    appendTo(dir, ...LIKE_STUBS);
    expect(await erase(store, 'alice')).toBe(3);
    expect(await erase(store, 'alice')).toBe(0);
  });

  test('overwrites neither a stream in part nor a stub, and appends nothing then', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 1);
    await store.append('list-alice/0', event('second'), 0n);
    const [first] = (await everything(store)) as [RecordedEvent];
    const stub = stubFor(first, 'list-');
    const record = { stream: 'list-erasure', event: event('record') };
    await expect(store.erase([stub], [record])).rejects.toThrow(StoreUnavailable);
    expect((await everything(store)).map(isStub)).toEqual([false, false]);
    await erase(store, 'alice');
    await expect(store.erase([stub], [record])).rejects.toThrow('position 1 has no event to erase');
    await expect(store.erase([{ ...stub, position: 99n }], [])).rejects.toThrow(StoreUnavailable);
    expect(await everything(store)).toHaveLength(3);
  });

  test('keeps the log append-only and its file without problems', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 3);
    await append(store, 'bob', 3);
    await erase(store, 'alice');
    await scrubbed(store);
    await using resources = new AsyncDisposableStack();
    const found = await checkLogFile(join(dir, 'log.db'), { signal: NEVER, resources });
    expect(found).toEqual({ problems: [], notices: [] });
    using db = new DatabaseSync(join(dir, 'log.db'));
    expect(() => db.exec("UPDATE events SET data = ''")).toThrow('the log is append-only');
  });

  test('runs beside appends, which are in the log once', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 50);
    await Promise.all([erase(store, 'alice'), append(store, 'bob', 100), append(store, 'carol', 100)]);
    const events = await everything(store);
    expect(events).toHaveLength(251);
    expect(events.map(({ position }) => position)).toEqual(events.map((_, i) => BigInt(i + 1)));
  });

  test.each([2, 3])(
    'is not for a log with stubs of before, of version %i, which stays as it is',
    async (version) => {
      const { dir, store } = await openStore();
      await store.close();
      const file = join(dir, 'log.db');
      {
        using db = new DatabaseSync(file);
        db.exec(`PRAGMA user_version = ${version}`);
      }
      const before = readFileSync(file);
      await expect(openSqliteStore({ file })).rejects.toThrow(
        'version 1 of this program has erased events in it, and only version 1 can read them',
      );
      expect(readFileSync(file).equals(before)).toBe(true);
    },
  );

  test('leaves a log that earlier programs do not open', async () => {
    const { dir, store } = await openStore();
    const version = (): unknown => {
      using db = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
      return db.prepare('PRAGMA user_version').get();
    };
    await append(store, 'alice', 1);
    expect(version()).toEqual({ user_version: 1 });
    await erase(store, 'alice');
    await scrubbed(store);
    expect(version()).toEqual({ user_version: 4 });
  });
});

describe('the scrub', () => {
  test('takes two steps for any number of erasures: the pages, then the write-ahead log', async () => {
    const { dir, store } = await openStore();
    const users = Array.from({ length: 10 }, (_, i) => `gardener${i}`);
    for (const user of users) await append(store, user, 3);
    for (const user of users) await erase(store, user);
    expect([await store.scrub(), await store.scrub(), await store.scrub()]).toEqual([false, true, true]);
    expect(filesWith(dir, 'gardener')).toEqual([]);
  });

  test('waits for a reader that needs old pages, while appends go on', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 1);
    using reader = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT * FROM events');
    await erase(store, 'alice');
    await append(store, 'bob', 1);
    expect(filesWith(dir, 'alice')).not.toEqual([]);
    expect(await store.scrub()).toBe(false);
    expect(await store.scrub()).toBe(false);
    reader.exec('COMMIT');
    await scrubbed(store);
    expect(filesWith(dir, 'alice')).toEqual([]);
  });

  test('is finished by the next start', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 1);
    const reader = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT * FROM events');
    await erase(store, 'alice');
    await store.close();
    reader.close();
    expect(filesWith(dir, 'alice')).not.toEqual([]);
    const { store: next } = await openStore(dir);
    await scrubbed(next);
    expect(filesWith(dir, 'alice')).toEqual([]);
    expect(await next.scrub()).toBe(true);
  });

  test('clears the first page of a log that was written without secure_delete', async () => {
    const dir = tempDir();
    const { store } = await openStore(dir);
    await append(store, 'bob', 1);
    await store.close();
    {
      using old = new DatabaseSync(join(dir, 'log.db'));
      old.exec('PRAGMA secure_delete = OFF');
      const insert = old.prepare("INSERT INTO events VALUES (?, ?, ?, 0, 'Created', ?, '{}', '')");
      for (let i = 2; i < 200; i++)
        insert.run(i, `${i}`.padStart(36, 'a'), `list-${i < 20 ? 'alice' : 'bob'}/${i}`, `{"text":"${i}"}`);
    }
    const { store: next } = await openStore(dir);
    expect(await erase(next, 'alice')).toBe(18);
    await scrubbed(next);
    expect(filesWith(dir, 'list-alice')).toEqual([]);
  });
});

test('a backup that was made while the log was not scrubbed is a clean log', async () => {
  const { dir, store } = await openStore();
  await append(store, 'alice', 1);
  using reader = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
  reader.exec('BEGIN; SELECT * FROM events');
  await erase(store, 'alice');
  const file = join(tempDir(), 'copy.db');
  await copyLogFile(join(dir, 'log.db'), file, NEVER);
  using db = new DatabaseSync(file, { readOnly: true });
  expect(db.prepare('PRAGMA user_version').get()).toEqual({ user_version: 4 });
  reader.exec('COMMIT');
});

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { stopClock, untilSettled } from '@event-sourced/testing/clock';
import { filesWith } from '@event-sourced/testing/filesWith';
import { appendTo, logWith } from '@event-sourced/testing/logs';
import { tempDir } from '@event-sourced/testing/tempDir';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { canErase, type ErasableStore, eraseStreams } from '../../src/eraseStreams.ts';
import { EVENTS_ERASED, erasureData, stubOf } from '../../src/erasure.ts';
import { type EventStore, NO_STREAM, type RecordedEvent, StoreUnavailable } from '../../src/eventStore.ts';
import { readToEnd } from '../../src/readEvents.ts';
import { copyDatabase } from '../../src/sqlite/backup.ts';
import { checkLogFile } from '../../src/sqlite/integrity.ts';
import { LogBackup } from '../../src/sqlite/logBackup.ts';
import { openSqliteStore } from '../../src/sqlite/store.ts';
import { event, everything } from '../../src/testing/contract.ts';
import { Thread } from '../../src/threads/thread.ts';

const streamsFrom = (start: string) => ({ start, has: (stream: string) => stream.startsWith(start) });

const leafOf = ({ id, stream, data }: RecordedEvent): string =>
  hash('sha256', JSON.stringify([id, stream, data]));
const options = { prefix: 'list-', leafOf, now: () => new Date('2026-01-01T00:00:00.000Z') };
const NEVER = new AbortController().signal;

async function openStore(dir = tempDir()): Promise<{ dir: string; store: ErasableStore }> {
  const store = await openSqliteStore({ file: join(dir, 'log.db') });
  onTestFinished(() => store.close());
  if (!canErase(store)) throw new Error('the embedded log can erase');
  return { dir, store };
}

const erase = (store: ErasableStore, user: string): Promise<number> =>
  eraseStreams(store, { ...options, streams: streamsFrom(`list-${user}/`) });

async function append(store: EventStore, user: string, count: number): Promise<void> {
  const append = (i: number) => store.append(`list-${user}/${i}`, event(`to do of ${user}`), NO_STREAM);
  await Promise.all(Array.from({ length: count }, (_, i) => append(i)));
}

async function leaves(store: EventStore): Promise<string[]> {
  const events = [];
  for await (const batch of readToEnd(store.forHashing)) events.push(...batch.events);
  return events.map((one) => one.erased ?? leafOf(one));
}

const LIKE_STUB = {
  ...stubOf('0'.repeat(64), 'list-alice/'),
  revision: 0,
  data: { leaf: '0'.repeat(64) },
  metadata: {},
};
const LIKE_STUBS = [LIKE_STUB, { ...LIKE_STUB, id: crypto.randomUUID(), stream: 'list-alice/1' }];

describe('erasing streams', () => {
  test('leaves stubs with the leaf hashes at their positions, and a record with both', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 2);
    await append(store, 'bob', 1);
    const before = await everything(store);
    const hashes = await leaves(store);
    expect(await erase(store, 'alice')).toBe(2);
    const [first, second, bob, record, ...none] = await everything(store);
    const [one, two] = hashes as [string, string];
    expect(first).toEqual({ position: 1n, ...stubOf(one, 'list-'), erased: one });
    expect(second).toEqual({ position: 2n, ...stubOf(two, 'list-'), erased: two });
    expect(bob).toEqual(before[2]);
    expect(record).toMatchObject({
      type: 'EventsErased',
      stream: expect.stringMatching(/^list-erasure-/),
      data: {
        log: await store.logId(),
        events: [
          { position: '1', leaf: one },
          { position: '2', leaf: two },
        ],
      },
    });
    expect(none).toEqual([]);
    using db = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    expect(db.prepare('SELECT recorded_at FROM events WHERE position = 1').get()).toEqual({
      recorded_at: '',
    });
    expect((await leaves(store)).slice(0, 3)).toEqual(hashes);
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
    await store.scrubbing;
    for (const user of erased) {
      expect(filesWith(dir, `list-${user}/`)).toEqual([]);
      expect(filesWith(dir, `herb of ${user}.`)).toEqual([]);
    }
    for (const id of ids) expect(filesWith(dir, id)).toEqual([]);
    expect(filesWith(dir, 'list-gardener1/')).toEqual(['log.db']);
  }, 300_000);

  test('removes them from a large log, of which only the indexes are rewritten', async () => {
    const user = "format('gardener%04d', (id * 7919) % 997)"; // streams in no order, so that pages are split
    const { dir, store } = await openStore(logWith({ events: 60_000, user }));
    const users = Array.from({ length: 997 }, (_, n) => `gardener${String(n).padStart(4, '0')}`);
    const erased = users.filter((_, n) => n % 2 === 1);
    const has = (stream: string): boolean => erased.some((name) => stream.startsWith(`plant-${name}/`));
    const events = await eraseStreams(store, { ...options, streams: { start: 'plant-gardener', has } });
    expect(events).toBeGreaterThan(20_000);
    await store.scrubbing;
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
    expect(store.scrubbing).toBeUndefined();
  });

  test('with more than 500 events has several records, which subscribers get', async () => {
    const { store } = await openStore();
    await append(store, 'alice', 501);
    const stop = new AbortController();
    const batches = store.subscribe({ after: 501n, signal: stop.signal })[Symbol.asyncIterator]();
    await batches.next();
    const next = batches.next();
    await erase(store, 'alice');
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
    const stub = { position: first.position, ...stubOf(leafOf(first), 'list-') };
    const record = { stream: 'list-erasure', event: event('record') };
    await expect(store.erase([stub], [record])).rejects.toThrow(StoreUnavailable);
    expect((await everything(store)).map(({ erased }) => erased)).toEqual([undefined, undefined]);
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
    await store.scrubbing;
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

  test('leaves a log that earlier programs do not open', async () => {
    const { dir, store } = await openStore();
    const version = (): unknown => {
      using db = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
      return db.prepare('PRAGMA user_version').get();
    };
    await append(store, 'alice', 1);
    expect(version()).toEqual({ user_version: 1 });
    await erase(store, 'alice');
    await store.scrubbing;
    expect(version()).toEqual({ user_version: 2 });
  });
});

describe('the scrub', () => {
  test('is shared by erasures that follow each other', async () => {
    const { dir, store } = await openStore();
    const users = Array.from({ length: 10 }, (_, i) => `gardener${i}`);
    for (const user of users) await append(store, user, 3);
    const call = vi.spyOn(Thread.prototype, 'call');
    onTestFinished(() => call.mockRestore());
    stopClock();
    for (const user of users) await erase(store, user);
    await untilSettled(Promise.resolve(store.scrubbing));
    expect(filesWith(dir, 'gardener')).toEqual([]);
    const steps = call.mock.calls.filter(([operation]) => (operation as string) === 'scrub');
    expect(steps).toHaveLength(2); // the pages, then the write-ahead log
  });

  test('waits for a reader that needs old pages, while appends go on', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 1);
    using reader = new DatabaseSync(join(dir, 'log.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT * FROM events');
    await erase(store, 'alice');
    await append(store, 'bob', 1);
    expect(filesWith(dir, 'alice')).not.toEqual([]);
    expect(store.scrubbing).toBeInstanceOf(Promise);
    reader.exec('COMMIT');
    await store.scrubbing;
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
    await next.scrubbing;
    expect(filesWith(dir, 'alice')).toEqual([]);
    expect(next.scrubbing).toBeUndefined();
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
    await next.scrubbing;
    expect(filesWith(dir, 'list-alice')).toEqual([]);
  });
});

describe('a backup', () => {
  async function backUp(dir: string): Promise<string> {
    const file = join(dir, 'copy.db');
    await copyDatabase(join(dir, 'log.db'), file, NEVER);
    return file;
  }

  async function continueBackup(file: string, dir: string): Promise<void> {
    using backup = new LogBackup(file, join(dir, 'log.db'));
    await backup.append({ ...options, signal: NEVER });
    backup.commit();
  }

  test('that is continued erases what the log has erased, also its last event', async () => {
    const { dir, store } = await openStore();
    await append(store, 'bob', 30);
    appendTo(dir, ...LIKE_STUBS);
    await store.append('list-alice/2', event('last'), NO_STREAM);
    const file = await backUp(dir);
    await erase(store, 'alice');
    await store.scrubbing;
    expect(filesWith(dir, 'alice')).toEqual(['copy.db']);
    await continueBackup(file, dir);
    expect(filesWith(dir, 'alice')).toEqual([]);
    const { store: restored } = await openStore(await restore(file));
    expect(await leaves(restored)).toEqual(await leaves(store));
    expect(restored.scrubbing).toBeUndefined();
  });

  test('that is continued has the later events of an erased stream', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 2);
    const file = await backUp(dir);
    const erased = (await everything(store)).map(({ id }) => id);
    await erase(store, 'alice');
    await append(store, 'alice', 1);
    await store.scrubbing;
    await continueBackup(file, dir);
    const { store: restored } = await openStore(await restore(file));
    expect(await everything(restored)).toEqual(await everything(store));
    for (const id of erased) expect(filesWith(dir, id)).toEqual([]);
  });

  const FIRST = { stream: 'list-alice/0', ...event('to do') };
  const [LEAF, OTHER] = [leafOf(FIRST as unknown as RecordedEvent), '0'.repeat(64)];
  const recordOf = (leaf: string) => {
    const data = erasureData({ log: 'a log', events: [{ position: 2n, leaf }] });
    return { stream: `list-erasure-${leaf}`, event: { ...event('record'), type: EVENTS_ERASED, data } };
  };

  test.each([
    ['that no later record names', LEAF, [], 'no later record names the stub at position 2'],
    ['of another event', OTHER, [recordOf(OTHER)], 'a stub at position 2 that is not of the event'],
  ])('is not continued, and is unchanged, over a stub %s', async (_, leaf, records, message) => {
    const { dir, store } = await openStore();
    const earlier = recordOf(LEAF);
    await store.append(earlier.stream, earlier.event, NO_STREAM);
    await store.append(FIRST.stream, FIRST, NO_STREAM);
    const file = await backUp(dir);
    const before = readFileSync(file);
    await store.erase([{ position: 2n, ...stubOf(leaf, 'list-') }], records);
    await expect(continueBackup(file, dir)).rejects.toThrow(message);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test('is unchanged without a commit', async () => {
    const { dir, store } = await openStore();
    await append(store, 'alice', 30);
    const file = await backUp(dir);
    const before = readFileSync(file);
    await erase(store, 'alice');
    {
      using backup = new LogBackup(file, join(dir, 'log.db'));
      await backup.append({ ...options, signal: NEVER });
    }
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  async function restore(file: string): Promise<string> {
    const dir = tempDir();
    await copyDatabase(file, join(dir, 'log.db'), NEVER);
    return dir;
  }
});

import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { anyJson } from '@event-sourced/testing/anyJson';
import { openFiles, openIn } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type Batch,
  type EventLog,
  type EventStore,
  type NewEvent,
  NO_STREAM,
  START,
} from '../../src/eventStore.ts';
import { openLogFile, UnusableLog } from '../../src/sqlite/file.ts';
import { openLogReader } from '../../src/sqlite/read.ts';
import { openSqliteStore } from '../../src/sqlite/store.ts';
import { event, eventStoreContract, everything } from '../../src/testing/contract.ts';

const MAX_INDEXED_EVENTS = 10_000;

/** Stores that write and read with different connections. */
const openBoth = openFiles(async (file) => {
  const writing = await openSqliteStore({ file });
  const reading = openLogReader(file, { forHashing: true });
  return {
    ...reading,
    forHashing: reading,
    append: writing.append,
    async close() {
      await writing.close();
      await reading.close();
    },
  };
});
eventStoreContract('a reader of the embedded log beside its writer', openBoth);

function openLog(file: string, forHashing = false): EventLog {
  const log = openLogReader(file, { forHashing });
  onTestFinished(() => log.close());
  return log;
}

/** A store and a reader of its log. */
async function both() {
  const dir = tempDir();
  const store = await openIn(dir);
  const file = join(dir, 'log.db');
  return { dir, file, store, log: openLog(file) };
}

/** A connection of another writer, until the end of the test. */
function openWriter(file: string): DatabaseSync {
  const db = openLogFile(file);
  onTestFinished(() => db.close());
  return db;
}

/** A subscription to the whole log. */
const subscribe = (log: EventLog, { signal } = new AbortController()) =>
  log.subscribe({ after: START, signal }) as AsyncGenerator<Batch>;

const appendMany = (store: EventStore, count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) => store.append(`plant-bob/${i}`, event(`${i}`), NO_STREAM)),
  );

const namesIn = (events: readonly { data: unknown }[]) =>
  events.map(({ data }) => (data as { name: string }).name);

describe('a reader of the embedded log beside its server', () => {
  test('reads during a write transaction, and returns its event after the commit only', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openWriter(file);
    writing.exec(
      "BEGIN IMMEDIATE; INSERT INTO events VALUES (2, 'i', 'plant-bob/1', 0, 'T', '{\"name\":\"second\"}', '{}', 'now')",
    );
    expect(namesIn(await everything(log))).toEqual(['first']);
    expect(await log.lastPosition()).toBe(1n);
    expect(await log.readEvent(2n)).toBeUndefined();
    expect(await log.readStream('plant-bob/1', 1)).toEqual([]);
    writing.exec('COMMIT');
    expect(namesIn(await everything(log))).toEqual(['first', 'second']);
    expect(await log.lastPosition()).toBe(2n);
  });

  test('finds a few events of a prefix in one page, and many events page by page', async () => {
    const { file, log } = await both();
    const insert = openWriter(file).prepare(`
      WITH RECURSIVE ids(n) AS (SELECT ? UNION ALL SELECT n + 1 FROM ids WHERE n < ?)
      INSERT INTO events SELECT n, n, ? || n, 0, 'T', '{}', '{}', 'now' FROM ids`);
    insert.run(1, 3, 'plant-alice/');
    insert.run(4, MAX_INDEXED_EVENTS + 4, 'plant-bob/');
    const ofAlice = await log.readBackwards({ limit: 5, prefix: 'plant-alice/' });
    expect(ofAlice.events.map(({ position }) => position)).toEqual([3n, 2n, 1n]);
    expect(ofAlice.isEnd).toBe(true);
    const last = BigInt(MAX_INDEXED_EVENTS + 4);
    const forwards = await log.readAll({ after: 1n, limit: 5, prefix: 'plant-alice/' });
    expect(forwards.events.map(({ position }) => position)).toEqual([2n, 3n]);
    expect(forwards).toMatchObject({ position: last, isEnd: true });
    const some = await log.readAll({ after: 1n, limit: 2, prefix: 'plant-alice/' });
    expect(some).toMatchObject({ position: 3n, isEnd: false });
    expect(await log.readAll({ after: 3n, limit: 2, prefix: 'plant-bob/' })).toMatchObject({ position: 5n });
    for (const prefix of ['plant-bob/', 'plant-']) {
      const page = await log.readBackwards({ before: last, limit: 2, prefix });
      expect(page.events.map(({ position }) => position)).toEqual([last - 1n, last - 2n]);
    }
  });

  test('reads positions with gaps', async () => {
    const { file, store, log } = await both();
    await appendMany(store, 499);
    const writing = openWriter(file);
    const insert = (position: number) =>
      writing.exec(
        `INSERT INTO events VALUES (${position}, '${position}', 'gap-${position}', 0, 'T', '{}', '{}', 'now')`,
      );
    for (const position of [600, 1_000, 1_001]) insert(position);
    const positions: bigint[] = [];
    for await (const { events } of subscribe(log)) {
      positions.push(...events.map(({ position }) => position));
      if (positions.length === 502) insert(5_000);
      if (positions.length === 503) break;
    }
    expect(positions.slice(498)).toEqual([499n, 600n, 1_000n, 1_001n, 5_000n]);
    expect(await log.lastPosition()).toBe(5_000n);
  });

  test('does not block a writer, even while a subscription is paused', async () => {
    const { file, store, log } = await both();
    await appendMany(store, 1_001);
    const batches = subscribe(log);
    expect((await batches.next()).value.events).toHaveLength(500);
    const writing = openWriter(file);
    writing.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; COMMIT');
    // Only without an open read transaction is the whole write-ahead log checkpointed.
    const checkpoint = writing.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    expect(checkpoint).toEqual({ busy: 0, log: 0, checkpointed: 0 });
    await store.append('plant-alice/1', event('last'), NO_STREAM);
    const rest: number[] = [];
    for (let next = await batches.next(); !next.value.caughtUp; next = await batches.next())
      rest.push(next.value.events.length);
    expect(rest).toEqual([500]);
    await batches.return(undefined);
  });

  test('cannot write, and changes no byte of the log, also after a crash', async () => {
    const { dir, store } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.append('plant-bob/1', event('second'), NO_STREAM);
    const left = tempDir();
    for (const name of ['log.db', 'log.db-wal']) copyFileSync(join(dir, name), join(left, name));
    await store.close();
    for (const place of [dir, left]) {
      const one = join(place, 'log.db');
      const before = contentsOf(one);
      const log = openLogReader(one);
      expect(log).not.toHaveProperty('append');
      expect(namesIn(await everything(log))).toEqual(['first', 'second']);
      await log.close();
      expect(contentsOf(one)).toEqual(before);
      expect(namesIn(await everything(await openIn(place)))).toEqual(['first', 'second']);
    }
  });

  test('ends a paused subscription when it is closed, and rejects later reads', async () => {
    const { store, log } = await both();
    await appendMany(store, 501);
    const stopped = subscribe(log);
    await stopped.next();
    await log.close();
    expect(await stopped.next()).toEqual({ value: undefined, done: true });
    await expect(log.lastPosition()).rejects.toMatchObject({ name: 'StoreUnavailable' });
    await expect(log.readEvent(1n)).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
});

test('a log that is missing or empty is rejected, and not created', () => {
  const dir = tempDir();
  const empty = join(dir, 'empty.db');
  writeFileSync(empty, '');
  for (const file of [empty, join(dir, 'log.db'), join(dir, 'nowhere', 'log.db')])
    expect(() => openLogReader(file)).toThrow(new UnusableLog(`there is no log ${file}`));
  expect(readdirSync(dir)).toEqual(['empty.db']);
  expect(readFileSync(empty)).toHaveLength(0);
});

describe('a reader for hashing', () => {
  /** The data of events that another writer stored, as read for hashing and parsed. */
  async function dataOf(...written: (string | Uint8Array)[]) {
    const file = join(tempDir(), 'log.db');
    using db = openLogFile(file);
    const insert = db.prepare(
      "INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (?, ?, 0, 'T', CAST(? AS TEXT), '{}', 'now')",
    );
    for (const [i, data] of written.entries()) insert.run(`${i}`, `plant-bob/${i}`, Buffer.from(data));
    const read = async (forHashing: boolean) =>
      (await everything(openLog(file, forHashing))).map(({ data }) => data);
    return { forHashing: await read(true), parsed: await read(false) };
  }

  test.each([
    ['white space', '{"name": "Fern"}', { name: 'Fern' }],
    ['a line feed at its end', '{"name":"Fern"}\n', { name: 'Fern' }],
    ['unnecessary escapes', '{"name":"\\u0046ern"}', { name: 'Fern' }],
    ['a duplicate key', '{"name":"Fern","name":"Fern"}', { name: 'Fern' }],
    ['a number with a zero fraction', '{"size":1.0}', { size: 1 }],
    ['a negative zero', '{"size":-0}', { size: -0 }],
    ['digits beyond the precision of a double', '{"size":9007199254740993}', { size: 9_007_199_254_740_992 }],
    ['numeric keys in another order', '{"name":"Fern","1":2}', { 1: 2, name: 'Fern' }],
    ['nothing but words', 'no json', 'no json'],
    ['trailing characters', '{"name":"Fern"}\0more', '{"name":"Fern"}\0more'],
    ['a byte order mark before it', '\ufeff{"name":"Fern"}', '\ufeff{"name":"Fern"}'],
  ])('returns JSON with %s as text', async (_, text, value) => {
    expect(await dataOf(text)).toEqual({ forHashing: [text], parsed: [value] });
  });

  test.each<[string, one: string, other: string | Uint8Array]>([
    ['U+FFFD, and invalid UTF-8', '{"name":"\ufffd"}', Buffer.from('{"name":"\xff"}', 'latin1')],
    ['text, and the JSON of that text', 'fern', '"fern"'],
    ['JSON with other formatting, and the JSON of that text', '{"size":1.0}', '"{\\"size\\":1.0}"'],
  ])('returns different data for different bytes: %s', async (_, one, other) => {
    const { forHashing } = await dataOf(one, other);
    expect(forHashing[1]).not.toEqual(forHashing[0]);
  });

  test('returns data that is not UTF-8 as bytes, and other fields as text', async () => {
    const file = join(tempDir(), 'log.db');
    using db = openLogFile(file);
    db.exec(`INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
      VALUES ('1', 'plant-bob/1', 0, CAST(x'54ff' AS TEXT), CAST(x'22ff22' AS TEXT), '{}', 'now')`);
    const [found] = await everything(openLog(file, true));
    expect(found).toMatchObject({
      type: '\udc54\udcff',
      data: Uint8Array.of(0x22, 0xff, 0x22),
      metadata: {},
    });
  });

  test('returns everything that this store writes as the same value', async () => {
    const { file, store } = await both();
    const log = openLog(file, true);
    const unit = fc.nat({ max: 0xffff }).map((code) => String.fromCharCode(code)); // with unpaired surrogates
    const json = anyJson({ stringUnit: unit }) as fc.Arbitrary<NewEvent['data'][string]>;
    const object = fc.dictionary(fc.string({ unit }), json);
    let streams = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(object, object), { minLength: 1 }), async (contents) => {
        const written = contents.map(async ([data, metadata]) => {
          const stream = `plant-bob/${streams++}`;
          await store.append(stream, { ...event('any'), data, metadata }, NO_STREAM);
          const [found] = await log.readStream(stream, 1);
          expect(JSON.stringify([found?.data, found?.metadata])).toBe(JSON.stringify([data, metadata]));
        });
        await Promise.all(written);
      }),
      { numRuns: 50 },
    );
  });

  test('returns other data for every changed byte', async () => {
    const plant = JSON.stringify({ id: '42', user: 'alice', name: 'Fern 🌿', tag: 'indoor' });
    const bytes = Buffer.from(plant);
    const altered = Array.from(bytes, (byte, at) => bytes.map((other, i) => (i === at ? byte ^ 1 : other)));
    const { forHashing } = await dataOf(plant, ...altered);
    expect(forHashing[0]).toEqual(JSON.parse(plant));
    const texts = forHashing.map((data) => JSON.stringify(data));
    expect(new Set(texts).size).toBe(texts.length);
  });
});

/** The bytes of the log and of its write-ahead log; a missing write-ahead log equals an empty one. */
function contentsOf(file: string): string[] {
  const wal = existsSync(`${file}-wal`) ? readFileSync(`${file}-wal`, 'hex') : '';
  return [readFileSync(file, 'hex'), wal];
}

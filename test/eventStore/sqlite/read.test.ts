import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  type EventLog,
  type EventStore,
  type Json,
  NO_STREAM,
  START,
} from '../../../src/eventStore/eventStore.ts';
import { openLogFile, UnusableLog } from '../../../src/eventStore/sqlite/file.ts';
import { openLogReader } from '../../../src/eventStore/sqlite/read.ts';
import { openSqliteStore } from '../../../src/eventStore/sqlite/store.ts';
import { tempDir } from '../../support/tempDir.ts';
import { event, eventStoreContract, everything } from '../contract.ts';

const files = new WeakMap<EventStore, string>();

/** A store that writes and reads with different connections. */
async function openBoth(again?: EventStore): Promise<EventStore> {
  const file = (again && files.get(again)) ?? join(tempDir(), 'log.db');
  const writing = await openSqliteStore({ file, now: () => new Date(), onFatal: fail });
  const reading = openLogReader(file, { exact: true });
  const store: EventStore = {
    ...reading,
    append: writing.append,
    async close() {
      await writing.close();
      await reading.close();
    },
  };
  files.set(store, file);
  return store;
}

function fail(error: Error): never {
  throw error;
}

eventStoreContract('a reader of the embedded log beside its writer', openBoth);

async function openStore(file: string): Promise<EventStore> {
  const store = await openSqliteStore({ file, now: () => new Date(), onFatal: fail });
  onTestFinished(() => store.close());
  return store;
}

function openLog(file: string, exact = false): EventLog {
  const log = openLogReader(file, { exact });
  onTestFinished(() => log.close());
  return log;
}

/** A store and a reader of its log. */
async function both() {
  const file = join(tempDir(), 'log.db');
  const store = await openStore(file);
  return { file, store, log: openLog(file) };
}

const appendMany = (store: EventStore, count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) => store.append(`plant-bob/${i}`, event(`${i}`), NO_STREAM)),
  );

const readAll = (log: EventLog) => everything(log as EventStore);
const namesIn = (events: readonly { data: unknown }[]) =>
  events.map(({ data }) => (data as { name: string }).name);

describe('a reader of the embedded log beside its server', () => {
  test('yields small batches of large events, like the store', async () => {
    const { file, store } = await both();
    const large = 'x'.repeat(60_000);
    for (let id = 0; id < 40; id++) await store.append(`plant-bob/${id}`, event(large), NO_STREAM);
    await store.append('plant-alice/1', event('Fern'), NO_STREAM);
    await store.close();
    for (const log of [openLog(file), await openStore(file)]) {
      const names: string[] = [];
      const { signal } = new AbortController();
      for await (const { events, caughtUp } of log.subscribe({ after: START, signal })) {
        expect(events.length).toBeLessThanOrEqual(5);
        names.push(...namesIn(events));
        if (caughtUp) break;
      }
      expect(names).toEqual([...Array(40).fill(large), 'Fern']);
    }
  });

  test('returns an event after its commit, and not before', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec(
      "BEGIN IMMEDIATE; INSERT INTO events VALUES (2, 'i', 'plant-bob/1', 0, 'T', '{\"name\":\"second\"}', '{}', 'now')",
    );
    expect(namesIn(await readAll(log))).toEqual(['first']);
    expect([
      await log.lastPosition(),
      await log.readEvent(2n),
      await log.readStream('plant-bob/1', 1),
    ]).toEqual([1n, undefined, []]);
    writing.exec('COMMIT');
    expect(namesIn(await readAll(log))).toEqual(['first', 'second']);
    expect(await log.lastPosition()).toBe(2n);
  });

  test('never returns events of a rolled-back transaction', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openLogFile(file);
    writing.exec(
      "BEGIN; INSERT INTO events VALUES (2, 'i', 'plant-bob/1', 0, 'T', '{}', '{}', 'now'); ROLLBACK",
    );
    writing.close();
    await store.append('plant-bob/2', event('second'), NO_STREAM);
    expect(namesIn(await readAll(log))).toEqual(['first', 'second']);
  });

  test('yields each event when it is committed, in order', async () => {
    const { store, log } = await both();
    await store.append('plant-alice/1', event('0'), NO_STREAM);
    const stop = new AbortController();
    const seen: string[] = [];
    const batches: number[] = [];
    for await (const { events, caughtUp } of log.subscribe({ after: START, signal: stop.signal })) {
      expect(caughtUp).toBe(true);
      seen.push(...namesIn([...events]));
      batches.push(events.length);
      if (seen.length === 4) stop.abort();
      else await store.append(`plant-bob/${seen.length}`, event(`${seen.length}`), NO_STREAM);
    }
    expect(seen).toEqual(['0', '1', '2', '3']);
    expect(batches).toEqual([1, 1, 1, 1]);
  });

  test.each([499, 500, 501, 1_000])('reports that it has caught up after %s events', async (count) => {
    const { store, log } = await both();
    await appendMany(store, count);
    const { signal } = new AbortController();
    let seen = 0;
    let end = 0;
    for await (const { events, caughtUp } of log.subscribe({ after: START, signal })) {
      seen += events.length;
      if (!caughtUp) continue;
      end = seen;
      break;
    }
    expect({ seen, end }).toEqual({ seen: count, end: count });
  });

  test('reads positions with gaps', async () => {
    const { file, store, log } = await both();
    await appendMany(store, 499);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    const insert = (position: number) =>
      writing.exec(
        `INSERT INTO events VALUES (${position}, '${position}', 'gap-${position}', 0, 'T', '{}', '{}', 'now')`,
      );
    for (const position of [600, 1_000, 1_001]) insert(position);
    const positions: bigint[] = [];
    const stop = new AbortController();
    for await (const { events } of log.subscribe({ after: START, signal: stop.signal })) {
      positions.push(...events.map(({ position }) => position));
      if (positions.length === 502) insert(5_000);
      if (positions.length === 503) stop.abort();
    }
    expect(positions.slice(498)).toEqual([499n, 600n, 1_000n, 1_001n, 5_000n]);
    expect(await log.lastPosition()).toBe(5_000n);
  });

  test('returns the log ID of the store, which does not change', async () => {
    const { file, store, log } = await both();
    expect(await log.logId()).toBe(await store.logId());
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.close();
    expect(await openLog(file).logId()).toBe(await log.logId());
  });

  test('does not block a writer, even while a subscription is paused', async () => {
    const { file, store, log } = await both();
    await appendMany(store, 1_001);
    const batches = log
      .subscribe({ after: START, signal: new AbortController().signal })
      [Symbol.asyncIterator]();
    expect((await batches.next()).value.events).toHaveLength(500);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; COMMIT');
    // Only without an open read transaction is the whole write-ahead log checkpointed.
    expect(writing.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()).toEqual({
      busy: 0,
      log: 0,
      checkpointed: 0,
    });
    await store.append('plant-alice/1', event('last'), NO_STREAM);
    const rest: number[] = [];
    for (let next = await batches.next(); !next.value.caughtUp; next = await batches.next())
      rest.push(next.value.events.length);
    expect(rest).toEqual([500]);
    await batches.return?.();
  });

  test('reads during a write transaction', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec('BEGIN EXCLUSIVE');
    expect(namesIn(await readAll(log))).toEqual(['first']);
    writing.exec('COMMIT');
  });

  test('cannot write, and changes no byte of the log, also after a crash', async () => {
    const { file, store } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.append('plant-bob/1', event('second'), NO_STREAM);
    const left = join(tempDir(), 'log.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${file}${suffix}`, `${left}${suffix}`);
    await store.close();
    for (const one of [file, left]) {
      const before = contentsOf(one);
      const log = openLogReader(one);
      expect(log).not.toHaveProperty('append');
      expect(namesIn(await readAll(log))).toEqual(['first', 'second']);
      await log.close();
      expect(contentsOf(one)).toEqual(before);
      expect(namesIn(await readAll(await openStore(one)))).toEqual(['first', 'second']);
    }
  });

  test('ends its subscriptions when it is closed, and rejects later reads', async () => {
    const { store, log } = await both();
    await appendMany(store, 501);
    const waiting = (async () => {
      for await (const _ of log.subscribe({ after: START, signal: new AbortController().signal }));
    })();
    const stopped = log
      .subscribe({ after: START, signal: new AbortController().signal })
      [Symbol.asyncIterator]();
    await stopped.next();
    await log.close();
    await log.close();
    await waiting;
    expect(await stopped.next()).toEqual({ value: undefined, done: true });
    await expect(log.lastPosition()).rejects.toMatchObject({ name: 'StoreUnavailable' });
    await expect(log.readEvent(1n)).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
});

describe('a file that is not a log of this service', () => {
  const refused = (file: string, reason: string | RegExp) => {
    expect(() => openLogReader(file)).toThrow(UnusableLog);
    expect(() => openLogReader(file)).toThrow(reason);
    expect(() => openLogReader(file)).toThrow(file);
  };

  test('because it is missing is rejected and not created', () => {
    const dir = tempDir();
    const file = join(dir, 'log.db');
    refused(file, 'there is no log');
    expect(readdirSync(dir)).toEqual([]);
    refused(join(dir, 'nowhere', 'log.db'), 'there is no log');
    expect(existsSync(join(dir, 'nowhere'))).toBe(false);
  });

  test('but another SQLite database is rejected and not changed', () => {
    const file = join(tempDir(), 'log.db');
    const db = new DatabaseSync(file);
    db.exec('CREATE TABLE events (position INTEGER PRIMARY KEY); INSERT INTO events VALUES (1)');
    db.close();
    const before = contentsOf(file);
    refused(file, 'not a plant store log');
    expect(contentsOf(file)).toEqual(before);
  });

  test.each([
    ['empty', ''],
    [
      'text',
      'Ferns and ivy, one a line, and enough of it to be taken for a header of a database.\n'.repeat(20),
    ],
  ])('but %s is rejected and not changed', (_, text) => {
    const file = join(tempDir(), 'log.db');
    writeFileSync(file, text);
    refused(file, text === '' ? 'there is no log' : 'not a database');
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('but a directory is rejected', () => {
    const file = join(tempDir(), 'log.db');
    mkdirSync(file);
    refused(file, 'cannot read');
  });

  test.each([
    ['because of a newer version', 'PRAGMA user_version = 99', 'supports up to'],
    ['without its table events', 'DROP TABLE events', /./],
    ['without its log ID', 'DELETE FROM log', /./],
  ])('any more, %s, is rejected', async (_, change, reason) => {
    const { file, store } = await both();
    await store.close();
    const db = new DatabaseSync(file);
    db.exec(change);
    db.close();
    refused(file, reason);
  });
});

describe('an exact reader', () => {
  /**
   * The data of events whose bytes or text another writer stored, as read by an exact and a normal reader.
   */
  async function dataOf(
    ...written: (string | Uint8Array)[]
  ): Promise<{ exactly: unknown[]; plainly: unknown[] }> {
    const file = join(tempDir(), 'log.db');
    const db = openLogFile(file);
    const insert = db.prepare(
      "INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at) VALUES (?, ?, 0, 'T', CAST(? AS TEXT), '{}', 'now')",
    );
    for (const [i, data] of written.entries())
      insert.run(`${i}`, `plant-bob/${i}`, typeof data === 'string' ? Buffer.from(data) : data);
    db.close();
    const [exactly, plainly] = await Promise.all([readAll(openLog(file, true)), readAll(openLog(file))]);
    return { exactly: exactly.map(({ data }) => data), plainly: plainly.map(({ data }) => data) };
  }

  test.each([
    ['white space', '{"name": "Fern"}', { name: 'Fern' }],
    ['a line feed at its end', '{"name":"Fern"}\n', { name: 'Fern' }],
    ['unnecessary escapes', '{"name":"\\u0046ern"}', { name: 'Fern' }],
    ['an escaped slash', '{"name":"\\/"}', { name: '/' }],
    ['escapes in upper case', '{"name":"\\u001F"}', { name: '\u001f' }],
    ['a duplicate key', '{"name":"Fern","name":"Fern"}', { name: 'Fern' }],
    ['a number with a zero fraction', '{"size":1.0}', { size: 1 }],
    ['a number with an exponent', '{"size":1e3}', { size: 1_000 }],
    ['a negative zero', '{"size":-0}', { size: -0 }],
    ['digits beyond the precision of a double', '{"size":9007199254740993}', { size: 9_007_199_254_740_992 }],
    ['numeric keys in another order', '{"name":"Fern","1":2}', { 1: 2, name: 'Fern' }],
  ])('returns JSON with %s as text', async (_, text, value) => {
    expect(await dataOf(text)).toEqual({ exactly: [text], plainly: [value] });
  });

  test.each([
    ['text that is not JSON', 'no json'],
    ['JSON with trailing characters', '{"name":"Fern"}\0more'],
    ['JSON after a byte order mark', '\ufeff{"name":"Fern"}'],
  ])('returns %s as text', async (_, text) => {
    expect(await dataOf(text)).toEqual({ exactly: [text], plainly: [text] });
  });

  test('distinguishes invalid UTF-8 from a replacement character', async () => {
    const sound = '{"name":"\ufffd"}';
    const damaged = Buffer.from('{"name":"\xff"}', 'latin1');
    const { exactly } = await dataOf(sound, damaged);
    expect(exactly[0]).toEqual({ name: '\ufffd' });
    expect(exactly[1]).not.toEqual(exactly[0]);
  });

  test.each([
    ['text, and the JSON of that text', 'fern', '"fern"'],
    ['JSON with other formatting, and the JSON of that text', '{"size":1.0}', '"{\\"size\\":1.0}"'],
  ])('returns different data for different bytes: %s', async (_, one, other) => {
    const { exactly } = await dataOf(one, other);
    expect(exactly[1]).not.toEqual(exactly[0]);
  });

  test('returns everything that this store writes as the same value', async () => {
    const file = join(tempDir(), 'log.db');
    const store = await openStore(file);
    const log = openLog(file, true);
    const unit = fc.nat({ max: 0xffff }).map((code) => String.fromCharCode(code)); // with unpaired surrogates
    const json = fc.jsonValue({ stringUnit: unit }) as fc.Arbitrary<Json>;
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
      { numRuns: 100 },
    );
  });

  test('returns other data for every changed byte', async () => {
    const plant = JSON.stringify({ id: '42', user: 'alice', name: 'Fern 🌿', tag: 'indoor' });
    const bytes = Buffer.from(plant);
    const altered = [...bytes.keys()].map((at) => {
      const copy = Buffer.from(bytes);
      copy[at] = (copy[at] as number) ^ 1;
      return copy;
    });
    const { exactly } = await dataOf(plant, ...altered);
    expect(exactly[0]).toEqual(JSON.parse(plant));
    const texts = exactly.map((data) => JSON.stringify(data));
    expect(new Set(texts).size).toBe(texts.length);
  });
});

/**
 * Digests of the log and of its write-ahead log, without the index; a missing write-ahead log equals an empty
 * one.
 */
function contentsOf(file: string): Record<string, string> {
  const digest = (name: string) => createHash('sha256').update(readFileSync(name)).digest('hex');
  const wal = existsSync(`${file}-wal`) ? readFileSync(`${file}-wal`) : Buffer.alloc(0);
  return { log: digest(file), wal: wal.toString('hex') };
}

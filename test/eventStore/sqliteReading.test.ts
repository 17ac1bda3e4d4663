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
} from '../../src/eventStore/eventStore.ts';
import { openSqliteEventStore } from '../../src/eventStore/sqlite.ts';
import { openLogFile, UnusableLog } from '../../src/eventStore/sqliteFile.ts';
import { openSqliteLog } from '../../src/eventStore/sqliteReading.ts';
import { tempDir } from '../support/tempDir.ts';
import { event, eventStoreContract, everything } from './contract.ts';

const files = new WeakMap<EventStore, string>();

/** A store that writes by one connection what it reads by another. */
async function openBoth(again?: EventStore): Promise<EventStore> {
  const file = (again && files.get(again)) ?? join(tempDir(), 'log.db');
  const writing = await openSqliteEventStore({ file, now: () => new Date(), onFatal: fail });
  const reading = openSqliteLog(file, { exact: true });
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

eventStoreContract('the embedded log, read beside the store that writes it,', openBoth);

async function openStore(file: string): Promise<EventStore> {
  const store = await openSqliteEventStore({ file, now: () => new Date(), onFatal: fail });
  onTestFinished(() => store.close());
  return store;
}

function openLog(file: string, exact = false): EventLog {
  const log = openSqliteLog(file, { exact });
  onTestFinished(() => log.close());
  return log;
}

/** A store and a reader of its log. */
async function both() {
  const file = join(tempDir(), 'log.db');
  const store = await openStore(file);
  return { file, store, log: openLog(file) };
}

const plantMany = (store: EventStore, count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, i) => store.append(`plant-bob/${i}`, event(`${i}`), NO_STREAM)),
  );

const readAll = (log: EventLog) => everything(log as EventStore);
const namesIn = (events: readonly { data: unknown }[]) =>
  events.map(({ data }) => (data as { name: string }).name);

describe('the embedded log, read beside its server,', () => {
  test('comes in batches that are small however large its events are, from the reader and from the store', async () => {
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

  test('shows an event once it is committed, and not before', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec(
      "BEGIN IMMEDIATE; INSERT INTO events VALUES (2, 'i', 'plant-bob/1', 0, 'T', '{\"name\":\"second\"}', '{}', 'now')",
    );
    expect(namesIn(await readAll(log))).toEqual(['first']);
    expect([await log.end(), await log.eventAt(2n), await log.readStream('plant-bob/1', 1)]).toEqual([
      1n,
      undefined,
      [],
    ]);
    writing.exec('COMMIT');
    expect(namesIn(await readAll(log))).toEqual(['first', 'second']);
    expect(await log.end()).toBe(2n);
  });

  test('never shows what is taken back', async () => {
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

  test('gives its followers each event as it is committed, in order', async () => {
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

  test.each([499, 500, 501, 1_000])(
    'says that it has been read to its end after %s events',
    async (count) => {
      const { store, log } = await both();
      await plantMany(store, count);
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
    },
  );

  test('may have gaps in its positions', async () => {
    const { file, store, log } = await both();
    await plantMany(store, 499);
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
    expect(await log.end()).toBe(5_000n);
  });

  test('has the mark of the store, and keeps it', async () => {
    const { file, store, log } = await both();
    expect(await log.mark()).toBe(await store.mark());
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.close();
    expect(await openLog(file).mark()).toBe(await log.mark());
  });

  test('keeps no writer waiting, even where a reader has stopped in the middle', async () => {
    const { file, store, log } = await both();
    await plantMany(store, 1_001);
    const batches = log
      .subscribe({ after: START, signal: new AbortController().signal })
      [Symbol.asyncIterator]();
    expect((await batches.next()).value.events).toHaveLength(500);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; COMMIT');
    // Only with no reader in the way is all of the write-ahead log moved.
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

  test('reads on while somebody writes', async () => {
    const { file, store, log } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    const writing = openLogFile(file);
    onTestFinished(() => writing.close());
    writing.exec('BEGIN EXCLUSIVE');
    expect(namesIn(await readAll(log))).toEqual(['first']);
    writing.exec('COMMIT');
  });

  test('cannot be written by its readers, and is left byte by byte as it was, also after a crash', async () => {
    const { file, store } = await both();
    await store.append('plant-alice/1', event('first'), NO_STREAM);
    await store.append('plant-bob/1', event('second'), NO_STREAM);
    const left = join(tempDir(), 'log.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${file}${suffix}`, `${left}${suffix}`);
    await store.close();
    for (const one of [file, left]) {
      const before = contentsOf(one);
      const log = openSqliteLog(one);
      expect(log).not.toHaveProperty('append');
      expect(namesIn(await readAll(log))).toEqual(['first', 'second']);
      await log.close();
      expect(contentsOf(one)).toEqual(before);
      expect(namesIn(await readAll(await openStore(one)))).toEqual(['first', 'second']);
    }
  });

  test('ends its subscriptions when it is closed, once, and then says that it cannot be read', async () => {
    const { store, log } = await both();
    await plantMany(store, 501);
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
    await expect(log.end()).rejects.toMatchObject({ name: 'StoreUnavailable' });
    await expect(log.eventAt(1n)).rejects.toMatchObject({ name: 'StoreUnavailable' });
  });
});

describe('a file that is no log of ours', () => {
  const refused = (file: string, reason: string | RegExp) => {
    expect(() => openSqliteLog(file)).toThrow(UnusableLog);
    expect(() => openSqliteLog(file)).toThrow(reason);
    expect(() => openSqliteLog(file)).toThrow(file);
  };

  test('since it is missing is refused and not made', () => {
    const dir = tempDir();
    const file = join(dir, 'log.db');
    refused(file, 'there is no log');
    expect(readdirSync(dir)).toEqual([]);
    refused(join(dir, 'nowhere', 'log.db'), 'there is no log');
    expect(existsSync(join(dir, 'nowhere'))).toBe(false);
  });

  test('but of somebody else, made by SQLite, is refused and left as it is', () => {
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
  ])('but %s is refused and left as it is', (_, text) => {
    const file = join(tempDir(), 'log.db');
    writeFileSync(file, text);
    refused(file, text === '' ? 'there is no log' : 'not a database');
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('but a directory is refused', () => {
    const file = join(tempDir(), 'log.db');
    mkdirSync(file);
    refused(file, 'cannot be read');
  });

  test.each([
    ['made by a newer version', 'PRAGMA user_version = 99', 'newer version'],
    ['without its events', 'DROP TABLE events', /./],
    ['without what tells it from others', 'DELETE FROM log', /./],
  ])('any more, %s, is refused', async (_, change, reason) => {
    const { file, store } = await both();
    await store.close();
    const db = new DatabaseSync(file);
    db.exec(change);
    db.close();
    refused(file, reason);
  });
});

describe('read exactly', () => {
  /** What a log gives as the data of an event whose bytes another writer has put there, in hexadecimal digits or as text. */
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
    ['escapes that need not be', '{"name":"\\u0046ern"}', { name: 'Fern' }],
    ['an escaped slash', '{"name":"\\/"}', { name: '/' }],
    ['escapes in capitals', '{"name":"\\u001F"}', { name: '\u001f' }],
    ['a key twice', '{"name":"Fern","name":"Fern"}', { name: 'Fern' }],
    ['a number with a fraction of nothing', '{"size":1.0}', { size: 1 }],
    ['a number with an exponent', '{"size":1e3}', { size: 1_000 }],
    ['a negative nothing', '{"size":-0}', { size: -0 }],
    ['digits beyond a double', '{"size":9007199254740993}', { size: 9_007_199_254_740_992 }],
    ['digits that are keys, in another order', '{"name":"Fern","1":2}', { 1: 2, name: 'Fern' }],
  ])('JSON that is written with %s stays text', async (_, text, value) => {
    expect(await dataOf(text)).toEqual({ exactly: [text], plainly: [value] });
  });

  test.each([
    ['no JSON', 'no json'],
    ['JSON with something behind it', '{"name":"Fern"}\0more'],
    ['JSON behind a mark of its byte order', '\ufeff{"name":"Fern"}'],
  ])('%s stays text', async (_, text) => {
    expect(await dataOf(text)).toEqual({ exactly: [text], plainly: [text] });
  });

  test('bytes that are no text are not taken for the character that stands for such', async () => {
    const sound = '{"name":"\ufffd"}';
    const damaged = Buffer.from('{"name":"\xff"}', 'latin1');
    const { exactly } = await dataOf(sound, damaged);
    expect(exactly[0]).toEqual({ name: '\ufffd' });
    expect(exactly[1]).not.toEqual(exactly[0]);
  });

  test.each([
    ['text, and the JSON of that text', 'fern', '"fern"'],
    ['JSON written otherwise, and the JSON of that text', '{"size":1.0}', '"{\\"size\\":1.0}"'],
  ])('different bytes are different data: %s', async (_, one, other) => {
    const { exactly } = await dataOf(one, other);
    expect(exactly[1]).not.toEqual(exactly[0]);
  });

  test('whatever this store writes is a value, and the same value', async () => {
    const file = join(tempDir(), 'log.db');
    const store = await openStore(file);
    const log = openLog(file, true);
    const unit = fc.nat({ max: 0xffff }).map((code) => String.fromCharCode(code)); // halves of pairs too
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

  test('an altered byte is altered data, wherever it is', async () => {
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

/** The log and what has been left beside it, by a digest of each; an empty write-ahead log, and its index, say nothing. */
function contentsOf(file: string): Record<string, string> {
  const digest = (name: string) => createHash('sha256').update(readFileSync(name)).digest('hex');
  const wal = existsSync(`${file}-wal`) ? readFileSync(`${file}-wal`) : Buffer.alloc(0);
  return { log: digest(file), wal: wal.toString('hex') };
}

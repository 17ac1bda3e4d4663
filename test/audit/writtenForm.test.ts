import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cloudEventJson, toCloudEvent } from '../../src/audit/cloudEvent.ts';
import { canonicalJson, leafText } from '../../src/audit/leaf.ts';
import { readWritten, WrittenForm } from '../../src/audit/writtenForm.ts';
import { type RecordedEvent, START } from '../../src/eventStore/eventStore.ts';
import { openLogFile } from '../../src/eventStore/sqlite/file.ts';
import { openLogReader } from '../../src/eventStore/sqlite/read.ts';
import { createPlant } from '../../src/plants/createPlant.ts';
import { openIn } from '../support/stores.ts';
import { tempDir } from '../support/tempDir.ts';

const SOURCE = 'https://plants.example/log';

const form = new WrittenForm({ properties: { user: {}, name: {}, tag: {} }, required: ['user', 'name'] });

describe('an object in the written form', () => {
  test.each([
    ['text', '{"user":"alice","name":"Fern","tag":"indoor"}'],
    ['no optional member', '{"user":"alice","name":"Fern"}'],
    ['empty text', '{"user":"","name":"","tag":""}'],
    ['characters that need no escapes', '{"user":"/ \u007f\u2028\ufeff","name":"🌱 é","tag":"{},:"}'],
    ['integers', '{"user":0,"name":-1,"tag":999999999999999}'],
  ])('with %s has the value and the canonical JSON of its text', (_, json) => {
    const written = form.read(json);
    expect(written?.value).toEqual(JSON.parse(json));
    expect(written?.canonical).toBe(canonicalJson(JSON.parse(json)));
    expect(written?.json).toBe(json);
  });

  test.each([
    ['white space', '{"user":"alice", "name":"Fern"}'],
    ['a line feed at its end', '{"user":"alice","name":"Fern"}\n'],
    ['members in another order', '{"name":"Fern","user":"alice"}'],
    ['a member twice', '{"user":"alice","name":"Fern","name":"Fern"}'],
    ['an unknown member', '{"user":"alice","name":"Fern","tags":"indoor"}'],
    ['a missing member', '{"user":"alice"}'],
    ['an escape', '{"user":"alice","name":"\\u0041"}'],
    ['a control character', '{"user":"alice","name":"\t"}'],
    ['an unpaired surrogate', '{"user":"alice","name":"\ud83c"}'],
    ['a negative zero', '{"user":"alice","name":-0}'],
    ['a leading zero', '{"user":"alice","name":01}'],
    ['a fraction', '{"user":"alice","name":1.0}'],
    ['an exponent', '{"user":"alice","name":1e3}'],
    ['more digits than a double has', '{"user":"alice","name":9007199254740993}'],
    ['another value', '{"user":"alice","name":null}'],
    ['text after it', '{"user":"alice","name":"Fern"}{}'],
  ])('has no %s', (_, json) => {
    expect(form.read(json)).toBeUndefined();
  });
});

/** All events of a log, read exactly. */
async function readExactly(file: string): Promise<readonly RecordedEvent[]> {
  const log = openLogReader(file, { raw: true });
  onTestFinished(() => log.close());
  return (await log.readAll({ after: START, limit: 500 })).events;
}

test('an event of this service is in the written form', async () => {
  const dir = tempDir();
  const store = await openIn(dir);
  const context = { now: () => new Date(0), newEventId: () => randomUUID(), correlationId: 'c' };
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await createPlant(store, { user: 'alice', id: 1n, name: 'Fern 🌱', tag: 'indoor' }, context);
  await createPlant(store, { user: 'bob', id: 1n, name: 'Oak' }, { ...context, traceparent });
  const events = await readExactly(join(dir, 'log.db'));
  expect(events).toHaveLength(2);
  for (const event of events) {
    const written = readWritten(event);
    expect([written?.data.value, written?.metadata.value]).toEqual([event.data, event.metadata]);
  }
});

describe('whatever another writer has stored', () => {
  const usually = <T>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: other });
  const plain = fc.constantFrom('', 'Fern', 'alice', '🌱', '42', '/\u2028');
  const odd = fc.oneof(
    fc.constantFrom('"', '\\', '\n\0', '\ufffd', '\\ud83c'),
    fc.string({ unit: 'binary' }),
  );
  const others = ['-0', '01', '1.0', '1e3', '9007199254740993', '2147483648', 'null', '{"b":1,"a":[]}', ' 1'];
  const escapes = [String.raw`"\u0041"`, String.raw`"\ud83c"`, String.raw`"\/"`, '"\ud83c"', '"\t"', '"'];
  const text = usually(plain, odd).map((value) => JSON.stringify(value));
  const value = usually(text, fc.constantFrom('0', '1', '-7', ...others, ...escapes));

  /** JSON with these members, or what is like it. */
  const object = (names: string[], known: Record<string, fc.Arbitrary<string>> = {}) => {
    const members = fc
      .tuple(...names.map((name) => known[name] ?? value))
      .map((values) => values.map((one, i) => `${JSON.stringify(names[i])}:${one}`));
    const withoutLast = members.map((all) => all.slice(0, -1));
    const changed = members.chain((all) =>
      fc.shuffledSubarray([...all, ...all, '"1":2', '"__proto__":1', '"extra":"x"', '']),
    );
    const joined = (all: string[]) => `{${all.join(',')}}`;
    const layouts = members.chain((all) =>
      fc.constantFrom(
        `{${all.join(', ')}}`,
        `${joined(all)}\n`,
        `\ufeff${joined(all)}`,
        joined(all).slice(1),
      ),
    );
    return usually(fc.oneof(members, withoutLast).map(joined), fc.oneof(changed.map(joined), layouts, value));
  };

  const occurredAt = fc.constantFrom('"2026-03-01T12:00:00.000Z"', '"2026-02-30T12:00:00Z"', '"noon"', '""');
  const schemaVersion = fc.constantFrom('1', '0', '2147483648');
  const metadata = object(['$correlationId', 'schemaVersion', 'occurredAt', 'traceparent'], {
    schemaVersion: usually(schemaVersion, value),
    occurredAt: usually(occurredAt, value),
  });
  const name = usually(fc.constantFrom('plant-alice/1', 'é'), odd);
  const row = fc
    .record({
      stream: name,
      type: usually(fc.constant('PlantCreated'), fc.constantFrom('Other', 'toString', '')),
      data: object(['id', 'user', 'name', 'tag']),
      metadata,
    })
    .chain((texts) => {
      const bytes = Object.values(texts).map((one) => Buffer.from(one));
      const damaged = fc.tuple(fc.nat(3), fc.nat()).map(([column, at]) => {
        const altered = bytes.map((one) => Buffer.from(one));
        const one = altered[column] as Buffer;
        if (one.length > 0) one[at % one.length] = 0xff;
        return altered;
      });
      return usually(fc.constant(bytes), damaged);
    });

  test('leaves and CloudEvents are those of the parsed event', async () => {
    let written = 0;
    let count = 0;
    const rows = fc.array(row, { minLength: 100, maxLength: 200 });
    await fc.assert(
      fc.asyncProperty(rows, async (stored) => {
        const file = join(tempDir(), 'log.db');
        using db = openLogFile(file);
        const insert = db.prepare(`
          INSERT INTO events (id, stream, revision, type, data, metadata, recorded_at)
          VALUES (?, CAST(? AS TEXT), ?, CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), 'now')`);
        for (const [i, [stream, ...columns]] of stored.entries())
          insert.run(`${i}`, stream as Buffer, i, ...columns);
        for (const event of await readExactly(file)) {
          const { position, id, stream, revision, type, data, metadata } = event;
          const parsed = { position, id, stream, revision, type, data, metadata };
          expect(leafText(event)).toEqual(leafText(parsed));
          expect(cloudEventJson(event, SOURCE)).toBe(JSON.stringify(toCloudEvent(parsed, SOURCE)));
          if (readWritten(event)) written++;
          count++;
        }
      }),
      { numRuns: 10, endOnFailure: true },
    );
    expect(written).toBeGreaterThan(count / 4);
    expect(written).toBeLessThan(count);
  });
});

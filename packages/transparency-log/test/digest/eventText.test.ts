import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { openIn, overFakeServer, startFakeServer } from '@event-sourced/testing/stores';
import { tempDir } from '@event-sourced/testing/tempDir';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { copyLog } from '../../../event-log/src/copy/copyLog.ts';
import { type NewEvent, NO_STREAM, type RecordedEvent } from '../../../event-log/src/eventStore.ts';
import { openLogReader } from '../../../event-log/src/sqlite/read.ts';
import { everything } from '../../../event-log/src/testing/contract.ts';
import { eventText } from '../../src/digest/eventText.ts';
import { rootOfLog } from '../../src/entries/appendEntries.ts';

const ID = '0f0e0d0c-0b0a-4908-8706-050403020100';

const fern: RecordedEvent = {
  position: 7n,
  stream: 'plant-alice/42',
  revision: 0n,
  id: ID,
  type: 'PlantCreated',
  data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
  metadata: { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
};

const fullTextOf = (part: Partial<RecordedEvent>) => eventText({ ...fern, ...part });
const textOf = (part: Partial<RecordedEvent>): string => fullTextOf(part).text;

test('the text of an event is its canonical JSON with sorted members and a decimal revision, without the position', () => {
  expect(fullTextOf({})).toEqual({
    text:
      '{"data":{"id":"42","name":"Fern","tag":"indoor","user":"alice"},' +
      `"id":"${ID}",` +
      '"metadata":{"$correlationId":"c","occurredAt":"2026-03-01T12:00:00.000Z","schemaVersion":1},' +
      '"revision":"0","stream":"plant-alice/42","type":"PlantCreated"}',
    isCanonical: true,
  });
  expect(textOf({ position: 8n })).toBe(textOf({}));
});

test.each<[section: string, data: unknown, written: string]>([
  [
    'sections 3.2.2 and 3.2.3: literals, numbers, escapes',
    JSON.parse(String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`),
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  ],
  [
    'section 3.2.3: keys are sorted by UTF-16 code units, not by code points',
    { '\u20ac': 0, '\r': 0, '\ufb33': 0, '1': 0, '\u{1f600}': 0, '\u0080': 0, '\u00f6': 0 },
    '{"\\r":0,"1":0,"\u0080":0,"\u00f6":0,"\u20ac":0,"\u{1f600}":0,"\ufb33":0}',
  ],
])('the vectors of RFC 8785, %s', (_, data, written) => {
  const { text, isCanonical } = fullTextOf({ data });
  expect(isCanonical).toBe(true);
  expect(text).toContain(`{"data":${written},"id":"${ID}"`);
});

test('the text of any event is that of RFC 8785, and marked as not canonical if it has none', () => {
  const rarely = <T>(rare: fc.Arbitrary<T>, usual: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 1, arbitrary: rare }, { weight: 40, arbitrary: usual });
  const half = fc.constantFrom('\ud83c', 'half \udf31', '\udf31\ud83c');
  const text = rarely(half, fc.constantFrom('', 'Fern', '\\ud83c', '🌱', '"\0\u2028', '2026'));
  const names = ['', 'a', 'B', '9', '10', '01', '-1', '4294967295', '__proto__', 'toJSON', 'constructor'];
  const name = rarely(half, fc.constantFrom(...names, '\u20ac', '\ufb33', '\u{1f600}'));
  const numbers = fc.constantFrom(0, -0, 1e21, 1e-7, 2 ** 53, -1.5);
  const { POSITIVE_INFINITY, NEGATIVE_INFINITY } = Number;
  const number = rarely(fc.constantFrom(POSITIVE_INFINITY, NEGATIVE_INFINITY), numbers);
  const other = fc.constantFrom(null, true, [], [1, 'a'], {}, { b: 1, a: 2 }, { '10': 0, '9': 0 });
  const value = fc.oneof(text, number, rarely<unknown>(other, text));
  const object = fc.array(fc.tuple(name, value), { maxLength: 6 }).map(Object.fromEntries);
  const data = rarely(
    fc.oneof(value, fc.constantFrom(undefined, Uint8Array.of(), Uint8Array.of(1, 2))),
    object,
  );
  const event = fc.record({ id: text, stream: text, type: text, data, metadata: data });
  fc.assert(
    fc.property(event, (part) => {
      const defined = rfc8785({ ...part, revision: '0' });
      const isText = ![part.data, part.metadata].some((one) => one instanceof Uint8Array);
      const written = fullTextOf(part);
      if (defined !== undefined && isText) expect(written).toEqual({ text: defined, isCanonical: true });
      else {
        expect(written.isCanonical).toBe(false);
        expect(written.text.isWellFormed()).toBe(true);
        expect(JSON.parse(written.text)).toHaveProperty('dataAndMetadata');
      }
    }),
    { numRuns: 1_000 },
  );
});

/** RFC 8785 by the package; undefined if it rejects the value. */
function rfc8785(value: object): string | undefined {
  try {
    return canonicalize(value);
  } catch {
    return undefined;
  }
}

test('data with an unpaired surrogate is escaped in one string with all metadata', () => {
  const data = { user: 'alice', name: 'half \ud83c', id: '42' };
  const both = JSON.stringify(
    String.raw`[{"user":"alice","name":"half \ud83c","id":"42"},{"schemaVersion":1}]`,
  );
  expect(textOf({ data, metadata: { schemaVersion: 1 } })).toBe(
    `{"dataAndMetadata":${both},"id":"${ID}","revision":"0","stream":"plant-alice/42","type":"PlantCreated"}`,
  );
});

test('a text has no largest size', () => {
  const name = 'x'.repeat(1_000_000);
  expect(JSON.parse(textOf({ data: { name } })).data.name).toBe(name);
});

describe('different events have different texts', () => {
  /** Results of JSON.parse, bytes and undefined; few values, so that similar events are generated. */
  const content = fc.letrec<{ any: unknown; json: unknown }>((tie) => ({
    any: fc.oneof(
      { weight: 5, arbitrary: tie('json') },
      fc.constantFrom(Uint8Array.of(), Uint8Array.of(1), Uint8Array.of(1, 2), undefined),
    ),
    json: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom<unknown>(null, 0, 1, true, '', 'null', '\ud83c', '\ufffd', '\\ud83c'),
      fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
      fc.array(tie('json'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom('0', '1', 'a', '\ud83c', 'type', 'data'), tie('json'), {
        maxKeys: 2,
        noNullPrototype: true,
      }),
    ),
  })).any;
  const part = {
    id: fc.constantFrom(ID, ''),
    stream: fc.constantFrom('plant-alice/42', 'plant-bob/42'),
    revision: fc.constantFrom(0n, 1n),
    type: fc.constantFrom('PlantCreated', ''),
    data: content,
    metadata: content,
  };
  const event = fc.record(part).map((one): RecordedEvent => ({ ...fern, ...one }));

  test('if they differ, even in a single field', () => {
    const oneFieldDiffers = fc
      .tuple(event, fc.constantFrom('id', 'stream', 'revision', 'type', 'data', 'metadata'), event)
      .map(([one, differs, other]) => [one, { ...one, [differs]: other[differs] }] as const);
    fc.assert(
      fc.property(fc.oneof(oneFieldDiffers, fc.tuple(event, event)), ([one, other]) => {
        if (!isDeepStrictEqual(one, other)) expect(textOf(one)).not.toBe(textOf(other));
        expect(textOf(structuredClone(one))).toBe(textOf(one));
      }),
      { numRuns: 500 },
    );
  });

  const HALF = '\ud83c';
  const MORE = Number.POSITIVE_INFINITY;
  test.each<[string, Partial<RecordedEvent>, Partial<RecordedEvent>]>([
    ['an infinite number and null', { data: [HALF, MORE] }, { data: [HALF, null] }],
    ['infinite numbers of either sign', { data: { litres: MORE } }, { data: { litres: -MORE } }],
    ['undefined and null', { data: undefined, metadata: HALF }, { data: null, metadata: HALF }],
    ['bytes and numbers', { data: Uint8Array.of(1), metadata: HALF }, { data: { 0: 1 }, metadata: HALF }],
    ['a string and its escapes', { data: HALF }, { data: String.raw`\ud83c` }],
    ['an unpaired surrogate and its replacement character', { data: HALF }, { data: '\ufffd' }],
    [
      'an event and one whose metadata is its text',
      { data: HALF },
      { data: undefined, metadata: textOf({ data: HALF }) },
    ],
  ])('for example: %s', (_, one, other) => {
    expect(textOf(one)).not.toBe(textOf(other));
  });
});

const NAMES = [
  'Fern',
  '',
  'nul \0, quote ", backslash \\, line \u2028 \r\n, \u007f',
  'emoji 🌱👩‍🌾, half \ud83c, \ufeffmark, \ufffd',
];
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const OTHER_DATA: NewEvent['data'] = {
  numbers: [0.1, 1e-300, 1.5e10, 2 ** 53 - 1],
  '2': { '': null },
  '1': [],
  ['__proto__']: 'own',
};

test('the root of a log is the same in the embedded log, in EventStoreDB after a copy, and after a copy back', async () => {
  const [dir, back] = [tempDir(), tempDir()];
  const embedded = await openIn(dir);
  for (const [i, name] of NAMES.entries()) {
    const metadata = { schemaVersion: 1, ...(i === 0 && { traceparent: TRACEPARENT }) };
    const created = { id: randomUUID(), type: 'PlantCreated', data: { name }, metadata };
    await embedded.append(`plant-alice/${i + 1}`, created, NO_STREAM);
  }
  const watered = { id: randomUUID(), type: 'Plant Wässered 🌱', data: OTHER_DATA, metadata: {} };
  await embedded.append('plant-alice/1', watered, 0n);
  const eventStoreDb = await overFakeServer((await startFakeServer()).url);
  await copyLog({ from: embedded, to: eventStoreDb });
  const returned = await openIn(back);
  await copyLog({ from: eventStoreDb, to: returned });

  const exactly = openLogReader(join(dir, 'log.db'), { forHashing: true });
  onTestFinished(() => exactly.close());
  const logs = [embedded, exactly, eventStoreDb, returned];
  const [first, ...others] = await Promise.all(
    logs.map((log) => rootOfLog(log, new AbortController().signal)),
  );
  expect(first).toEqual({ size: 5, root: expect.stringMatching(/^[\da-f]{64}$/) });
  for (const other of others) expect(other).toEqual(first);
  const [here] = await everything(embedded);
  const [there] = await everything(eventStoreDb);
  expect(there?.metadata).toMatchObject({ traceparent: TRACEPARENT });
  expect(there?.position).not.toBe(here?.position);
});

import { CloudEvent as SdkEvent } from 'cloudevents';
import isBySchema from 'cloudevents/dist/schema/v1.js';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leafOfCloudEvent, occurredAt, toCloudEvent } from '../../src/audit/cloudEvent.ts';
import { leafText } from '../../src/audit/leaf.ts';
import type { RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { anyJson } from '../support/anyJson.ts';

const SOURCE = 'https://plants.example/log';

const FERN: RecordedEvent = {
  position: 5n,
  stream: 'plant-alice/42',
  revision: 0n,
  id: '01956d2b-7a00-7000-8000-000000000001',
  type: 'PlantCreated',
  data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
  metadata: { $correlationId: 'request-1', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.000Z' },
};
const OAK: RecordedEvent = {
  ...FERN,
  position: 6n,
  stream: 'plant-bob/42',
  id: '01956d2b-7a00-7000-8000-000000000002',
  data: { id: '42', user: 'bob', name: 'Oak' },
  metadata: { $correlationId: 'request-2', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00.001Z' },
};

/** The event as a client receives it. */
const sent = (event: RecordedEvent) => JSON.parse(JSON.stringify(toCloudEvent(event, SOURCE)));

const OWN = /^(id|source|specversion|type|subject|time|datacontenttype|dataschema|data|data_base64)$/;

/** Checks the official schema, and the names and types of extensions (CloudEvents 1.0.2 section 3.1). */
function isCloudEvent(event: Record<string, unknown>): boolean {
  const isExtension = ([name, value]: [string, unknown]): boolean =>
    /^[a-z0-9]{1,20}$/.test(name) &&
    (typeof value === 'string' || typeof value === 'boolean' || value === Number(value) >> 0);
  return (
    isBySchema(event) && Object.entries(event).every((entry) => OWN.test(entry[0]) || isExtension(entry))
  );
}

describe('isCloudEvent', () => {
  test.each([
    ['without a specversion', { specversion: undefined }],
    ['whose time is invalid', { time: 'yesterday' }],
    ['whose extension has a capital letter in its name', { correlationId: 'request-1' }],
    ['whose position has more than 32 bits as a number', { position: 2 ** 31 }],
    ['whose position is an object', { position: {} }],
  ])('rejects an event %s', (_, change) => {
    const good = sent(FERN);
    expect(isCloudEvent(good)).toBe(true);
    expect(isCloudEvent(JSON.parse(JSON.stringify({ ...good, ...change })))).toBe(false);
  });
});

test('an event is converted with all its attributes and extensions', () => {
  expect(sent(FERN)).toStrictEqual({
    specversion: '1.0',
    id: '01956d2b-7a00-7000-8000-000000000001',
    source: 'https://plants.example/log',
    type: 'PlantCreated',
    subject: 'plant-alice/42',
    time: '2026-03-01T12:00:00.000Z',
    datacontenttype: 'application/json',
    data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
    position: '5',
    revision: '0',
    correlationid: 'request-1',
    schemaversion: 1,
    metadata: '{"$correlationId":"request-1","occurredAt":"2026-03-01T12:00:00.000Z","schemaVersion":1}',
  });
  expect(sent(OAK)).toMatchObject({
    subject: 'plant-bob/42',
    time: '2026-03-01T12:00:00.001Z',
    data: { id: '42', user: 'bob', name: 'Oak' },
    position: '6',
    correlationid: 'request-2',
  });
});

test.each([FERN, OAK])(
  'the event of $stream is valid for the schema of CloudEvents and their SDK',
  (event) => {
    expect(isCloudEvent(sent(event))).toBe(true);
    expect(JSON.parse(JSON.stringify(new SdkEvent(sent(event), true)))).toEqual(sent(event));
  },
);

test('the trace of an event is the extension traceparent of CloudEvents, and in its leaf', () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const traced = { ...FERN, metadata: { ...(FERN.metadata as object), traceparent } };
  expect(sent(traced)).toMatchObject({ traceparent });
  expect(isCloudEvent(sent(traced))).toBe(true);
  expect(leafOfCloudEvent(sent(traced))).toBe(leafText(traced).text);
  expect(leafText(traced).text).toContain(traceparent);
  expect(sent(FERN)).not.toHaveProperty('traceparent');
});

test('the conversion does not change its argument', () => {
  const before = structuredClone(FERN);
  toCloudEvent(FERN, SOURCE);
  expect(FERN).toStrictEqual(before);
});

test.each([0n, 1n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 32n + 1n, 2n ** 53n + 1n, 2n ** 63n - 1n])(
  'the position and the revision %s are exact decimal strings',
  (number) => {
    const event = sent({ ...FERN, position: number, revision: number });
    expect([event.position, event.revision]).toStrictEqual([`${number}`, `${number}`]);
    expect(isCloudEvent(event)).toBe(true);
  },
);

describe('the metadata of another writer', () => {
  test.each([
    ['absent', undefined],
    ['null', null],
    ['empty', {}],
    ['empty text', ''],
    ['text', 'occurredAt'],
    ['a number', 7],
    ['true', true],
    ['a list', [{ occurredAt: '2026-03-01T12:00:00Z' }]],
    ['bytes', Buffer.from('{"occurredAt":"2026-03-01T12:00:00Z"}')],
    ['of other names', { correlationId: 'x', schemaversion: 1, OccurredAt: '2026-03-01T12:00:00Z' }],
    ['nothing but nulls', { $correlationId: null, schemaVersion: null, occurredAt: null }],
    [
      'of other types',
      { traceparent: 7, $correlationId: 7, schemaVersion: '1', occurredAt: 1_772_366_400_000 },
    ],
    ['of objects', { $correlationId: {}, schemaVersion: [], occurredAt: ['2026-03-01T12:00:00Z'] }],
    ['of empty text', { traceparent: '', $correlationId: '', schemaVersion: '', occurredAt: '' }],
    ['an invalid time', { occurredAt: '2026-02-30T12:00:00Z' }],
    ['a version that is not an integer', { schemaVersion: 1.5 }],
    ['a version of more than 32 bits', { schemaVersion: 2 ** 31 }],
    ['a version of fewer than -32 bits', { schemaVersion: -(2 ** 31) - 1 }],
  ])('that is %s is ignored, and the rest is a CloudEvent', (_, metadata) => {
    const event = sent({ ...FERN, metadata });
    const { time, correlationid, schemaversion, metadata: _metadata, ...rest } = sent(FERN);
    const { metadata: text, dataandmetadata, ...attributes } = event;
    expect(attributes).toStrictEqual(rest);
    expect(isCloudEvent(event)).toBe(true);
    expect(occurredAt({ ...FERN, metadata })).toBeUndefined();
  });

  test.each([0, 1, -1, 2 ** 31 - 1, -(2 ** 31)])('may have schemaVersion %i', (schemaVersion) => {
    const event = sent({ ...FERN, metadata: { schemaVersion } });
    expect(event.schemaversion).toBe(schemaVersion);
    expect(isCloudEvent(event)).toBe(true);
  });

  test.each([
    ['2026-03-01T12:00:00Z', 0],
    ['2026-03-01t12:00:00z', 0],
    ['2026-03-01T13:00:00.123456789+01:00', 123],
    ['2016-12-31T23:59:60Z', Date.UTC(2016, 11, 31, 23, 59, 59) - Date.UTC(2026, 2, 1, 12)],
  ])('keeps the text of its time: %s', (time, sinceNoon) => {
    const event = { ...FERN, metadata: { occurredAt: time } };
    expect(sent(event).time).toBe(time);
    expect(isCloudEvent(sent(event))).toBe(true);
    expect(occurredAt(event)).toBe(Date.UTC(2026, 2, 1, 12) + sinceNoon);
  });

  test('may have other fields, which are in the attribute metadata only', () => {
    const metadata = { ...(FERN.metadata as object), $causationId: 'c', id: 'i', data: 'd', source: 's' };
    const { metadata: text, ...attributes } = sent({ ...FERN, metadata });
    const { metadata: _metadata, ...rest } = sent(FERN);
    expect(attributes).toStrictEqual(rest);
    expect(JSON.parse(text)).toStrictEqual(metadata);
  });
});

describe('the data of another writer', () => {
  test.each([
    ['text', 'no JSON'],
    ['empty text', ''],
    ['null', null],
    ['false', false],
    ['zero', 0],
    ['a fraction', 0.1],
    ['a list', [1, [], {}]],
    ['nested', { a: { b: { c: null } } }],
  ])('that is %s stays JSON', (_, data) => {
    const event = sent({ ...FERN, data });
    expect(event).toStrictEqual({ ...sent(FERN), data });
    expect(isCloudEvent(event)).toBe(true);
  });

  test.each([
    ['arbitrary', Uint8Array.of(0, 1, 254, 255), 'AAH+/w=='],
    ['with valid JSON', Buffer.from('{"a":1}'), 'eyJhIjoxfQ=='],
    ['empty', new Uint8Array(), ''],
    ['a view of a larger buffer', Uint8Array.of(7, 0, 255, 7).subarray(1, 3), 'AP8='],
  ])('that is binary, %s, is base64', (_, data, base64) => {
    const event = sent({ ...FERN, data });
    const { data: _data, ...rest } = sent(FERN);
    const datacontenttype = 'application/octet-stream';
    const dataandmetadata = `[base64:${base64},${JSON.stringify(FERN.metadata)}]`;
    const { metadata, ...others } = rest;
    expect(event).toStrictEqual({ ...others, datacontenttype, data_base64: base64, dataandmetadata });
    expect(isCloudEvent(event)).toBe(true);
    expect(new SdkEvent(event, true).data_base64).toBe(base64);
  });

  test('that is absent has no datacontenttype', () => {
    const { data, datacontenttype, ...rest } = sent(FERN);
    expect(sent({ ...FERN, data: undefined })).toStrictEqual(rest);
    expect(isCloudEvent(rest)).toBe(true);
  });
});

test('every event of another writer is a CloudEvent with unchanged data, and with its leaf', () => {
  const bytes = fc.uint8Array({ maxLength: 20 });
  const half = fc.constantFrom('\ud83c', '\udf31 half');
  const name = fc.oneof({ weight: 20, arbitrary: fc.string({ minLength: 1, unit: 'binary' }) }, half);
  const infinite = fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY);
  const tooLarge = fc.constantFrom('x'.repeat(66_000), { text: '€'.repeat(22_000) });
  const odd = fc.oneof(
    { weight: 40, arbitrary: anyJson() },
    fc.constant(undefined),
    bytes,
    half,
    fc.record({ litres: infinite }),
    tooLarge,
  );
  const known = fc.record(
    {
      $correlationId: fc.oneof(fc.string(), anyJson()),
      schemaVersion: fc.oneof(fc.integer(), fc.double(), anyJson()),
      occurredAt: fc.oneof(
        fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
        anyJson(),
      ),
    },
    { requiredKeys: [] },
  );
  const event = fc.record({
    position: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
    revision: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    stream: name,
    id: name,
    type: name,
    data: odd,
    metadata: fc.oneof(odd, known),
  });
  fc.assert(
    fc.property(event, (one) => {
      const given = sent(one);
      expect(isCloudEvent(given), JSON.stringify(given)).toBe(true);
      expect([given.id, given.type, given.subject]).toEqual([one.id, one.type, one.stream]);
      expect(leafOfCloudEvent(given)).toBe(leafText(one).text);
      if (one.data instanceof Uint8Array)
        expect(new Uint8Array(Buffer.from(given.data_base64, 'base64'))).toEqual(one.data);
      else
        expect(given.data).toEqual(one.data === undefined ? undefined : JSON.parse(JSON.stringify(one.data)));
    }),
    { numRuns: 200 },
  );
});

describe('the leaf of a CloudEvent', () => {
  test.each<[string, Partial<RecordedEvent>]>([
    ['this service', {}],
    ['another writer, with members that no attribute has', { metadata: { $causationId: 'c', nested: [{}] } }],
    ['another writer, without metadata', { metadata: undefined }],
    ['another writer, with null as metadata', { metadata: null }],
    ['another writer, without data', { data: undefined }],
    ['another writer, with bytes', { data: Uint8Array.of(1, 2) }],
    ['another writer, with a name that is not well-formed', { stream: 'plant-\ud83c/1' }],
    ['another writer, larger than an entry', { data: 'x'.repeat(70_000) }],
  ])('is that of the event, for an event of %s', (_, part) => {
    const event = { ...FERN, ...part };
    expect(leafOfCloudEvent(sent(event))).toBe(leafText(event).text);
  });

  test('differs if any part that is hashed differs', () => {
    const leaf = leafOfCloudEvent(sent(FERN));
    for (const [name, value] of Object.entries({
      id: 'other',
      subject: 'plant-alice/43',
      revision: '1',
      type: 'PlantMoved',
      data: { id: '42', user: 'alice', name: 'Oak' },
      metadata: '{}',
      dataandmetadata: '[,]',
    }))
      expect(leafOfCloudEvent({ ...sent(FERN), [name]: value }), name).not.toBe(leaf);
  });
});

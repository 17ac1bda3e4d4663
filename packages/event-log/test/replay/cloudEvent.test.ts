import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cloudEventText } from '../../../transparency-log/src/digest/cloudEventEntry.ts';
import { eventText } from '../../../transparency-log/src/digest/eventText.ts';
import type { RecordedEvent } from '../../src/eventStore.ts';
import { occurredAt, toCloudEvent } from '../../src/replay/cloudEvent.ts';
import { anyEvent, FERN, FORMAT, isBySchema, OWN, TRACEPARENT } from './cloudEvents.ts';

/** The event as a client receives it, without the attributes for its leaf. */
const sent = (part: Partial<RecordedEvent> = {}) => {
  const event = JSON.parse(JSON.stringify(toCloudEvent({ ...FERN, ...part }, { source: FORMAT.source })));
  expect(isCloudEvent(event), JSON.stringify(event)).toBe(true);
  return event;
};

/** Checks the schema, and the names and types of extensions (CloudEvents 1.0.2 section 3.1). */
function isCloudEvent(event: Record<string, unknown>): boolean {
  const isExtension = ([name, value]: [string, unknown]): boolean =>
    /^[a-z0-9]{1,20}$/.test(name) &&
    (typeof value === 'string' || typeof value === 'boolean' || value === Number(value) >> 0);
  return (
    isBySchema(event) && Object.entries(event).every((entry) => OWN.includes(entry[0]) || isExtension(entry))
  );
}

const { data: DATA, datacontenttype: JSON_TYPE, ...WITHOUT_DATA } = sent();

test('an event is converted with all its attributes and extensions', () => {
  expect(sent()).toStrictEqual({
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
    traceparent: TRACEPARENT,
  });
});

test.each([2n ** 31n, 2n ** 53n + 1n, 2n ** 63n - 1n])(
  'the position and the revision %s are exact decimal strings',
  (bits) => {
    const { position, revision } = sent({ position: bits, revision: bits });
    expect([position, revision]).toStrictEqual([`${bits}`, `${bits}`]);
  },
);

describe('the metadata of another writer', () => {
  test.each([
    ['absent', undefined],
    ['null', null],
    ['text', 'occurredAt'],
    ['a list', [{ occurredAt: '2026-03-01T12:00:00Z' }]],
    ['bytes', Buffer.from('{"occurredAt":"2026-03-01T12:00:00Z"}')],
    ['of other names', { correlationId: 'x', schemaversion: 1, OccurredAt: '2026-03-01T12:00:00Z' }],
    ['of the names of attributes', { $causationId: 'c', id: 'i', data: 'd', source: 's' }],
    ['nothing but nulls', { $correlationId: null, schemaVersion: null, occurredAt: null }],
    ['of other types', { traceparent: 7, $correlationId: {}, schemaVersion: '1', occurredAt: 1_772_366 }],
    ['of empty text', { traceparent: '', $correlationId: '', schemaVersion: '', occurredAt: '' }],
    ['an invalid time', { occurredAt: '2026-02-30T12:00:00Z' }],
    ['a version that is not an integer', { schemaVersion: 1.5 }],
    ['a version of more than 32 bits', { schemaVersion: 2 ** 31 }],
    ['a version of fewer than -32 bits', { schemaVersion: -(2 ** 31) - 1 }],
  ])('that is %s is ignored, and the rest is a CloudEvent', (_, metadata) => {
    const { time, correlationid, schemaversion, traceparent, ...rest } = sent();
    expect(sent({ metadata })).toStrictEqual(rest);
    expect(occurredAt({ ...FERN, metadata })).toBeUndefined();
  });

  test.each([0, 2 ** 31 - 1, -(2 ** 31)])('may have schemaVersion %i', (schemaVersion) => {
    expect(sent({ metadata: { schemaVersion } }).schemaversion).toBe(schemaVersion);
  });

  test.each([
    ['2026-03-01t12:00:00z', 0],
    ['2026-03-01T13:00:00.123456789+01:00', 123],
    ['2016-12-31T23:59:60Z', Date.UTC(2016, 11, 31, 23, 59, 59) - Date.UTC(2026, 2, 1, 12)],
  ])('keeps the text of its time: %s', (time, sinceNoon) => {
    const metadata = { occurredAt: time };
    expect(sent({ metadata }).time).toBe(time);
    expect(occurredAt({ ...FERN, metadata })).toBe(Date.UTC(2026, 2, 1, 12) + sinceNoon);
  });
});

describe('the data of another writer', () => {
  test.each([
    ['arbitrary', Uint8Array.of(0, 1, 254, 255), 'AAH+/w=='],
    ['empty', new Uint8Array(), ''],
    ['a view of a larger buffer', Uint8Array.of(7, 0, 255, 7).subarray(1, 3), 'AP8='],
  ])('that is binary, %s, is base64', (_, data, base64) => {
    const event = sent({ data });
    const datacontenttype = 'application/octet-stream';
    expect(event).toStrictEqual({ ...WITHOUT_DATA, datacontenttype, data_base64: base64 });
  });

  test('that is absent has no datacontenttype', () => {
    expect(sent({ data: undefined })).toStrictEqual(WITHOUT_DATA);
    expect(sent({ data: null })).toStrictEqual({ ...WITHOUT_DATA, datacontenttype: JSON_TYPE, data: null });
    expect(DATA).toEqual(FERN.data);
  });
});

test('every event of another writer is a CloudEvent with unchanged data, and with its text', () => {
  fc.assert(
    fc.property(anyEvent(), (one) => {
      const received = JSON.parse(JSON.stringify(toCloudEvent(one, FORMAT)));
      expect(isCloudEvent(received), JSON.stringify(received)).toBe(true);
      expect([received.id, received.type, received.subject]).toEqual([one.id, one.type, one.stream]);
      expect(cloudEventText(received)).toBe(eventText(one).text);
      if (one.data instanceof Uint8Array)
        expect(new Uint8Array(Buffer.from(received.data_base64, 'base64'))).toEqual(one.data);
      else
        expect(received.data).toEqual(
          one.data === undefined ? undefined : JSON.parse(JSON.stringify(one.data)),
        );
    }),
    { numRuns: 200 },
  );
});

test('the text of a CloudEvent differs if any part that is hashed differs', () => {
  const received = JSON.parse(JSON.stringify(toCloudEvent(FERN, FORMAT)));
  const text = cloudEventText(received);
  for (const [name, value] of Object.entries({
    id: 'other',
    subject: 'plant-alice/43',
    revision: '1',
    type: 'PlantMoved',
    data: { id: '42', user: 'alice', name: 'Oak' },
    metadata: '{}',
    dataandmetadata: '[,]',
  }))
    expect(cloudEventText({ ...received, [name]: value }), name).not.toBe(text);
});

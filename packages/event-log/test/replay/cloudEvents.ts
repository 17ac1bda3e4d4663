import { anyJson } from '@event-sourced/testing/anyJson';
import fc from 'fast-check';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { hashedAttributes } from '../../../transparency-log/src/digest/cloudEventEntry.ts';
import type { RecordedEvent } from '../../src/eventStore.ts';

export const FORMAT = { source: 'https://plants.example/log', hashed: hashedAttributes };
export const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

export const FERN: RecordedEvent = {
  position: 5n,
  stream: 'plant-alice/42',
  revision: 0n,
  id: '01956d2b-7a00-7000-8000-000000000001',
  type: 'PlantCreated',
  data: { id: '42', user: 'alice', name: 'Fern', tag: 'indoor' },
  metadata: {
    $correlationId: 'request-1',
    schemaVersion: 1,
    occurredAt: '2026-03-01T12:00:00.000Z',
    traceparent: TRACEPARENT,
  },
};

/** Any event, also of another writer. */
export function anyEvent(): fc.Arbitrary<RecordedEvent> {
  const half = fc.constantFrom('\ud83c', '\udf31 half');
  const name = fc.oneof({ weight: 20, arbitrary: fc.string({ minLength: 1, unit: 'binary' }) }, half);
  const infinite = fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY);
  const odd = fc.oneof(
    { weight: 40, arbitrary: anyJson() },
    fc.constant(undefined),
    fc.uint8Array({ maxLength: 20 }),
    half,
    fc.record({ litres: infinite }),
    fc.constantFrom('x'.repeat(66_000), { text: '€'.repeat(22_000) }),
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
  return fc.record({
    position: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
    revision: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    stream: name,
    id: name,
    type: name,
    data: odd,
    metadata: fc.oneof(odd, known),
  });
}

const text = (format?: string) => Type.String({ minLength: 1, ...(format && { format }) });
const Schema = Type.Object({
  id: text(),
  source: text('uri-reference'),
  specversion: text(),
  type: text(),
  subject: Type.Optional(text()),
  time: Type.Optional(text('date-time')),
  datacontenttype: Type.Optional(text()),
  data: Type.Optional(Type.Unknown()),
  data_base64: Type.Optional(
    Type.String({ pattern: '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$' }),
  ),
});
/** The attributes of CloudEvents that are not extensions. */
export const OWN = Object.keys(Schema.properties);
const checked = Compile(Schema);
/** Whether an event has the rules of the official schema, which test/clients checks itself. */
export const isBySchema = (event: unknown): boolean => checked.Check(event);

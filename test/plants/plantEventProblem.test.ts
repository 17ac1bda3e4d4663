import { expect, test } from 'vitest';
import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { plantEventProblem } from '../../src/plants/events.ts';

const METADATA = { $correlationId: 'c', schemaVersion: 1, occurredAt: '2026-03-01T12:00:00Z' };
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

const findProblem = (change: Partial<RecordedEvent>): string | undefined =>
  plantEventProblem({
    position: 1n,
    stream: 'plant-alice/1',
    revision: 0n,
    id: '01980000-0000-7000-8000-000000000001',
    type: 'PlantCreated',
    data: { id: '1', user: 'alice', name: 'Fern' },
    metadata: METADATA,
    ...change,
  });

const NOT_DATA = 'its data is not valid for a PlantCreated';
const NOT_METADATA = 'its metadata is not valid for a PlantCreated';
const inStream = (stream: string) =>
  `it is in the stream "${stream}", but its data belongs to "plant-alice/1"`;

test.for<[string, Partial<RecordedEvent>, string]>([
  ['without data', { data: null }, NOT_DATA],
  ['without a name', { data: { id: '1', user: 'alice' } }, NOT_DATA],
  ['with an ID that is not an int64', { data: { id: '01', user: 'alice', name: '' } }, NOT_DATA],
  ['in the stream of bob', { stream: 'plant-bob/1' }, inStream('plant-bob/1')],
  ['in a stream that is not of a plant', { stream: 'garden' }, inStream('garden')],
  ['at a later revision', { revision: 1n }, 'it is a PlantCreated at revision 1 of its stream'],
  ['without metadata', { metadata: undefined }, NOT_METADATA],
  ['with an invalid time', { metadata: { ...METADATA, occurredAt: 'now' } }, NOT_METADATA],
  ['of another version', { metadata: { ...METADATA, schemaVersion: 2 } }, NOT_METADATA],
  ['with a malformed trace', { metadata: { ...METADATA, traceparent: '00-1' } }, NOT_METADATA],
  ['with an event ID that is not a UUID', { id: 'x' }, 'its ID is not a UUID'],
])('a PlantCreated %s is a problem', ([, change, problem]) => {
  expect(findProblem(change)).toBe(problem);
});

test('a PlantCreated, also with a trace in its metadata, is none; nor is an event of an unknown type', () => {
  for (const change of [{}, { metadata: { ...METADATA, traceparent: TRACEPARENT } }, { type: 'PlantPruned' }])
    expect(findProblem(change)).toBeUndefined();
});

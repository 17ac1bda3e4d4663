import { expect, test } from 'vitest';
import { faultOf } from '../../src/copy/faultOf.ts';
import type { RecordedEvent } from '../../src/eventStore/eventStore.ts';

const ID = '0f0e0d0c-0b0a-4908-8706-050403020100';

/** As a store gives what another program has written. */
const recorded = (part: Partial<RecordedEvent>): RecordedEvent => ({
  ...{ position: 1n, stream: 'plant-alice/1', revision: 0n, id: ID, type: 'PlantCreated' },
  ...{ data: {}, metadata: {}, ...part },
});

test.each([
  ['text of every kind', { data: JSON.parse('{"":"\\u0000 \\ud83c 🌱 \\u2028","__proto__":{"a":[]}}') }],
  ['numbers that JavaScript can tell apart', { data: { a: [0, -1, 0.1, 2 ** 53 - 1, 1e-300, 1.5e10] } }],
  ['an unknown type in a stream of a strange name', { type: 'Ünknown 🌱', stream: 'plant-' }],
])('an event can be carried over with %s', (_, part) => {
  expect(faultOf(recorded(part))).toBeUndefined();
});

test.each<[string, unknown]>([
  ['text', 'no JSON'],
  ['bytes', new Uint8Array([0, 255])],
  ['a list', []],
  ['a number', 1],
  ['null', null],
  ['nothing', undefined],
])('an event cannot be carried over with %s where an object should be', (_, value) => {
  expect(faultOf(recorded({ data: value }))).toBe('its data is no JSON object');
  expect(faultOf(recorded({ metadata: value }))).toBe('its metadata is no JSON object');
});

test.each(['9007199254740993', '-9007199254740992', '1e21', '1e999', '-0'])(
  'an event cannot be carried over with the number %s',
  (number) => {
    const data = JSON.parse(`{"a":[{"b":${number}}]}`);
    expect(faultOf(recorded({ data }))).toBe('its data holds a number that may have lost digits');
  },
);

test.each([
  ['an id that is no UUID', { id: 'one' }, 'its id is no UUID in lower case'],
  ['an id in capitals', { id: ID.toUpperCase() }, 'its id is no UUID in lower case'],
  ['no type', { type: '' }, 'it has no type'],
  [
    'a stream that is not of a plant',
    { stream: 'invoice-1\n' },
    'its stream "invoice-1\\n" is none of a plant, and would not be followed in EventStoreDB',
  ],
])('an event cannot be carried over with %s', (_, part, fault) => {
  expect(faultOf(recorded(part))).toBe(fault);
});

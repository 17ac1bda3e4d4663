import { expect, test } from 'vitest';
import { copyProblem } from '../../src/copy/copyable.ts';
import type { RecordedEvent } from '../../src/eventStore.ts';

const ID = '0f0e0d0c-0b0a-4908-8706-050403020100';

/** An event of another program, as read from a store. */
const recorded = (part: Partial<RecordedEvent>): RecordedEvent => ({
  ...{ position: 1n, stream: 'plant-alice/1', revision: 0n, id: ID, type: 'PlantCreated' },
  ...{ data: {}, metadata: {}, ...part },
});

test.each([
  ['any text', { data: JSON.parse('{"":"\\u0000 \\ud83c 🌱 \\u2028","__proto__":{"a":[]}}') }],
  ['numbers that JavaScript represents exactly', { data: { a: [0, -1, 0.1, 2 ** 53 - 1, 1e-300, 1.5e10] } }],
  ['an unknown type in a stream with an unusual name', { type: 'Ünknown 🌱', stream: 'plant-' }],
])('an event can be copied with %s', (_, part) => {
  expect(copyProblem(recorded(part))).toBeUndefined();
});

test.each<[string, unknown]>([
  ['text', 'no JSON'],
  ['binary data', new Uint8Array([0, 255])],
  ['a list', []],
  ['a number', 1],
  ['null', null],
  ['nothing', undefined],
])('an event cannot be copied with %s instead of an object', (_, value) => {
  expect(copyProblem(recorded({ data: value }))).toBe('its data is not a JSON object');
  expect(copyProblem(recorded({ metadata: value }))).toBe('its metadata is not a JSON object');
});

test.each(['{"name": "Fern"}', '{"a":1,"a":2}', '{"a":1.0}'])(
  'an event cannot be copied with %s, which this service would write differently',
  (text) => {
    const form = /^is JSON in a form that the embedded log never writes/;
    expect(copyProblem(recorded({ data: text }))?.replace('its data ', '')).toMatch(form);
    expect(copyProblem(recorded({ metadata: text }))?.replace('its metadata ', '')).toMatch(form);
  },
);

test.each(['9007199254740993', '-9007199254740992', '1e21', '1e999', '-0'])(
  'an event cannot be copied with the number %s',
  (number) => {
    const data = JSON.parse(`{"a":[{"b":${number}}]}`);
    expect(copyProblem(recorded({ data }))).toBe('its data has a number that may have lost digits');
  },
);

test.each([
  ['an ID that is not a UUID', { id: 'one' }, 'its ID is not a UUID in lower case'],
  ['an ID in upper case', { id: ID.toUpperCase() }, 'its ID is not a UUID in lower case'],
  ['no type', { type: '' }, 'it has no type'],
  [
    'a stream that is not of a plant',
    { stream: 'invoice-1\n' },
    'its stream "invoice-1\\n" does not start with plant-; subscriptions to EventStoreDB would not deliver it',
  ],
])('an event cannot be copied with %s', (_, part, problem) => {
  expect(copyProblem(recorded(part), 'plant-')).toBe(problem);
});

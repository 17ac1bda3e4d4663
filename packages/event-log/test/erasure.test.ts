import { expect, test } from 'vitest';
import { erasureData, leafOfStub, parseErasure, stubOf, withErased } from '../src/erasure.ts';

const LEAF = '0123456789abcdef'.repeat(4);
const OTHER = 'f'.repeat(64);

test('a stub follows from the leaf hash and the prefix of streams', () => {
  expect(stubOf(LEAF, 'list-')).toEqual({
    stream: 'list-erased-01234567-89ab-8def-8123-456789abcdef',
    revision: 0n,
    id: '01234567-89ab-8def-8123-456789abcdef',
    type: 'EventErased',
    data: { leaf: LEAF },
    metadata: {},
  });
  expect(stubOf(OTHER, '').id).toBe('ffffffff-ffff-8fff-bfff-ffffffffffff');
});

test('an event that was read is a stub only if it is exactly that of its leaf hash', () => {
  const stub = { position: 1n, ...stubOf(LEAF, 'list-') };
  expect(withErased(stub).erased).toBe(LEAF);
  for (const change of [
    { type: 'Created' },
    { data: { leaf: OTHER } },
    { data: { leaf: LEAF, more: 1 } },
    { data: { leaf: LEAF.toUpperCase() } },
    { data: null },
    { metadata: { more: 1 } },
    { metadata: undefined },
    { id: stubOf(OTHER, '').id },
    { stream: 'list-alice/1' },
    { stream: `list-alice/erased-${stub.id}` },
    { revision: 1n },
  ])
    expect(leafOfStub({ ...stub, ...change })).toBeUndefined();
});

const RECORD = { stream: 'list-erasure-1', id: '1', type: 'EventsErased' };

test('a record is read as it was written', () => {
  const erasure = { log: 'sabc', events: [{ position: 7n, leaf: LEAF }] };
  const record = { ...RECORD, data: erasureData(erasure) };
  expect(parseErasure(record)).toEqual(erasure);
  for (const change of [{ type: 'EventErased' }, { stream: 'list-erasure-2' }, { id: '2' }])
    expect(parseErasure({ ...record, ...change })).toBeUndefined();
});

test.each([
  null,
  [],
  { log: 'sabc' },
  { log: 1, events: [] },
  { log: 'sabc', events: {} },
  { log: 'sabc', events: [null] },
  { log: 'sabc', events: [{ leaf: LEAF, position: 1 }] },
  { log: 'sabc', events: [{ leaf: LEAF, position: '0' }] },
  { log: 'sabc', events: [{ leaf: LEAF, position: '-1' }] },
  { log: 'sabc', events: [{ leaf: LEAF, position: '9223372036854775808' }] },
  { log: 'sabc', events: [{ leaf: 'x', position: '1' }] },
])('%j is no record', (data) => {
  expect(parseErasure({ ...RECORD, data })).toBeUndefined();
});

import { expect, test } from 'vitest';
import { digestInStub, parseRecord } from '../src/erasure/erasure.ts';

const ID = '01234567-89ab-8def-8123-456789abcdef';
const SHA256 = '0123456789abcdef'.repeat(4);
const STUB = {
  stream: `list-erased-${ID}`,
  revision: 0n,
  id: ID,
  type: 'EventErased',
  data: { sha256: SHA256, type: 'ItemAdded' },
  metadata: {},
};

test('a stub has the digest of the event that it replaces', () => {
  expect(digestInStub(STUB)).toEqual({ sha256: SHA256, type: 'ItemAdded' });
});

const CHANGES = [
  { type: 'Created' },
  { data: { sha256: SHA256 } },
  { data: { sha256: SHA256, type: 1 } },
  { data: { sha256: SHA256, type: 'ItemAdded', more: 1 } },
  { data: { sha256: SHA256.toUpperCase(), type: 'ItemAdded' } },
  { data: { sha256: SHA256.slice(1), type: 'ItemAdded' } },
  { data: null },
  { metadata: { more: 1 } },
  { metadata: undefined },
  { id: '01234567-89ab-8def-8123-456789abcde0' },
  { stream: 'list-alice/1' },
  { stream: `list-alice/erased-${ID}` },
  { revision: 1n },
];

test('an event with any other value is no stub', () => {
  for (const change of CHANGES) expect(digestInStub({ ...STUB, ...change })).toBeUndefined();
});

test('a record names indices in ascending order', () => {
  expect(parseRecord({ erased: [0] })).toEqual([0]);
  expect(parseRecord({ erased: [4, 7, 2 ** 53 - 1] })).toEqual([4, 7, 2 ** 53 - 1]);
  const most = Array.from({ length: 10_000 }, (_, i) => i);
  expect(parseRecord({ erased: most })).toEqual(most);
});

test.each([
  null,
  undefined,
  [],
  {},
  { erased: [] },
  { erased: {} },
  { erased: '4' },
  { erased: ['4'] },
  { erased: [-1] },
  { erased: [0.5] },
  { erased: [2 ** 53] },
  { erased: [4, 4] },
  { erased: [7, 4] },
  { erased: [4], log: 'sabc' },
  { erased: Array.from({ length: 10_001 }, (_, i) => i) },
])('%j is not the data of a record', (data) => {
  expect(parseRecord(data)).toBeUndefined();
});

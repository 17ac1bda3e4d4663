import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BloomFilter } from '../../src/entries/bloomFilter.ts';

test('has no false negatives, whatever names are added', () => {
  const text = fc.string({
    unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  });
  const name = fc.oneof(text, fc.constantFrom('', 'plant-alice/1', 'plant-alice/-1', 'plant-bob/1'));
  const seen = new BloomFilter();
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 50 }), (names) => {
      for (const one of names) seen.add(one);
      expect(names.filter((one) => !seen.add(one))).toEqual([]);
    }),
  );
});

// Each false positive costs one query to the log, so a few do not matter; with so few of the bits in
// use, none is expected.
test.each<[string, (i: number) => string]>([
  ['of two users', (i) => `plant-${i % 2 ? 'alice' : 'bob'}/${i}`],
  ['of as many users', (i) => `plant-user ${i}/1`],
  ['with large numbers', (i) => `plant-alice/${-(2n ** 63n) + BigInt(i)}`],
  ['of one or two characters', (i) => String.fromCharCode(i & 0xff, i >> 8)],
])('has no false positives for 1 000 names %s, and few for 30 000', (_, nameOf) => {
  const seen = new BloomFilter();
  const taken = { early: 0, late: 0 };
  for (let i = 0; i < 30_000; i++) if (seen.add(nameOf(i))) taken[i < 1_000 ? 'early' : 'late']++;
  expect(taken.early).toBe(0);
  expect(taken.late).toBeLessThan(10);
});

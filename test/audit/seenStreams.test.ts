import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SeenStreams } from '../../src/audit/seenStreams.ts';

test('a name that has been met is never forgotten, whatever it is and whatever comes after it', () => {
  const text = fc.string({
    unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  });
  const name = fc.oneof(text, fc.constantFrom('', 'plant-alice/1', 'plant-alice/-1', 'plant-bob/1'));
  const seen = new SeenStreams();
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 50 }), (names) => {
      for (const one of names) seen.add(one);
      expect(names.filter((one) => !seen.add(one))).toEqual([]);
    }),
  );
});

test('of a hundred thousand names none is forgotten', () => {
  const seen = new SeenStreams();
  const names = Array.from({ length: 100_000 }, (_, i) => `plant-${i % 2 ? 'alice' : 'bob'}/${i}`);
  for (const name of names) seen.add(name);
  expect(names.filter((name) => !seen.add(name))).toEqual([]);
});

// Each name that is taken for another costs one question to the log, so a few do not matter; of so few of the bits in
// use none is to be expected.
test.each<[string, (i: number) => string]>([
  ['of two users', (i) => `plant-${i % 2 ? 'alice' : 'bob'}/${i}`],
  ['of as many users', (i) => `plant-user ${i}/1`],
  ['with large numbers', (i) => `plant-alice/${-(2n ** 63n) + BigInt(i)}`],
  ['of one or two characters', (i) => String.fromCharCode(i & 0xff, i >> 8)],
])(
  'of a thousand names %s none, of a hundred thousand hardly any is taken for one that was met',
  (_, nameOf) => {
    const seen = new SeenStreams();
    const taken = { early: 0, late: 0 };
    for (let i = 0; i < 100_000; i++) if (seen.add(nameOf(i))) taken[i < 1_000 ? 'early' : 'late']++;
    expect(taken.early).toBe(0);
    expect(taken.late).toBeLessThan(20);
  },
);

test('each log begins without any', () => {
  const [alice, bob] = ['plant-alice/1', 'plant-bob/1'];
  const one = new SeenStreams();
  expect([alice, bob, alice, bob].map((name) => one.add(name))).toEqual([false, false, true, true]);
  expect(new SeenStreams().add(alice)).toBe(false);
});

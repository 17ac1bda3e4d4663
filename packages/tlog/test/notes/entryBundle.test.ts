import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatEntryBundle, parseEntryBundle } from '../../src/notes/entryBundle.ts';
import { NotVerified } from '../../src/notes/notVerified.ts';

const entry = fc.uint8Array({ maxLength: 300 });

test('a bundle has each entry after its length in two bytes, big-endian', () => {
  const bundle = formatEntryBundle([Buffer.from('Fern'), Buffer.alloc(0), Buffer.alloc(258, 'x')]);
  expect(Buffer.from(bundle).toString('latin1')).toBe(`\x00\x04Fern\x00\x00\x01\x02${'x'.repeat(258)}`);
  expect(parseEntryBundle(bundle).map(({ length }) => length)).toEqual([4, 0, 258]);
  expect(parseEntryBundle(formatEntryBundle([new Uint8Array(65_535)]))).toEqual([new Uint8Array(65_535)]);
  expect(() => parseEntryBundle(Buffer.alloc(2 * 257))).toThrow('a bundle has too many entries');
  expect(() => formatEntryBundle([Buffer.alloc(65_536)])).toThrow(RangeError);
});

test('a bundle gives back its entries; a bundle that is cut within an entry is refused', () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 20 }), fc.nat(), (entries, cut) => {
      const bundle = formatEntryBundle(entries);
      expect(parseEntryBundle(bundle)).toEqual(entries);
      const at = bundle.length === 0 ? 0 : cut % bundle.length;
      const ends = entries.map((_, i) => formatEntryBundle(entries.slice(0, i + 1)).length);
      if ([0, ...ends].includes(at))
        expect(parseEntryBundle(bundle.subarray(0, at))).toHaveLength([0, ...ends].indexOf(at));
      else expect(() => parseEntryBundle(bundle.subarray(0, at))).toThrow(NotVerified);
    }),
  );
});

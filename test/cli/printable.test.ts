import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { printable, printableJson } from '../../packages/node/src/cli/printable.ts';

const anything = fc.integer({ min: 0, max: 0x10ffff }).map((point) => String.fromCodePoint(point));
const danger = fc.constantFrom(
  '\x1b',
  '\x9b',
  '\x7f',
  '\n',
  '\u0085',
  '\u2028',
  '\u202e',
  '\u{e007f}',
  '\udc00',
);

/** Control characters, format characters, unpaired surrogates and line separators. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

describe('printable text', () => {
  test.for([
    ['an escape sequence', '\x1b[2J\x1b]0;title\x07', '\\u{1b}[2J\\u{1b}]0;title\\u{7}'],
    ['an escape sequence of one character', '\x9b31m', '\\u{9b}31m'],
    ['line breaks', 'a\r\nb\u0085c', 'a\\u{d}\\u{a}b\\u{85}c'],
    ['line breaks of Unicode', 'a\u2028b\u2029c', 'a\\u{2028}b\\u{2029}c'],
    ['a tab, a backspace and a delete', '\t\b\x7f', '\\u{9}\\u{8}\\u{7f}'],
    ['bidirectional controls', 'a\u202eb\u2066c\u200f', 'a\\u{202e}b\\u{2066}c\\u{200f}'],
    ['zero-width characters', 'a\u200bb\ufeff\u00ad', 'a\\u{200b}b\\u{feff}\\u{ad}'],
    ['a hidden tag', 'a\u{e0041}', 'a\\u{e0041}'],
    ['an unpaired surrogate', 'a\ud83c', 'a\\u{d83c}'],
  ])('has %s by its code point', ([, text = '', shown]) => {
    expect(printable(text)).toBe(shown);
  });

  test('never contains unsafe characters, and otherwise equals the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.oneof(anything, danger) }), (text) => {
        const shown = printable(text);
        expect(shown).not.toMatch(UNSAFE);
        if (!UNSAFE.test(text)) expect(shown).toBe(text);
      }),
    );
  });
});

test('printable JSON is the same value, without unsafe characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.oneof(anything, danger) }), (text) => {
      const json = printableJson(JSON.stringify({ [text]: text }));
      expect(json).not.toMatch(UNSAFE);
      expect(JSON.parse(json)).toEqual({ [text]: text });
    }),
  );
});

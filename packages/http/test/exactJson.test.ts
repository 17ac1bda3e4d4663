import { anyJson } from '@event-sourced/testing/anyJson';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HTTP_ERRORS, HttpError } from '../src/errors.ts';
import { parseExactJson } from '../src/exactJson.ts';

const parse = (text: string): unknown => parseExactJson(Buffer.from(text));
const nested = (depth: number, inside = ''): string => '['.repeat(depth) + inside + ']'.repeat(depth);

const notJson = (message: string): HttpError => new HttpError(HTTP_ERRORS.notJson, message);

const SMALLEST = -(2n ** 63n);
const LARGEST = 2n ** 63n - 1n;
const int64 = () => fc.bigInt({ min: SMALLEST, max: LARGEST });

describe('a 64-bit integer keeps every digit', () => {
  test.each([
    ['0', 0n],
    ['-0', 0n],
    ['0e99999999', 0n],
    ['1.0', 1n],
    ['1e3', 1000n],
    ['1e0000000000000000000003', 1000n],
    ['1200e-2', 12n],
    ['999999999999999', 999999999999999n],
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993.0', -9007199254740993n],
    ['922337203685477580.7e1', LARGEST],
    ['9223372036854775807', LARGEST],
    ['-9223372036854775808', SMALLEST],
  ])('%s', (text, value) => {
    expect(BigInt(parse(text) as number | bigint)).toBe(value);
    expect(BigInt((parse(`{"id": ${text} }`) as { id: number | bigint }).id)).toBe(value);
  });

  test('in any notation', () => {
    fc.assert(
      fc.property(int64(), fc.nat(40), fc.nat(40), (value, zeros, point) => {
        const digits = `${value < 0n ? -value : value}${'0'.repeat(zeros)}`.padStart(point + 1, '0');
        const whole = digits.slice(0, digits.length - point).replace(/^0+(?=\d)/, '');
        const fraction = point === 0 ? '' : `.${digits.slice(-point)}`;
        const text = `${value < 0n ? '-' : ''}${whole}${fraction}e${point - zeros}`;
        expect(BigInt(parse(text) as number | bigint), text).toBe(value);
      }),
    );
  });
});

test('an integer that a number can hold is a number, whatever else the text has', () => {
  const text =
    '{"at":"2026-03-01T12:00:00.000Z","large":9007199254740993,"small":3,"zero":-0,"safe":-9007199254740991}';
  const { at, ...numbers } = parse(text) as Record<string, unknown>;
  expect(at).toBe('2026-03-01T12:00:00.000Z');
  expect(numbers).toEqual({ large: 9007199254740993n, small: 3, zero: 0, safe: -9007199254740991 });
});

describe('any other number is NaN', () => {
  test.each([
    ...'1.5 0.1 -0.5 15e-1 1e-1 9007199254740990.7 1.00000000000000001 1e-400 1e400 -1e400'.split(' '),
    ...'1e19 1e99999999999999999999 1e-99999999999999999999 9223372036854775808'.split(' '),
    ...'-9223372036854775809 9223372036854775807.1 10000000000000000000000'.split(' '),
  ])('%s', (text) => {
    expect(parse(text)).toBeNaN();
    expect(parse(`{"id":[${text}]}`)).toEqual({ id: [Number.NaN] });
  });

  test('with any fraction, and of any size', () => {
    const beyond = fc.oneof(fc.bigInt({ min: LARGEST + 1n }), fc.bigInt({ max: SMALLEST - 1n })).map(String);
    const fractional = fc
      .tuple(int64(), fc.integer({ min: 1, max: 999 }))
      .map(([n, part]) => `${n}.00${part}`);
    fc.assert(
      fc.property(fc.oneof(beyond, fractional), (text) => {
        expect(parse(text), text).toBeNaN();
      }),
    );
  });
});

test('a text without large numbers is parsed as by JSON.parse', () => {
  const value = anyJson().filter((one) => !/\d[.eE]|\d{16}/.test(JSON.stringify(one)));
  fc.assert(
    fc.property(value, (one) => {
      const text = JSON.stringify(one);
      fc.pre(!text.includes('__proto__') && !/\\ud/.test(text));
      expect(parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

describe.each([
  ['with small numbers only', '1'],
  ['with a number that needs its source text', '1.0'],
])('nesting, in a text %s:', (_, number) => {
  const objects = (depth: number) => '{"a":'.repeat(depth) + number + '}'.repeat(depth);
  const mixed = (depth: number) => nested(depth / 2, `{"a":${nested(depth / 2 - 1, number)}}`);

  test.each([
    ['arrays', nested(64, number)],
    ['objects', objects(64)],
    ['both', mixed(64)],
    ['brackets in strings', JSON.stringify(['['.repeat(200), { '{{{"[\\': ['\\"[{'.repeat(100), 1] }])],
    ['a string that ends in a backslash', `["\\\\",${number},"${'['.repeat(65)}"]`],
  ])('64 levels are accepted: %s', (_kind, text) => {
    expect(
      JSON.stringify(parse(text), (_key, part) => (typeof part === 'bigint' ? Number(part) : part)),
    ).toBe(JSON.stringify(JSON.parse(text)));
  });

  test.each([
    ['arrays', nested(65, number)],
    ['after a string', `["\\"]","\\\\",${nested(64, number)}]`],
    ['20 000, which would overflow the stack', nested(20_000, number)],
    ['unclosed', `${'['.repeat(65)}${number}`],
  ])('65 levels are rejected: %s', (_kind, text) => {
    expect(() => parse(text)).toThrow(notJson('The body is nested more than 64 levels deep.'));
  });
});

describe('text', () => {
  test.each([
    ['NUL', '"\\u0000"', '\0'],
    ['an escaped emoji', '"\\ud83c\\udf31"', '🌱'],
    ['an escaped emoji in upper case', '"\\uD83C\\uDF31"', '🌱'],
    ['a backslash before ud800', '"\\\\ud800"', '\\ud800'],
    ['after a byte order mark', '\ufeff"Fern"', 'Fern'],
    ['U+FFFD itself', '"\ufffd"', '\ufffd'],
    ['the name of the prototype', '"__proto__"', '__proto__'],
  ])('is parsed exactly: %s', (_, text, value) => {
    expect(parse(text)).toBe(value);
  });

  test.each([
    ['a stray byte', Buffer.from([0x22, 0xff, 0x22])],
    ['Latin-1', Buffer.from('"Köln"', 'latin1')],
    ['an encoded surrogate', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['a truncated character', Buffer.from('"🌱').subarray(0, 3)],
    ['UTF-16', Buffer.from('\ufeff"Fern"', 'utf16le')],
  ])('that is not UTF-8 is rejected: %s', (_, bytes) => {
    expect(() => parseExactJson(bytes)).toThrow(notJson('The body is not UTF-8.'));
  });
});

test.each([
  ['an unpaired surrogate', '"\\ud800"'],
  ['an unpaired surrogate', '"\\udf31\\ud83c"'],
  ['an unpaired surrogate', '"\\ud83c\\ud83c\\udf31"'],
  ['an unpaired surrogate', '{"\\udc00":1}'],
  ['an unpaired surrogate', '[1,{"a":[{"b":"Fern \\ud83c"}]}]'],
  ['an unpaired surrogate', '[9007199254740993,"\\ud83c"]'],
  ['the key __proto__', '{"__proto__":1}'],
  ['the key __proto__', '{"name":"Fern","__proto__":{"tag":"indoor"}}'],
  ['the key __proto__', '{"\\u005F\\u005f\\u0070\\u0072\\u006f\\u0074\\u006F\\u005f\\u005F":{}}'],
  ['the key __proto__', '{"id":9007199254740993,"__proto__":{}}'],
])('%s is rejected: %s', (what, text) => {
  expect(() => parse(text)).toThrow(notJson(`The body has ${what}.`));
});

describe('invalid JSON is rejected', () => {
  test.each(['', '{', '[1,]', "{'a':1}", '01', '+1', '1.', '1e', 'NaN', 'undefined'])('%j', (text) => {
    expect(() => parse(text)).toThrow(HttpError);
  });

  test('with a well-formed message', () => {
    expect(() => parse('"🌱" "🌱"')).toThrow(expect.toSatisfy(({ message }) => message.isWellFormed()));
  });
});

describe('64 KiB of hostile input are parsed in linear time:', () => {
  const zeros = '0'.repeat(60_000);
  test.each([
    ['a number with zeros at its end', `1${zeros}`, Number.NaN],
    ['a number with zeros in its middle', `1${zeros}1`, Number.NaN],
    ['a number with zeros in its fraction', `0.${zeros}1e60001`, 1],
    ['a number whose exponent removes its zeros', `1${zeros}e-60000`, 1],
    ['an exponent of many digits', `1e${'9'.repeat(60_000)}`, Number.NaN],
    ['a string of digits', `"${'1'.repeat(60_000)}"`, '1'.repeat(60_000)],
    ['many numbers', `[${'1.0,'.repeat(15_000)}1]`, Array(15_001).fill(1)],
    ['many keys', `{${'"a":1e0,'.repeat(7_000)}"a":2.0}`, { a: 2 }],
  ])('%s', (_, text, value) => {
    expect(parse(text)).toEqual(value);
  });

  test.each([
    ['an unterminated string of escaped quotes', `"${'\\"'.repeat(32_000)}`],
    ['an unterminated string of backslashes', `"${'\\'.repeat(64_000)}`],
    ['an unterminated string of surrogates', `"${'\\ud800'.repeat(10_000)}`],
    ['names of the prototype with spaces after them', `[${`"__proto__"${' '.repeat(50)},`.repeat(1_000)}`],
    ['points', `1${'.1'.repeat(32_000)}`],
    ['opening brackets', '[{'.repeat(32_000)],
  ])('%s', (_, text) => {
    expect(() => parse(text)).toThrow(HttpError);
  });
});

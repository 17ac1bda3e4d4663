import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isRfc3339, parseRfc3339, parseRfc3339RoundedUp } from '../../src/time/rfc3339.ts';

const NOON = Date.UTC(2026, 2, 1, 12);

describe('a time of RFC 3339 is parsed to milliseconds since 1970:', () => {
  test.each([
    ['1970-01-01T00:00:00Z', 0],
    ['1969-12-31T23:59:59.999Z', -1],
    ['2026-03-01T12:00:00Z', NOON],
    ['2026-03-01T12:00:00.5Z', NOON + 500],
    ['2026-03-01T12:00:00.050Z', NOON + 50],
    ['2026-03-01t12:00:00z', NOON],
    ['2026-03-01t12:00:00.5+00:00', NOON + 500],
    ['2026-03-01T12:00:00-00:00', NOON],
    ['2026-03-01T13:00:00+01:00', NOON],
    ['2026-03-01T11:30:00-00:30', NOON],
    ['2026-03-02T02:00:00+14:00', NOON],
    ['2026-03-02T11:59:00+23:59', NOON],
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
    ['9999-12-31T23:59:59.999Z', Date.UTC(9999, 11, 31, 23, 59, 59, 999)],
    ['0000-01-01T00:00:00Z', -62_167_219_200_000],
    // Further digits are dropped.
    ['2026-03-01T12:00:00.1239Z', NOON + 123],
    ['2026-03-01T12:00:00.9999999Z', NOON + 999],
    ['2026-03-01T12:00:00.00000000000000000000000001Z', NOON],
    ['2026-03-01T12:00:00.0600000000Z', NOON + 60],
    ['2026-03-01T12:00:00.0600000000-00:30', NOON + 30 * 60_000 + 60],
    // A leap second is the second before it.
    ['2016-12-31T23:59:60Z', Date.UTC(2016, 11, 31, 23, 59, 59)],
    ['2016-12-31T23:59:60.5Z', Date.UTC(2016, 11, 31, 23, 59, 59, 500)],
    ['2017-01-01T00:59:60+01:00', Date.UTC(2016, 11, 31, 23, 59, 59)],
  ])('%s', (text, time) => {
    expect(parseRfc3339(text)).toBe(time);
  });

  test('any time, with any offset', () => {
    const moment = fc.date({ min: new Date('0001-01-01'), max: new Date('9998-12-31'), noInvalidDate: true });
    const offset = fc.integer({ min: -(24 * 60 - 1), max: 24 * 60 - 1 });
    fc.assert(
      fc.property(moment, offset, (at, minutes) => {
        const local = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, -1);
        const [hour, minute] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
        const zone = [hour, minute].map((part) => String(part).padStart(2, '0')).join(':');
        expect(parseRfc3339(`${local}${minutes < 0 ? '-' : '+'}${zone}`)).toBe(at.getTime());
      }),
    );
  });
});

test('a time in the form of toISOString is parsed like with any other offset', () => {
  const two = fc.nat(99).map((number) => String(number).padStart(2, '0'));
  const likely = (min: number, max: number) =>
    fc.oneof(
      two,
      fc.integer({ min, max }).map((number) => String(number).padStart(2, '0')),
    );
  const parts = [two, likely(0, 13), likely(0, 32), likely(22, 25), likely(58, 61), likely(58, 61)] as const;
  fc.assert(
    fc.property(fc.tuple(...parts), ([year, month, day, hour, minute, second]) => {
      const local = `20${year}-${month}-${day}T${hour}:${minute}:${second}.123`;
      expect(parseRfc3339(`${local}Z`)).toBe(parseRfc3339(`${local}+00:00`));
      expect(isRfc3339(`${local}Z`)).toBe(parseRfc3339(`${local}+00:00`) !== undefined);
    }),
    { numRuns: 1_000 },
  );
});

test.each([
  ['2026-03-01T12:00:00Z', NOON],
  ['2026-03-01T12:00:00.123Z', NOON + 123],
  ['2026-03-01T12:00:00.12300Z', NOON + 123],
  ['2026-03-01T12:00:00.1230001Z', NOON + 124],
  ['2026-03-01T13:00:00.9999+01:00', NOON + 1_000],
  ['2026-03-01T12:00:00.00000000000000000000000001Z', NOON + 1],
  ['1969-12-31T23:59:59.9999Z', 0],
  ['yesterday', undefined],
])('%s is rounded up to milliseconds', (text, time) => {
  expect(parseRfc3339RoundedUp(text)).toBe(time);
});

test.each([
  ['', 'empty text'],
  ['yesterday', 'a word'],
  ['1772366400000', 'a number'],
  ['2026-03-01', 'a date'],
  ['12:00:00Z', 'a time of day'],
  ['2026-03-01T12:00:00', 'a time without its offset'],
  ['2026-03-01T12:00Z', 'a time without its seconds'],
  ['2026-03-01 12:00:00Z', 'a time with a space'],
  ['2026-03-01T12:00:00 01:00', 'a time with a space instead of +'],
  ['2026-03-01T12:00:00+0100', 'an offset without its colon'],
  ['2026-03-01T12:00:00+24:00', 'an offset of a day'],
  ['2026-03-01T12:00:00,5Z', 'a fraction with a comma'],
  ['2026-03-01T12:00:00.Z', 'a fraction without digits'],
  ['2026-03-01T24:00:00Z', 'hour 24'],
  ['2026-03-01T12:60:00Z', 'minute 60'],
  ['2026-03-01T12:00:61Z', 'second 61'],
  ['2026-03-01T12:00:60Z', 'a leap second at noon'],
  ['2026-02-29T12:00:00Z', 'a day that February does not have'],
  ['2026-13-01T12:00:00Z', 'month 13'],
  ['2026-00-01T12:00:00Z', 'month 0'],
  ['+002026-03-01T12:00:00Z', 'a year of six digits'],
  ['-0001-03-01T12:00:00Z', 'a negative year'],
  ['2026-03-01T12:00:00Z ', 'a trailing space'],
  ['2026-03-01T12:00:00Z\n', 'a trailing line feed'],
  ['2026-03-01T12:00:00Z[Europe/Berlin]', 'the name of a zone (RFC 9557)'],
  ['２０２６-03-01T12:00:00Z', 'full-width digits'],
  ['Sun, 01 Mar 2026 12:00:00 GMT', 'a date of HTTP'],
])('%j is not a time of RFC 3339: %s', (text) => {
  expect(parseRfc3339(text)).toBeUndefined();
});

test('a value that is not a string is not a time', () => {
  for (const value of [undefined, null, NOON, new Date(NOON), ['2026-03-01T12:00:00Z'], {}])
    expect(parseRfc3339(value)).toBeUndefined();
});

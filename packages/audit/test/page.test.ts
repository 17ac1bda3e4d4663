import { expect, onTestFinished, test, vi } from 'vitest';
import type { Entity } from '../src/entityType.ts';
import { toBars } from '../src/page/bars.ts';
import { type Change, statesAt } from '../src/page/states.ts';
import { indentedJson, visible } from '../src/page/text.ts';
import { Zone } from '../src/page/zone.ts';

test.each([
  ['Fern 🌱 é يسرى', 'Fern 🌱 é يسرى'],
  ['\u202Egnp.exe', '[U+202E]gnp.exe'],
  ['a\0b\x1b[31m', 'a[U+0000]b[U+001B][31m'],
  ['zero\u200Bwidth\uFEFF', 'zero[U+200B]width[U+FEFF]'],
  ['line\nbreak\u2028', 'line[U+000A]break[U+2028]'],
  ['\uD83C', '[U+D83C]'],
  ['\u{E0041}', '[U+E0041]'],
])('%j is shown as %j', (text, shown) => {
  expect(visible(text)).toBe(shown);
});

test('the JSON of an event is indented, with all digits and without invisible characters', () => {
  const json = '{"id":9223372036854775807,"n":1.10,"name":"\\u202e\\u0000\\u2066🌱\u{E0041}"}';
  const shown = indentedJson(json);
  expect(shown).toBe(
    '{\n  "id": 9223372036854775807,\n  "n": 1.10,\n  "name": "\\u202e\\u0000\\u2066🌱\\udb40\\udc41"\n}',
  );
  expect(JSON.parse(shown)).toEqual(JSON.parse(json));
});

const evolve = (entity: Entity | undefined, { type, data }: { type: string; data: unknown }) =>
  type === 'Removed' ? undefined : { ...entity, ...(data as Entity) };
const change = (time: number, id: string, type: string, data = {}): Change => {
  return { time, id, type, data, revision: 0n };
};
const changes = [
  change(1, 'a', 'Created', { name: 'Fern', tag: 'indoor' }),
  change(2, 'b', 'Created', { name: 'Oak' }),
  change(3, 'a', 'Renamed', { name: 'Bracken' }),
  change(4, 'b', 'Removed'),
  change(Number.NaN, 'c', 'Created', { name: 'without a time' }),
];
const fern = { id: 'a', entity: { name: 'Fern', tag: 'indoor' }, since: 1, changed: 1 };
const oak = { id: 'b', entity: { name: 'Oak' }, since: 2, changed: 2 };
const bracken = { id: 'a', entity: { name: 'Bracken', tag: 'indoor' }, since: 1, changed: 3 };

test.each([
  [0, []],
  [1, [fern]],
  [2, [fern, oak]],
  [3, [bracken, oak]],
  [4, [bracken]],
])('entities at the point in time %d are what their events up to then make', (time, states) => {
  expect(statesAt(changes, time, evolve)).toEqual(states);
});

test('bars count every event once, in ranges of equal length without gaps', () => {
  const DAY_MS = 86_400_000;
  const YEARS_0_AND_9999 = [Date.parse('0000-01-01T00:00Z'), Date.parse('9999-12-31T23:59Z')];
  for (const times of [[0], [5, 5, 5], [0, 59_999], [3, 40 * DAY_MS, DAY_MS], YEARS_0_AND_9999]) {
    const bars = toBars(times);
    expect(bars.length).toBeGreaterThanOrEqual(30);
    expect(bars.length).toBeLessThanOrEqual(60);
    for (const { from, to, count } of bars)
      expect(count).toBe(times.filter((time) => time >= from && time <= to).length);
    expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(times.length);
    for (const [i, { from }] of bars.entries()) if (i > 0) expect(from).toBe((bars[i - 1]?.to ?? 0) + 1);
  }
  expect(toBars([])).toEqual([]);
});

const at = (text: string): number => Date.parse(`2026-03-01T${text}Z`);

test.each([
  ['06:00:00.000', '07:59:59.999', '2026-03-01 06:00', '2026-03-01 07:59'],
  ['06:00:01.000', '06:00:30.999', '2026-03-01 06:00:01', '2026-03-01 06:00:30'],
  ['06:00:01.001', '06:00:01.030', '2026-03-01 06:00:01.001', '2026-03-01 06:00:01.030'],
])('the ends of an axis from %s to %s differ', (from, to, ...ends) => {
  expect(new Zone().formatEnds(at(from), at(to))).toEqual(ends);
});

test.each([
  ['2026-03-01', '2026-03-01T23:59:59.999Z'],
  ['2026-03-01T12:00:30.5+05:30', '2026-03-01T06:30:30.500Z'],
  ['2024-02-29', '2024-02-29T23:59:59.999Z'],
  ['2026-02-29', undefined],
  ['2026-03-01 25:00', undefined],
  ['yesterday', undefined],
  ['2026-03-01T12:00:00.0600000000Z', undefined],
])('the time %j is %s', (text, time) => {
  expect(new Zone().parse(text, '23:59:59.999')).toBe(time);
});

test.each([
  ['2026-03-01T12:00:00.0600000000Z', '12:00:00.060'],
  ['2026-12-31T23:59:60.5Z', '23:59:59.500'],
])('the time %s of an event, or of a link, is shown as the server reads it', (text, shown) => {
  expect(new Zone().show(text).slice(11)).toBe(shown);
});

test.each([
  ['America/New_York', '2026-11-01T05:30:00.000Z', '2026-11-01 01:30:00.000-04:00'],
  ['America/New_York', '2026-11-01T06:30:00.000Z', '2026-11-01 01:30:00.000-05:00'],
  ['America/New_York', '2026-11-01T07:00:00.000Z', '2026-11-01 02:00:00.000'],
  ['Australia/Lord_Howe', '2026-04-04T15:00:00.000Z', '2026-04-05 01:30:00.000+10:30'],
  ['Asia/Kathmandu', '2026-11-01T06:30:00.000Z', '2026-11-01 12:15:00.000'],
])('in %s, %s is %s', (timeZone, time, shown) => {
  const zone = localZone(timeZone);
  expect(zone.show(time)).toBe(shown);
  expect(zone.parse(shown, '00:00')).toBe(time);
});

test('a local time is parsed as the time that was formatted, also where clocks are changed', () => {
  for (const timeZone of ['America/New_York', 'Australia/Lord_Howe', 'Asia/Beirut']) {
    const zone = localZone(timeZone);
    for (let time = Date.UTC(2026, 0, 1); time < Date.UTC(2027, 0, 1); time += 30 * 60_000)
      expect(zone.parse(zone.format(time), '00:00')).toBe(new Date(time).toISOString());
  }
});

test('both ends of an axis have their offsets in an hour that is repeated', () => {
  const ends = localZone('America/New_York').formatEnds(
    Date.UTC(2026, 10, 1, 5, 10),
    Date.UTC(2026, 10, 1, 6, 5),
  );
  expect(ends).toEqual(['2026-11-01 01:10-04:00', '2026-11-01 01:05-05:00']);
});

test.each([
  ['America/New_York', '2026-11-01 01:30', '00:00', '2026-11-01T05:30:00.000Z'],
  ['America/New_York', '2026-03-08 02:30', '00:00', '2026-03-08T07:30:00.000Z'],
  ['Asia/Beirut', '2026-10-24', '23:59:59.999', '2026-10-24T21:59:59.999Z'],
  ['Asia/Beirut', '2026-03-29', '00:00', '2026-03-28T22:00:00.000Z'],
])('in %s, %s from %s on is %s', (timeZone, text, timeOfDay, time) => {
  expect(localZone(timeZone).parse(text, timeOfDay)).toBe(time);
});

function localZone(timeZone: string): Zone {
  vi.stubEnv('TZ', timeZone);
  onTestFinished(() => void vi.unstubAllEnvs());
  const zone = new Zone();
  zone.isLocal = true;
  return zone;
}

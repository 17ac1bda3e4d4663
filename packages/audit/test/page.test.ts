import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Api } from '../page/api.ts';
import { type CheckState, NOT_CHECKED, type Result } from '../page/check/checkState.ts';
import { overall } from '../page/check/overall.ts';
import { Entities } from '../page/entities.ts';
import { Silence } from '../page/silence.ts';
import { type Change, statesAt } from '../page/states.ts';
import { indentedJson, visible } from '../page/text.ts';
import { ticks } from '../page/ticks.ts';
import { EventCounts } from '../page/timeline/eventCounts.ts';
import { Zone } from '../page/zone.ts';
import { Bars, lengthName } from '../src/histogram/bars.ts';

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

const entities = new Entities({
  ...{ title: 'Books', command: 'bin/books', noun: 'book', create: { path: 'books', body: '{}' } },
  pattern: '^book-(?<user>[^/]+)/(?<id>\\d+)$',
  events: {
    Created: { effect: 'create', fields: ['name', 'tag'] },
    Renamed: { effect: 'change', fields: ['name'] },
    Removed: { effect: 'remove' },
  },
});
const change = (time: number, id: string, type: string, data = {}): Change => {
  return { time, id, type, data, revision: type === 'Created' ? 0n : 1n };
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
  expect(statesAt(changes, time, entities)).toEqual(states);
});

test('bars count every time once, in at most 60 ranges of equal length, however they are added', () => {
  const times = fc.array(fc.date({ noInvalidDate: true, ...YEARS }).map(Number), {
    minLength: 1,
    maxLength: 90,
  });
  const property = fc.property(times, fc.nat(), (times, part) => {
    const [bars, earlier, whole] = [new Bars(), new Bars(), new Bars()];
    for (const [i, time] of times.entries()) (i < part % times.length ? earlier : bars).add(time);
    for (const time of times.toSorted((a, b) => b - a)) whole.add(time);
    bars.merge(earlier.counts());
    const counts = whole.counts();
    expect(bars.counts()).toEqual(counts);
    expect([counts.first, counts.last]).toEqual([Math.min(...times), Math.max(...times)]);
    const starts = counts.bars.map(([from]) => from);
    expect((starts.at(-1) ?? 0) - (starts[0] ?? 0)).toBeLessThan(60 * counts.barLength);
    for (const [from, count] of counts.bars)
      expect(count).toBe(times.filter((time) => time >= from && time < from + counts.barLength).length);
    expect(counts.bars.reduce((sum, [, count]) => sum + count, 0)).toBe(times.length);
  });
  fc.assert(property);
  expect(new Bars().counts().bars).toEqual([]);
});

const YEARS = { min: new Date('0001-01-02T00:00Z'), max: new Date('9999-12-30T00:00Z') };

test('the days of bars begin at midnight, and weeks on Monday', () => {
  for (const [days, name] of [
    [40, 'day'],
    [200, 'week'],
  ] as const) {
    const bars = new Bars();
    for (const day of [0, days]) bars.add(Date.parse('2026-05-21T13:00Z') + day * 86_400_000);
    const { barLength, bars: [[from] = [0]] = [] } = bars.counts();
    expect([lengthName(barLength), new Date(from).toUTCString()]).toEqual([
      name,
      `${name === 'day' ? 'Thu, 21' : 'Mon, 18'} May 2026 00:00:00 GMT`,
    ]);
  }
});

test.each([
  ['2026-03-01T12:00', '2026-03-01T12:04', ['12:00', '12:01', '12:02', '12:03', '12:04']],
  ['2026-03-01T20:30', '2026-03-02T05:00', ['21:00', '2026-03-02', '03:00']],
  ['2026-11-20T03:19', '2026-11-28T23:20', ['2026-11-21', '2026-11-23', '2026-11-25', '2026-11-27']],
  [
    '2026-05-21T13:00',
    '2026-11-27T16:00',
    ['2026-06', '2026-07', '2026-08', '2026-09', '2026-10', '2026-11'],
  ],
  ['2011-05-21T13:00', '2026-11-27T16:00', ['2012', '2014', '2016', '2018', '2020', '2022', '2024', '2026']],
])('an axis from %s to %s has round ticks', (from, to, labels) => {
  const [start, end] = [from, to].map((time) => Date.parse(`${time}Z`)) as [number, number];
  const shown = ticks(start, end, new Zone());
  expect(shown.map(({ label }) => label)).toEqual(labels);
  for (const { time } of shown) expect(time >= start && time <= end).toBe(true);
});

test('ticks of weeks are Mondays, as the bars of weeks begin', () => {
  const shown = ticks(Date.parse('2026-09-01T00:00Z'), Date.parse('2026-10-15T00:00Z'), new Zone());
  expect(shown.length).toBeGreaterThan(5);
  for (const { time } of shown) expect(new Date(time).toUTCString()).toMatch(/^Mon, .* 00:00:00 GMT$/);
});

test('the axis of a filter has the asked range, by default until now', async () => {
  vi.useFakeTimers({ now: Date.parse('2026-03-09T00:00Z') });
  onTestFinished(() => void vi.useRealTimers());
  const time = Date.parse('2026-03-03T00:00Z');
  const bars = { barLength: 1, bars: [[time, 2]], first: time, last: time };
  const api = { get: async () => Response.json({ ...bars, events: 2, end: '2' }) } as unknown as Api;
  const axis = async (query: string, isFiltered = true): Promise<string[]> => {
    const counts = new EventCounts(new URLSearchParams(query), isFiltered);
    await counts.read(api, new AbortController().signal);
    const { first = 0, last = 0 } = counts.shown?.bars ?? {};
    return [first, last].map((end) => new Date(end).toISOString().slice(0, 10));
  };
  expect(await axis('since=2026-03-01T00:00:00Z&until=2026-03-05T00:00:00Z')).toEqual([
    '2026-03-01',
    '2026-03-05',
  ]);
  expect(await axis('user=bob')).toEqual(['2026-03-03', '2026-03-09']);
  expect(await axis('', false)).toEqual(['2026-03-03', '2026-03-03']);
});

const GOOD: Result = { verdict: 'good', text: 'yes' };
const BAD: Result = { verdict: 'bad', text: 'An event differs.', topic: 'tiles' };
const UNKNOWN: Result = { verdict: 'unknown', text: 'This could not be asked.' };
const compared = { size: 3, root: '', erased: 1, records: 1 };

test.each<[string, CheckState['results'], string]>([
  ['nothing', {}, 'Nothing is checked yet.'],
  ['an unanswered key', { key: UNKNOWN }, 'unknown: Not checked: This could not be asked.'],
  [
    'an unanswered key beside a good log',
    { key: UNKNOWN, checkpoint: GOOD, whole: GOOD },
    'good: The log is what it signs: all 3 events have the signed root. Of these, 1 event is erased, on record (1 record).',
  ],
  [
    'an unknown file beside a good log',
    { checkpoint: GOOD, whole: GOOD, evidence: UNKNOWN },
    'good: The log is what it signs: all 3 events have the signed root. Of these, 1 event is erased, on record (1 record).',
  ],
  ['a stopped check', { checkpoint: GOOD, whole: UNKNOWN }, 'unknown: Not checked: This could not be asked.'],
  ['a contradiction', { key: UNKNOWN, whole: BAD }, 'bad: The check failed: An event differs.'],
])('cards with %s together say what is known', (_, results, expected) => {
  const { verdict, text } = overall({ ...NOT_CHECKED, results, compared });
  expect(verdict ? `${verdict}: ${text}` : text).toBe(expected);
});

test('a connection counts as silent when nothing arrives for more than two heartbeats', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const silence = new Silence();
  for (let heartbeat = 0; heartbeat < 9; heartbeat++) {
    vi.advanceTimersByTime(30_000);
    silence.restart();
  }
  expect(silence.signal.aborted).toBe(false);
  vi.advanceTimersByTime(35_000);
  expect(silence.signal.reason).toEqual(new Error('the service has sent nothing for 35 seconds'));
});

const at = (text: string): number => Date.parse(`2026-03-01T${text}Z`);

test.each([
  ['06:00:00.000', '07:59:59.999', '2026-03-01 06:00', '07:59'],
  ['06:00:01.000', '06:00:30.999', '2026-03-01 06:00:01', '06:00:30'],
  ['06:00:01.001', '06:00:01.030', '2026-03-01 06:00:01.001', '06:00:01.030'],
])('the ends of an axis from %s to %s differ', (from, to, ...ends) => {
  expect(new Zone().formatEnds(at(from), at(to))).toEqual(ends);
});

test('both ends of an axis have their dates if these differ', () => {
  const ends = new Zone().formatEnds(at('06:00'), Date.parse('2026-03-02T05:00Z'));
  expect(ends).toEqual(['2026-03-01 06:00', '2026-03-02 05:00']);
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
  ['2026-03-01T00:00:00.000Z', '00:00', '2026-03-01'],
  ['2026-03-01T23:59:59.999Z', '23:59:59.999', '2026-03-01'],
  ['2026-03-01T12:00:00.000Z', '00:00', '2026-03-01 12:00'],
  ['2026-03-01T12:00:01.000Z', '00:00', '2026-03-01 12:00:01'],
  ['2026-03-01T12:00:00.001Z', '00:00', '2026-03-01 12:00:00.001'],
])('the field of %s, by default at %s, has %s', (text, timeOfDay, shown) => {
  expect(new Zone().show(text, timeOfDay)).toBe(shown);
  expect(new Zone().parse(shown, timeOfDay)).toBe(text);
});

test.each([
  ['America/New_York', '2026-11-01T05:30:00.000Z', '2026-11-01 01:30:00.000-04:00'],
  ['America/New_York', '2026-11-01T06:30:00.000Z', '2026-11-01 01:30:00.000-05:00'],
  ['America/New_York', '2026-11-01T07:00:00.000Z', '2026-11-01 02:00'],
  ['Australia/Lord_Howe', '2026-04-04T15:00:00.000Z', '2026-04-05 01:30:00.000+10:30'],
  ['Asia/Kathmandu', '2026-11-01T06:30:00.000Z', '2026-11-01 12:15'],
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
  expect(ends).toEqual(['2026-11-01 01:10-04:00', '01:05-05:00']);
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
  return new Zone(true);
}

import { A_MONDAY, BAR_LENGTHS_MS, DAY_MS, MINUTE_MS, SECOND_MS, WEEK_MS } from '../src/histogram/bars.ts';
import { utc } from './text.ts';
import { FULL, type Zone } from './zone.ts';

const LENGTHS_MS = [...BAR_LENGTHS_MS.filter((length) => length < WEEK_MS), 2 * DAY_MS, WEEK_MS];
const MONTHS = [1, 3, 6, 12, 24, 60, 120, 240, 1_200, 12_000];
const MAX_TICKS = 8;

type Tick = { time: number; label: string };

/** At most eight round times within a range, by the clocks of a zone. */
export function ticks(from: number, to: number, zone: Zone): Tick[] {
  const [start, end] = [from, to].map((time) => Date.parse(`${zone.format(time).slice(0, FULL)}Z`)) as [
    number,
    number,
  ];
  const toTick = (length: number) => (shown: number) => {
    const time = Date.parse(zone.parse(utc(shown), '') ?? '');
    return { time, label: label(utc(shown), length) };
  };
  const length = LENGTHS_MS.find((one) => (end - start) / one < MAX_TICKS);
  if (length !== undefined) {
    const origin = length === WEEK_MS ? A_MONDAY : 0;
    return multiples(start - origin, end - origin, length).map((time) => toTick(length)(time + origin));
  }
  const [first, last] = [start, end].map(monthOf) as [number, number];
  const months = MONTHS.find((one) => (last - first) / one < MAX_TICKS) ?? 1;
  return multiples(first + 1, last, months)
    .map((month) => new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1))
    .map(toTick(months * 28 * DAY_MS));
}

function multiples(from: number, to: number, length: number): number[] {
  const first = Math.ceil(from / length);
  return Array.from(
    { length: Math.max(Math.floor(to / length) - first + 1, 0) },
    (_, i) => (first + i) * length,
  );
}

function monthOf(time: number): number {
  const date = new Date(time);
  return 12 * date.getUTCFullYear() + date.getUTCMonth();
}

/** The part of a time that distinguishes ticks: a date at midnight, or else the time of day. */
function label(shown: string, length: number): string {
  const [date = '', time = ''] = shown.split(' ');
  if (length >= 28 * DAY_MS) return length >= 336 * DAY_MS ? date.slice(0, 4) : date.slice(0, 7);
  if (length >= DAY_MS || time === '00:00:00.000') return date;
  return length >= MINUTE_MS ? time.slice(0, 5) : length >= SECOND_MS ? time.slice(0, 8) : time;
}

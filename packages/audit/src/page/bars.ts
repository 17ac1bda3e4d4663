const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const BAR_LENGTHS_MS = [
  1,
  10,
  100,
  ...[1, 5, 15, 30].map((seconds) => seconds * SECOND_MS),
  ...[1, 5, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12].map((hours) => hours * HOUR_MS),
  ...[1, 7, 30, 90, 365, 3_650, 36_500, 365_000].map((days) => days * DAY_MS),
];
const MAX_BARS = 60;
const MIN_BARS = 30;

type TimeRange = { from: number; to: number };

/** Counts times in consecutive ranges of equal length; returns no bars without times. */
export function toBars(times: readonly number[]): (TimeRange & { count: number })[] {
  const first = times.reduce((earliest, time) => Math.min(earliest, time), Number.POSITIVE_INFINITY);
  const last = times.reduce((latest, time) => Math.max(latest, time), Number.NEGATIVE_INFINITY);
  if (first > last) return [];
  const barsFor = (step: number): number => Math.floor(last / step) - Math.floor(first / step) + 1;
  const step =
    BAR_LENGTHS_MS.find((length) => barsFor(length) <= MAX_BARS) ?? (BAR_LENGTHS_MS.at(-1) as number);
  const bars = Math.max(barsFor(step), MIN_BARS);
  const start = (Math.floor(last / step) - bars + 1) * step;
  const counts = new Array<number>(bars).fill(0);
  for (const time of times) {
    const bar = Math.floor((time - start) / step);
    counts[bar] = (counts[bar] ?? 0) + 1;
  }
  return counts.map((count, i) => ({ from: start + i * step, to: start + (i + 1) * step - 1, count }));
}

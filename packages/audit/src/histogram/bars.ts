export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const WEEK_MS = 7 * DAY_MS;
/** Each length is a multiple of the one before, so that bars can be merged into longer ones. */
export const BAR_LENGTHS_MS = [
  1,
  10,
  100,
  ...[1, 5, 15, 30].map((seconds) => seconds * SECOND_MS),
  ...[1, 5, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...[1, 3, 6, 12].map((hours) => hours * HOUR_MS),
  DAY_MS,
  ...[1, 4, 52, 520, 5_200, 52_000].map((weeks) => weeks * WEEK_MS),
];
const MAX_BARS = 60;
/** Weeks begin on Mondays. */
export const A_MONDAY = Date.UTC(1970, 0, 5);
const UNITS = {
  week: WEEK_MS,
  day: DAY_MS,
  hour: HOUR_MS,
  minute: MINUTE_MS,
  second: SECOND_MS,
  millisecond: 1,
};

/** Counts of times in ranges of equal length, by the start of their range; times are milliseconds since 1970. */
export type BarCounts = {
  barLength: number;
  bars: [from: number, count: number][];
  /** The first and the last time; absent without times. */
  first?: number | undefined;
  last?: number | undefined;
};

/** Counts times in at most 60 ranges of equal length, which double and more as times are added. */
export class Bars {
  #lengths = BAR_LENGTHS_MS;
  #counts = new Map<number, number>();
  #first = Number.POSITIVE_INFINITY;
  #last = Number.NEGATIVE_INFINITY;

  get #length(): number {
    return this.#lengths[0] as number;
  }

  add(time: number, count = 1): void {
    this.#first = Math.min(this.#first, time);
    this.#last = Math.max(this.#last, time);
    while (this.#start(this.#last) - this.#start(this.#first) >= MAX_BARS * this.#length) this.#lengthen();
    const start = this.#start(time);
    this.#counts.set(start, (this.#counts.get(start) ?? 0) + count);
  }

  merge({ barLength, bars, first, last }: BarCounts): void {
    while (this.#length < barLength) this.#lengthen();
    for (const time of [first, last]) if (time !== undefined) this.add(time, 0);
    for (const [from, count] of bars) this.add(Math.max(from, first ?? from), count);
  }

  counts(): BarCounts {
    const bars = [...this.#counts].filter(([, count]) => count > 0).sort(([a], [b]) => a - b);
    const ends = bars.length > 0 && { first: this.#first, last: this.#last };
    return { barLength: this.#length, bars, ...ends };
  }

  #start(time: number): number {
    return Math.floor((time - A_MONDAY) / this.#length) * this.#length + A_MONDAY;
  }

  #lengthen(): void {
    this.#lengths = this.#lengths.slice(1);
    const counts = this.#counts;
    this.#counts = new Map();
    for (const [from, count] of counts) {
      const start = this.#start(from);
      this.#counts.set(start, (this.#counts.get(start) ?? 0) + count);
    }
  }
}

/** A length as words, such as day, or 15 minutes. */
export function lengthName(ms: number): string {
  const [unit, length] = Object.entries(UNITS).find(([, length]) => ms % length === 0) ?? ['', 1];
  return ms === length ? unit : `${ms / length} ${unit}s`;
}

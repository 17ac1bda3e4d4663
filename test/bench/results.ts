import type { Rate } from './load.ts';

/** A figure with its value in each round. */
export type Figure = { name: string; goal: string; values: number[] };

/** What of a rate is compared. */
export type Measure = (rate: Rate) => number;
export const perSecond: Measure = (rate) => rate.perSecond;
export const cpu: Measure = (rate) => rate.cpu;
export const p50: Measure = (rate) => rate.p50;
export const p99: Measure = (rate) => rate.p99;
export const longestStall: Measure = (rate) => rate.loopDelay.max;

/** What was measured. */
export class Results {
  /** The rates of each load, one a round. */
  readonly rates: Record<string, Rate[]> = {};
  readonly figures: Figure[] = [];

  addRate(load: string, rate: Rate): void {
    this.rates[load] ??= [];
    this.rates[load].push(rate);
  }

  addFigure(name: string, goal: string, values: number[]): void {
    if (values.length > 0) this.figures.push({ name, goal, values });
  }

  /** Adds the ratios of two loads in the same rounds, if both were measured. */
  addRatio(name: string, goal: string, load: string, to: string, measure = perSecond): void {
    this.addFigure(name, goal, this.ratios(load, to, measure));
  }

  /** A value of a load in each round; none if it was not measured. */
  values(load: string, measure: Measure): number[] {
    return (this.rates[load] ?? []).map(measure);
  }

  /** The ratios of two loads in the same rounds; none if one of them was not measured. */
  ratios(load: string, to: string, measure: Measure): number[] {
    const divisors = this.values(to, measure);
    return this.values(load, measure).flatMap((value, round) => {
      const divisor = divisors[round];
      return divisor === undefined ? [] : [value / divisor];
    });
  }
}

export function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

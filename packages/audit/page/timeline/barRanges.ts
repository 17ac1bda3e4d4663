import type { BarCounts } from '../../src/histogram/bars.ts';
import type { Counts } from './timelineState.ts';

/** Ends of a scale that are easily halved or read. */
const ROUND = [1, 2, 4, 6, 8, 10];

/** A bar, also one without events. `from` and `to`: the part of it that is within the axis. */
export type BarRange = { start: number; from: number; to: number; events: number };

/** All bars between the ends of the axis. */
export function barRanges({ barLength, bars, first, last }: BarCounts): BarRange[] {
  const [any] = bars[0] ?? [];
  if (any === undefined || first === undefined || last === undefined) return [];
  const start = any - Math.ceil((any - first) / barLength) * barLength;
  const counts = new Map(bars);
  return Array.from({ length: Math.floor((last - start) / barLength) + 1 }, (_, i) => {
    const at = start + i * barLength;
    return {
      start: at,
      from: Math.max(at, first),
      to: Math.min(at + barLength - 1, last),
      events: counts.get(at) ?? 0,
    };
  });
}

/** The number of counted events that are in no bar. */
export const withoutTime = ({ bars, matching }: Counts): number =>
  matching - bars.bars.reduce((sum, [, events]) => sum + events, 0);

export function roundUp(events: number): number {
  const power = 10 ** Math.floor(Math.log10(events));
  return power * (ROUND.find((one) => one * power >= events) as number);
}

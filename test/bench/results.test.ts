import { describe, expect, test } from 'vitest';
import type { Rate } from './load.ts';
import { cpu, median, perSecond, Results } from './results.ts';

const rate = (perSecond: number, cpu = 1): Rate => ({
  perSecond,
  cpu,
  p50: 1,
  p99: 1,
  loopDelay: { p99: 0, max: 0 },
});

describe('a ratio', () => {
  test('is of two loads in the same round', () => {
    const results = new Results();
    for (const [service, bare] of [
      [50, 100],
      [10, 10],
    ] as const) {
      results.addRate('service', rate(service, 30));
      results.addRate('bare', rate(bare, 20));
    }
    results.addRatio('speed', '≥ 0.8', 'service', 'bare');
    results.addRatio('CPU', '≤ 1.5', 'service', 'bare', cpu);
    expect(results.figures).toEqual([
      { name: 'speed', goal: '≥ 0.8', values: [0.5, 1] },
      { name: 'CPU', goal: '≤ 1.5', values: [1.5, 1.5] },
    ]);
  });

  test('of a load that was not measured is left out', () => {
    const results = new Results();
    results.addRate('service', rate(50));
    results.addRatio('speed', '', 'service', 'bare');
    results.addRatio('speed', '', 'bare', 'service');
    results.addFigure('stall', '', results.values('bare', perSecond));
    expect(results.figures).toEqual([]);
  });
});

test('the median of values is the middle one', () => {
  expect(median([3, 1, 2])).toBe(2);
});

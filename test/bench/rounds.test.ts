import { expect, test, vi } from 'vitest';
import type { Rate } from './load.ts';
import { perSecond, Results } from './results.ts';
import { runRounds } from './rounds.ts';

test('after a round to warm up, loads are measured in turns from the first and from the last', async () => {
  vi.spyOn(console, 'log').mockImplementation(() => {});
  const measured: string[] = [];
  const job = (name: string) => ({
    name,
    measure: async (): Promise<Rate> => {
      measured.push(name);
      return { perSecond: measured.length, cpu: 0, p50: 0, p99: 0, loopDelay: { p99: 0, max: 0 } };
    },
  });
  const results = new Results();
  await runRounds([job('bare'), job('service')], 2, results);
  expect(measured.join(' ')).toBe('service bare bare service service bare');
  expect(results.values('bare', perSecond)).toEqual([3, 6]);
  expect(results.values('service', perSecond)).toEqual([4, 5]);
  vi.restoreAllMocks();
});

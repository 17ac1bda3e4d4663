import { expect, test, vi } from 'vitest';
import { reportProgress } from '../src/progress.ts';

test('catching up is told every two seconds, and not once it is over', () => {
  vi.useFakeTimers();
  const told: unknown[] = [];
  const info = (...args: unknown[]): void => void told.push(args);
  const report = reportProgress({ info }, false);
  const at = (position: bigint): void => report({ from: 0n, position, end: 50_000n });
  at(500n);
  vi.advanceTimersByTime(2_000);
  at(20_000n);
  at(20_500n);
  vi.advanceTimersByTime(2_000);
  at(40_000n);
  vi.advanceTimersByTime(2_000);
  at(50_000n);
  vi.useRealTimers();
  expect(told).toEqual([
    [{ position: '20000', end: '50000' }, 'the view is catching up'],
    [{ position: '40000', end: '50000' }, 'the view is catching up'],
  ]);
});

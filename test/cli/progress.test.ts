import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { commandProgress } from '../../src/cli/progress.ts';

describe('a command', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
  });

  function start() {
    const printed: string[] = [];
    const progress = commandProgress((line) => void printed.push(line));
    const at = (step: string, events: number, position: bigint, end: bigint): void =>
      progress.show({ step, events, position, end });
    return { printed, at };
  }

  test('prints its progress, rate and remaining time every two seconds', () => {
    const { printed, at } = start();
    at('copying', 0, 0n, 50_000n);
    vi.advanceTimersByTime(1_999);
    at('copying', 10_000, 10_000n, 50_000n);
    vi.advanceTimersByTime(1);
    at('copying', 20_000, 20_000n, 50_000n);
    at('copying', 20_001, 20_001n, 50_000n);
    vi.advanceTimersByTime(2_000);
    at('copying', 40_000, 40_000n, 50_000n);
    expect(printed).toEqual([
      'copying: 20000 events, 40 %, 10000/s, 3 s left',
      'copying: 40000 events, 80 %, 10000/s, 1 s left',
    ]);
  });

  test('counts events, and computes its progress from positions, of this step only', () => {
    const { printed, at } = start();
    at('copying', 0, 0n, 1_000n);
    vi.advanceTimersByTime(1_500);
    at('verifying', 500_000, 1_000_000n, 4_000_000n);
    vi.advanceTimersByTime(1_000);
    at('verifying', 500_100, 2_000_000n, 4_000_000n);
    expect(printed).toEqual(['verifying: 500100 events, 50 %, 100/s, 2 s left']);
  });

  test('prints only finite numbers, however the log grows', () => {
    const more = fc.record({
      events: fc.nat(1_000_000),
      position: fc.bigInt(0n, 2n ** 40n),
      end: fc.bigInt(0n, 2n ** 40n),
    });
    fc.assert(
      fc.property(fc.array(more), (steps) => {
        const { printed, at } = start();
        let [events, position] = [0, 0n];
        for (const step of [{ events: 0, position: 0n, end: 0n }, ...steps]) {
          vi.advanceTimersByTime(2_000);
          [events, position] = [events + step.events, position + step.position];
          at('verifying', events, position, position + step.end);
        }
        expect(printed).toHaveLength(steps.length + 1);
        for (const line of printed)
          expect(line).toMatch(/^verifying: \d+ events, \d+ %, \d+\/s, \d+ s left$/);
      }),
    );
  });
});

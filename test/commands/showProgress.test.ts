import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { showProgress } from '../../src/commands/showProgress.ts';

describe('where there is no terminal, a command', () => {
  beforeEach(() => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
  });

  function begin() {
    const told: string[] = [];
    const { show } = showProgress((line) => told.push(line), false);
    const at = (step: string, events: number, position: bigint, end: bigint): void =>
      show({ step, events, position, end });
    return { told, at };
  }

  test('tells every two seconds how far it is, how fast, and how long it will take', () => {
    const { told, at } = begin();
    at('copying', 0, 0n, 50_000n);
    vi.advanceTimersByTime(1_999);
    at('copying', 10_000, 10_000n, 50_000n);
    vi.advanceTimersByTime(1);
    at('copying', 20_000, 20_000n, 50_000n);
    at('copying', 20_001, 20_001n, 50_000n);
    vi.advanceTimersByTime(2_000);
    at('copying', 40_000, 40_000n, 50_000n);
    expect(told).toEqual([
      'copying: 20000 events, 40 %, 10000/s, 3 s left',
      'copying: 40000 events, 80 %, 10000/s, 1 s left',
    ]);
  });

  test('counts events, and sees by positions how far it is', () => {
    const { told, at } = begin();
    at('verifying', 0, 0n, 4_000_000n);
    vi.advanceTimersByTime(2_000);
    at('verifying', 100, 1_000_000n, 4_000_000n);
    expect(told).toEqual(['verifying: 100 events, 25 %, 50/s, 6 s left']);
  });

  test('times each step by itself', () => {
    const { told, at } = begin();
    at('copying', 0, 0n, 1_000n);
    vi.advanceTimersByTime(1_500);
    at('copying', 1_000, 1_000n, 1_000n);
    at('comparing', 0, 0n, 1_000n);
    vi.advanceTimersByTime(1_000);
    at('comparing', 500, 500n, 1_000n);
    expect(told).toEqual(['comparing: 500 events, 50 %, 500/s, 1 s left']);
  });

  test('times only what it does itself, where a step goes on with what was done before', () => {
    const { told, at } = begin();
    at('copying', 500_000, 500_000n, 1_000_000n);
    vi.advanceTimersByTime(2_000);
    at('copying', 502_600, 502_600n, 1_000_000n);
    expect(told).toEqual(['copying: 502600 events, 50 %, 1300/s, 383 s left']);
  });

  test('tells nothing that is no number, however the log grows', () => {
    const more = fc.record({
      events: fc.nat(1_000_000),
      position: fc.bigInt(0n, 2n ** 40n),
      end: fc.bigInt(0n, 2n ** 40n),
    });
    fc.assert(
      fc.property(fc.array(more), (steps) => {
        const { told, at } = begin();
        let [events, position] = [0, 0n];
        for (const step of [{ events: 0, position: 0n, end: 0n }, ...steps]) {
          vi.advanceTimersByTime(2_000);
          [events, position] = [events + step.events, position + step.position];
          at('verifying', events, position, position + step.end);
        }
        expect(told).toHaveLength(steps.length + 1);
        for (const line of told) expect(line).toMatch(/^verifying: \d+ events, \d+ %, \d+\/s, \d+ s left$/);
      }),
    );
  });
});

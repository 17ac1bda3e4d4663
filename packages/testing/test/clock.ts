import { setImmediate as nextTurn } from 'node:timers/promises';
import { onTestFinished, vi } from 'vitest';

/** Stops timers and the time of this process until the end of the test; only the test advances the clock. */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
  const poll = vi.spyOn(vi, 'isFakeTimers').mockReturnValue(false); // otherwise, expect.poll advances the clock
  onTestFinished(() => {
    poll.mockRestore();
    vi.useRealTimers();
  });
}

/**
 * Advances a stopped clock until a promise is settled; returns its result, and the milliseconds passed on
 * that clock.
 */
export async function untilSettled<T>(promise: Promise<T>): Promise<[T, number]> {
  const startedAt = performance.now();
  let isSettled = false;
  const done = promise.finally(() => {
    isSettled = true;
  });
  done.catch(() => {}); // thrown below
  while (!isSettled) {
    await nextTurn();
    vi.advanceTimersByTime(10);
  }
  return [await done, performance.now() - startedAt];
}

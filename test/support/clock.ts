import { setImmediate as nextTurn } from 'node:timers/promises';
import { onTestFinished, vi } from 'vitest';

/** From now until the end of the test, timers of this process go off, and its time of day goes on, only when the test moves the clock. */
export function stopClock(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'],
  });
  onTestFinished(() => void vi.useRealTimers());
}

/** Moves a stopped clock on until a promise is settled; gives its result, and the milliseconds that have passed on that clock. */
export async function untilSettled<T>(promise: Promise<T>): Promise<[T, number]> {
  const began = performance.now();
  let settled = false;
  const done = promise.finally(() => {
    settled = true;
  });
  done.catch(() => {}); // thrown below
  while (!settled) {
    await nextTurn();
    vi.advanceTimersByTime(10);
  }
  return [await done, performance.now() - began];
}

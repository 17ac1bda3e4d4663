import { onTestFinished, vi } from 'vitest';

/** The clock moves so far, in milliseconds, in each interval of real time. */
const STEP_MS = 4;
const INTERVAL_MS = 20;

/**
 * Until the end of the test, the timers of this process follow a clock that is five times as slow as the real one: what
 * takes time anyway, such as the start of a thread, stays within the time-outs of the product. `pass` moves it ahead.
 */
export function slowClock(): { pass: (ms: number) => void } {
  const stop = clearInterval.bind(
    undefined,
    setInterval(() => vi.advanceTimersByTime(STEP_MS), INTERVAL_MS),
  );
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => {
    stop();
    vi.useRealTimers();
  });
  return { pass: (ms) => void vi.advanceTimersByTime(ms) };
}

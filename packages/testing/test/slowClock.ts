import { onTestFinished, vi } from 'vitest';

/** The clock advances by STEP_MS in each INTERVAL_MS of real time. */
const STEP_MS = 4;
const INTERVAL_MS = 20;

/**
 * Until the end of the test, the timers of this process follow a clock that is five times slower than the
 * real one: slow operations, such as the start of a thread, stay within the timeouts of the service. `pass`
 * advances it.
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

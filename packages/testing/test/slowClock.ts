import { onTestFinished, vi } from 'vitest';

/** The clock advances by STEP_MS in each INTERVAL_MS of real time. */
const STEP_MS = 4;
const INTERVAL_MS = 20;

/**
 * Until the end of the test, the timers of this process follow a clock that is five times slower than the
 * real one: slow operations, such as the start of a thread, stay within the timeouts of the service. `pass`
 * advances it, and it stops while `stopped` runs a function.
 */
export function slowClock() {
  let isStopped = false;
  const stop = clearInterval.bind(
    undefined,
    setInterval(() => isStopped || vi.advanceTimersByTime(STEP_MS), INTERVAL_MS),
  );
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => {
    stop();
    vi.useRealTimers();
  });
  return {
    pass: (ms: number): void => void vi.advanceTimersByTime(ms),
    stopped: async <T>(run: () => Promise<T>): Promise<T> => {
      const poll = vi.spyOn(vi, 'isFakeTimers').mockReturnValue(false); // otherwise, expect.poll advances the clock
      isStopped = true;
      return run().finally(() => {
        isStopped = false;
        poll.mockRestore();
      });
    },
  };
}

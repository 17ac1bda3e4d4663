import { LogUnavailable } from './logClient.ts';

/** The longest time that a timer can have. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const MESSAGE =
  'the check took longer than --timeout allows: the log is slow, or has many events; set a longer one';

/** Does work whose signal aborts with `signal`, or after a time. @throws LogUnavailable then, and what the work throws */
export async function withDeadline<T>(
  ms: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(new LogUnavailable(MESSAGE)), Math.min(ms, MAX_TIMER_MS));
  try {
    return await work(AbortSignal.any([signal, deadline.signal]));
  } finally {
    clearTimeout(timer);
  }
}

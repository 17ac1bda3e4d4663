import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

// Loaded into every contender with `--import`: measures the delay of its main thread's event loop between the
// messages 'start' and 'stop', and replies with it.

/** In milliseconds. `max` is the longest stall: the loop, or the process, did not run for so long. */
export type LoopDelay = { p99: number; max: number };

/** A timer of this interval samples the delay; a stall may be seen as shorter by so much. */
const INTERVAL_MS = 1;

/** The histogram has nanoseconds from one timer to the next. */
const delayMs = (ns: number): number => Math.max(0, ns / 1e6 - INTERVAL_MS);

if (isMainThread) {
  const histogram = monitorEventLoopDelay({ resolution: INTERVAL_MS });
  process.on('message', (message) => {
    if (message === 'start') {
      histogram.reset();
      histogram.enable();
    } else {
      histogram.disable();
      const delay: LoopDelay = { p99: delayMs(histogram.percentile(99)), max: delayMs(histogram.max) };
      process.send?.(delay);
    }
  });
  process.on('disconnect', () => process.exit()); // the bench has ended
  process.channel?.unref();
}

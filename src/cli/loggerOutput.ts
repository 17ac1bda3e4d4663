import { once } from 'node:events';
import { unlessAborted } from '@event-sourced/event-log/time';
import sonicBoom from 'sonic-boom';

/** While standard output cannot be written; further lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** Of a write that failed, as on a full disk. */
const RETRY_INTERVAL_MS = 100;
/** For the lines that wait when the process ends. */
const FLUSH_TIMEOUT_MS = 2_000;
/** For a write that does not return, as to a terminal that is stopped. */
const STUCK_TIMEOUT_MS = 2 * FLUSH_TIMEOUT_MS;

export type LoggerOutput = {
  /** Writes lines, or drops them: it never waits, and never throws. */
  write(lines: string): void;
  /**
   * Writes what waits, as far as that is possible in time. Resolves with false if a thread still waits for a
   * write: `process.exit` would wait for that thread.
   */
  end(): Promise<boolean>;
};

/**
 * Log lines on a file descriptor, which must not block if it is a pipe. `onDropped` is called with the number
 * of lines that were dropped, once lines can be written again.
 */
export function loggerOutput(fd: number, onDropped: (lines: number) => void): LoggerOutput {
  let dropped = 0;
  let isRetrying = false;
  let ended: Promise<boolean> | undefined;
  let giveUpAt = Number.POSITIVE_INFINITY;
  const output = new sonicBoom.SonicBoom({
    fd,
    sync: false,
    maxLength: MAX_WAITING_BYTES,
    retryEAGAIN: () => performance.now() < giveUpAt, // a pipe that is full
  });
  output.on('drop', () => void dropped++);
  output.on('drain', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    onDropped(lines);
  });
  // What could not be written is kept, and written before what is written next.
  output.on('error', () => {
    if (isRetrying) return;
    isRetrying = true;
    setTimeout(() => {
      isRetrying = false;
      if (!ended) output.write('');
    }, RETRY_INTERVAL_MS).unref();
  });

  async function end(): Promise<boolean> {
    giveUpAt = performance.now() + FLUSH_TIMEOUT_MS;
    const closedOrFailed = once(output, 'close').then(
      () => true,
      () => true,
    );
    output.end();
    return (await unlessAborted(closedOrFailed, AbortSignal.timeout(STUCK_TIMEOUT_MS))) ?? false;
  }

  return {
    write(lines) {
      if (!ended) output.write(lines);
    },
    end() {
      ended ??= end();
      return ended;
    },
  };
}

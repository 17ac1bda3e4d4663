import { once } from 'node:events';
import { unlessAborted } from '@event-sourced/node/time';
import sonicBoom from 'sonic-boom';

/** The buffer for lines that cannot be written yet; further lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** Between attempts to repeat a failed write, for example on a full disk. */
const RETRY_INTERVAL_MS = 100;
/** For buffered lines when the process ends. */
const FLUSH_TIMEOUT_MS = 2_000;
/** For a write that blocks, for example on a stopped terminal. */
const STUCK_TIMEOUT_MS = 2 * FLUSH_TIMEOUT_MS;

export type LoggerOutput = {
  /** Writes lines, or drops them: it never waits, and never throws. */
  write(lines: string): void;
  /**
   * Writes buffered lines, until a timeout. Resolves with false if a write still blocks a thread: `process.exit` would
   * wait for that thread.
   */
  end(): Promise<boolean>;
};

/**
 * Writes log lines to a file descriptor, which must be non-blocking if it is a pipe. When lines can be written again,
 * `onDropped` gets the number of dropped lines.
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
    retryEAGAIN: () => performance.now() < giveUpAt, // a full pipe
  });
  output.on('drop', () => void dropped++);
  output.on('drain', () => {
    if (dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    onDropped(lines);
  });
  // Unwritten lines are kept, and written before the next ones.
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

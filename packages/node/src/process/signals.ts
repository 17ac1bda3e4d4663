/** Ctrl-C reaches a process twice, from the terminal and from npm: within this window both count as one signal. */
const SAME_SIGNAL_WINDOW_MS = 1_000;
const CLEANUP_TIMEOUT_MS = 5_000;

type Handlers = Record<'stop' | 'force', (signal: NodeJS.Signals) => void> & { timeoutMs: number };

/**
 * Handles SIGTERM, SIGINT and SIGHUP: the first signal stops the process; the second, or a timeout, forces an exit.
 * Signals in IGNORED_SIGNALS stay ignored: Node itself resets those that its parent ignores, as nohup does.
 */
export function handleSignals(
  process: Pick<NodeJS.EventEmitter, 'on'> & Pick<NodeJS.Process, 'env'>,
  { stop, force, timeoutMs }: Handlers,
): void {
  const ignored = process.env.IGNORED_SIGNALS?.split(' ') ?? [];
  let first: { signal: NodeJS.Signals; at: number } | undefined;
  const handle = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (first) {
      if (signal !== first.signal || now - first.at >= SAME_SIGNAL_WINDOW_MS) force(signal);
      return;
    }
    first = { signal, at: now };
    setTimeout(force, timeoutMs, signal).unref();
    stop(signal);
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, ignored.includes(signal) ? () => {} : handle);
}

/**
 * Runs a command; a signal of the process aborts it. Then the process ends like one without a signal handler, so that
 * the shell reports the signal. @throws the command's error, unless the reader of its output has closed the pipe
 */
export async function runUntilSignal(
  process: NodeJS.Process,
  command: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stopping = new AbortController();
  let stoppedBy: NodeJS.Signals | undefined;
  const endBySignal = (signal: NodeJS.Signals): void => {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  };
  handleSignals(process, {
    stop: (signal) => {
      stoppedBy = signal;
      stopping.abort(new Error(`stopped by ${signal}`));
    },
    force: endBySignal,
    timeoutMs: CLEANUP_TIMEOUT_MS,
  });
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {}); // a failed write also rejects
  try {
    await command(stopping.signal);
  } catch (error) {
    // The reader has closed the pipe, for example in `… | head`.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return;
    if (!stoppedBy) throw error;
  } finally {
    if (stoppedBy) endBySignal(stoppedBy);
  }
}

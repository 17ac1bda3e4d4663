/** Ctrl-C in a terminal reaches a process twice, from the terminal and from npm: then it is one signal. */
export const SAME_SIGNAL_WINDOW_MS = 1_000;

type Handlers = Record<'stop' | 'force', (signal: NodeJS.Signals) => void> & { timeoutMs: number };

/** Handles SIGTERM, SIGINT and SIGHUP: the first one stops the process, the next one, or the timeout, forces it. */
export function handleSignals(
  process: Pick<NodeJS.EventEmitter, 'on'>,
  { stop, force, timeoutMs }: Handlers,
): void {
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
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, handle);
}

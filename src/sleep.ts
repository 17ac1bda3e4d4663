/** Resolves after some milliseconds, or as soon as the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const wake = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener('abort', wake);
  });
}

/** Waits until a promise has come to its end, whatever that is, but no longer than some milliseconds. */
export async function settledWithin(ms: number, promise: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  await Promise.race([promise.catch(() => {}), sleep(ms, over.signal)]);
  over.abort();
}

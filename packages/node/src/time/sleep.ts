/** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, Math.max(ms, 0));
    signal?.addEventListener('abort', finish);
  });
}

/** The value of a promise; undefined if it takes longer than `ms` milliseconds. */
export async function unlessLater<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  const finished = new AbortController();
  const timeout = sleep(ms, finished.signal).then(() => undefined);
  return Promise.race([promise, timeout]).finally(() => finished.abort());
}

/** Resolves when a promise is settled, or after `ms` milliseconds. */
export async function finishedWithin(ms: number, promise: Promise<unknown>): Promise<void> {
  await unlessLater(
    ms,
    promise.catch(() => {}),
  );
}

/** Exponential back-off in whole milliseconds, with jitter, since clients must not retry at the same time. */
export function backOff(failures: number, maxMs: number): number {
  return Math.round(Math.min(50 * 2 ** failures, maxMs) * (0.5 + Math.random()));
}

/** The value of a promise; undefined if the signal aborts first, whatever happens to the promise later. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) resolve(undefined);
    const abort = (): void => resolve(undefined);
    signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

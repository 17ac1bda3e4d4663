/** The view did not reach a position in time, or has halted. The message is for clients. */
export class ViewBehind extends Error {
  override readonly name = 'ViewBehind';
}

/** The timeout of a client's read that waits for a view. */
export const REACHED_TIMEOUT_MS = 5_000;

/** The readers that wait for a view. */
export class Waiting {
  readonly #checks = new Set<() => void>();

  /**
   * Resolves when `isReached` is true in a `check`. @throws ViewBehind with this message, after an optional timeout;
   * errors of `isReached`
   */
  until(isReached: () => boolean, message: string, timeoutMs?: number): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const done = (): void => {
        this.#checks.delete(check);
        clearTimeout(timer);
      };
      const check = (): void => {
        try {
          if (!isReached()) return;
          resolve();
        } catch (error) {
          reject(error);
        }
        done();
      };
      const expire = (): void => {
        done();
        reject(new ViewBehind(message));
      };
      const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
      this.#checks.add(check);
    });
  }

  /** Call it whenever the view has moved, or can no longer move. */
  check(): void {
    for (const check of this.#checks) check();
  }
}

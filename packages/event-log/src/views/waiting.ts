/** The view has not reached a position in time, or has halted. The message is for clients. */
export class ViewBehind extends Error {
  override readonly name = 'ViewBehind';
}

/** How long a reader waits for a view by default, in milliseconds. */
export const REACHED_TIMEOUT_MS = 5_000;

/** Readers that wait until a view has reached what they need. */
export class Waiting {
  readonly #checks = new Set<() => void>();

  /** Resolves at the first `check` that finds a condition true. @throws ViewBehind with this message; what it throws */
  until(isReached: () => boolean, message: string, timeoutMs = REACHED_TIMEOUT_MS): Promise<void> {
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
      const timer = setTimeout(() => {
        done();
        reject(new ViewBehind(message));
      }, timeoutMs);
      this.#checks.add(check);
    });
  }

  /** To be called whenever the view has moved, or cannot move any more. */
  check(): void {
    for (const check of this.#checks) check();
  }
}

/** The view did not reach a position in time, or has halted. The message is for clients. */
export class ViewBehind extends Error {
  override readonly name = 'ViewBehind';
}

/** The default timeout of a reader that waits for a view. */
export const REACHED_TIMEOUT_MS = 5_000;

/** The readers that wait for a view. */
export class Waiting {
  readonly #checks = new Set<() => void>();

  /** Resolves when `isReached` is true in a `check`. @throws ViewBehind with this message; errors of `isReached` */
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

  /** Call it whenever the view has moved, or can no longer move. */
  check(): void {
    for (const check of this.#checks) check();
  }
}

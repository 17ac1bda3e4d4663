/** The service sends at least a heartbeat every 15 s. */
const MAX_SILENCE_MS = 35_000;

/** Aborts when nothing was received for two heartbeats: the connection to a stopped service may stay open. */
export class Silence {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal = this.#controller.signal;

  constructor() {
    this.restart();
  }

  restart(): void {
    this.end();
    const problem = `the service has sent nothing for ${MAX_SILENCE_MS / 1_000} seconds`;
    this.#timer = setTimeout(() => this.abort(problem), MAX_SILENCE_MS);
  }

  abort(problem: string): void {
    this.#controller.abort(new Error(problem));
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

/** The service refused a request; the message is its own. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** The error code of the API, such as 40401; undefined if it is not the service's. */
  readonly code: number | undefined;
  constructor(status: number, message: string, code?: number) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

type Options = { accept?: string; headers?: Record<string, string>; signal?: AbortSignal | undefined };

/** The HTTP API with the token of the auditor, which is nowhere but here. */
export class Api {
  readonly #token: string;
  readonly #onUnauthorized: (message: string) => void;

  constructor(token: string, onUnauthorized: (message: string) => void) {
    this.#token = token;
    this.#onUnauthorized = onUnauthorized;
  }

  /**
   * GETs a path, such as events?limit=1; after a refusal by a rate limit, again.
   * @throws ApiError; TypeError if the service is unavailable
   */
  async get(path: string, { accept = '*/*', headers = {}, signal }: Options = {}): Promise<Response> {
    const response = await fetch(path, {
      headers: { ...headers, accept, authorization: `Bearer ${this.#token}` },
      redirect: 'error',
      cache: 'no-store', // tiles never change, but whether that is true is what is checked
      ...(signal && { signal }),
    });
    if (response.ok) return response;
    if (response.status === 429) {
      await pause(1_000 * Number(response.headers.get('retry-after') ?? 1), signal);
      signal?.throwIfAborted();
      return this.get(path, { accept, headers, signal });
    }
    const { error, message = response.statusText } = await response.json().catch(() => ({}));
    if (response.status === 401) this.#onUnauthorized(message);
    throw new ApiError(response.status, message, error);
  }
}

/** What to show for an error. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return error instanceof TypeError
    ? 'The service cannot be reached.'
    : String((error as Error).message ?? error);
}

/** Waits, or until the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => {
    clearTimeout(timer);
    resolve();
  });
  return promise;
}

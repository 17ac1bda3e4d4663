import { readUnverifiedCheckpoint } from '@event-sourced/tlog';

/** The service refused a request; the message comes from the service. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** The error code of the API, such as 40401; undefined if the response is not from the service. */
  readonly code: number | undefined;
  constructor(status: number, message: string, code?: number) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

type Options = { headers?: Record<string, string>; signal?: AbortSignal };

/** The HTTP API with the auditor's token, which is stored only here. */
export class Api {
  readonly #token: string;
  readonly #onUnauthorized: (message: string) => void;

  constructor(token: string, onUnauthorized: (message: string) => void) {
    this.#token = token;
    this.#onUnauthorized = onUnauthorized;
  }

  /** GETs a path; waits for the rate limit. @throws ApiError; TypeError if the service is unavailable */
  async get(path: string, options: Options = {}): Promise<Response> {
    const response = await fetch(path, {
      ...options,
      headers: { ...options.headers, authorization: `Bearer ${this.#token}` },
      redirect: 'error',
      cache: 'no-store', // the check must detect changed tiles
    });
    if (response.ok) return response;
    if (response.status === 429) {
      await pause(1_000 * Number(response.headers.get('retry-after') ?? 1), options.signal);
      options.signal?.throwIfAborted();
      return this.get(path, options);
    }
    const { error, message = response.statusText } = await response.json().catch(() => ({}));
    if (response.status === 401) this.#onUnauthorized(message);
    throw new ApiError(response.status, message, error);
  }

  async getBytes(path: string, options?: Options): Promise<Uint8Array> {
    return (await this.get(path, options)).bytes();
  }
}

/** The size of the log in its latest checkpoint, or else in the cosigned one; undefined if there is none. */
export async function readLogSize(api: Api, signal: AbortSignal): Promise<number | undefined> {
  const read = async (path: string): Promise<number> =>
    readUnverifiedCheckpoint(await (await api.get(path, { signal })).text()).size;
  return read('checkpoint?latest')
    .catch(({ status }) => (status === 503 ? read('checkpoint') : undefined))
    .catch(() => undefined);
}

/** An error as a sentence. */
export function errorMessage(error: unknown): string {
  const isUnreachable = error instanceof TypeError;
  const text = isUnreachable ? 'the service cannot be reached' : String((error as Error).message ?? error);
  return text.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase()).replace(/(?<![.!?])$/, '.');
}

export function pause(ms: number, signal?: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal?.addEventListener('abort', resolve);
  });
}

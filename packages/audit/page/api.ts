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

/** The media types of the service's answers. */
type MediaType =
  | 'application/json'
  | 'application/octet-stream'
  | 'application/x-ndjson'
  | 'text/event-stream'
  | 'text/plain';

type Options = { headers?: Record<string, string>; signal?: AbortSignal };

type Handlers = {
  /** The token is no longer valid. */
  onUnauthorized: (message: string) => void;
  /** A request did not reach the service. */
  onUnreachable: () => void;
};

/** Whether the service has no such resource. A 404 of a proxy says nothing about the service. */
export const isNotFound = (error: unknown): boolean => error instanceof ApiError && error.code === 40401;

/** The HTTP API with the auditor's token, which is stored only here. */
export class Api {
  readonly #token: string;
  readonly #handlers: Handlers;

  constructor(token: string, handlers: Handlers) {
    this.#token = token;
    this.#handlers = handlers;
  }

  /**
   * GETs a path; waits for the rate limit. @throws ApiError; TypeError if the service is unavailable; Error if the answer
   * has another type
   */
  async get(path: string, type: MediaType, options: Options = {}): Promise<Response> {
    const response = await this.#fetch(path, type, options);
    if (response.ok) return ofType(type, path, response);
    if (response.status === 429) {
      await pause(1_000 * Number(response.headers.get('retry-after') ?? 1), options.signal);
      options.signal?.throwIfAborted();
      return this.get(path, type, options);
    }
    const { error, message = `The service answers ${response.status}` } = await response
      .json()
      .catch(() => ({}));
    if (response.status === 401) this.#handlers.onUnauthorized(message);
    throw new ApiError(response.status, message, error);
  }

  async getBytes(path: string, options?: Options): Promise<Uint8Array> {
    return (await this.get(path, 'application/octet-stream', options)).bytes();
  }

  async getText(path: string, options?: Options): Promise<string> {
    return (await this.get(path, 'text/plain', options)).text();
  }

  async #fetch(path: string, accept: MediaType, options: Options): Promise<Response> {
    try {
      return await fetch(path, {
        ...options,
        headers: { ...options.headers, accept, authorization: `Bearer ${this.#token}` },
        redirect: 'error',
        cache: 'no-store', // the check must detect changed tiles
      });
    } catch (error) {
      if (error instanceof TypeError) this.#handlers.onUnreachable();
      throw error;
    }
  }
}

/** An answer of this type. A login page, or the page of a proxy, is not the service's, whatever its status. @throws Error */
function ofType(expected: MediaType, path: string, response: Response): Response {
  const type = response.headers.get('content-type') ?? 'without a type';
  if (type.split(';')[0]?.trim().toLowerCase() === expected) return response;
  void response.body?.cancel();
  throw new Error(
    `/${path} could not be asked: the answer is ${type}, not ${expected}, so it is not the service's. Try again`,
  );
}

/** The size of the log in its latest checkpoint, or else in the cosigned one; undefined if there is none. */
export async function readLogSize(api: Api, signal: AbortSignal): Promise<number | undefined> {
  const read = async (path: string): Promise<number> =>
    readUnverifiedCheckpoint(await api.getText(path, { signal })).size;
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

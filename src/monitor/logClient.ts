import { once } from 'node:events';
import { get as getHttp, type IncomingMessage, type RequestOptions } from 'node:http';
import { get as getHttps } from 'node:https';
import { promisify } from 'node:util';
import { gunzip, type ZlibOptions } from 'node:zlib';
import { MAX_LEAF_BYTES } from '../audit/leaf.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath } from '../merkle/tiles.ts';
import { sleep } from '../time/sleep.ts';

/** The log could not be read now. It proves nothing: the next attempt may succeed. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
}

const TIMEOUT_MS = 30_000;
/** Three lines and signatures: monitors keep checkpoints. */
const MAX_CHECKPOINT_BYTES = 16 * 1024;
/** How often, and how long at a time, a rate limit is waited for. */
const MAX_WAITS = 10;
const MAX_WAIT_S = 60;
const MAX_TILE_BYTES = TILE_WIDTH * HASH_BYTES;
/** Each entry after its length in two bytes. */
const MAX_BUNDLE_BYTES = TILE_WIDTH * (2 + MAX_LEAF_BYTES);

/** Reads a transparency log over HTTP: https://c2sp.org/tlog-tiles. Each method throws LogUnavailable. */
export class LogClient {
  readonly #url: string;
  readonly #token: string;
  readonly #signal: AbortSignal;

  /** The URL is the prefix of the log's resources. When the signal aborts, it throws the signal's reason. */
  constructor({ url, token, signal }: { url: string; token: string; signal: AbortSignal }) {
    this.#url = url.replace(/\/+$/, '');
    this.#token = token;
    this.#signal = signal;
  }

  checkpoint(): Promise<Buffer> {
    return this.#get('checkpoint', 'text/plain', MAX_CHECKPOINT_BYTES);
  }

  tile({ level, index, width }: Tile): Promise<Buffer> {
    return this.#get(tilePath(level, index, width), 'application/octet-stream', MAX_TILE_BYTES);
  }

  /** A bundle of entries. */
  entries(index: number, width: number): Promise<Buffer> {
    return this.#get(tilePath('entries', index, width), 'application/octet-stream', MAX_BUNDLE_BYTES);
  }

  async #get(path: string, type: string, maxBytes: number): Promise<Buffer> {
    const url = `${this.#url}/${path}`;
    const unavailable = (reason: string): LogUnavailable => new LogUnavailable(`GET ${url}: ${reason}`);
    try {
      const { statusCode: status, headers, body } = await this.#request(url, type, maxBytes);
      if (status !== 200) throw unavailable(`${status} ${messageOf(body)}`.trim());
      // The page of a proxy is not an answer of the log.
      const contentType = headers['content-type'] ?? 'none';
      if (!contentType.startsWith(type)) throw unavailable(`its content type is ${contentType}, not ${type}`);
      return body;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof LogUnavailable) throw error;
      const { message, cause } = error as Error; // of an AbortError, the cause says why
      throw unavailable(cause instanceof Error ? cause.message : message);
    }
  }

  /** The response; a request over the rate limit is repeated after the time that its response names. */
  async #request(url: string, type: string, maxBytes: number): Promise<Response> {
    const headers = { authorization: `Bearer ${this.#token}`, accept: type, 'accept-encoding': 'gzip' };
    for (let waits = 0; ; waits++) {
      const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const response = await send(url, { headers, signal, maxBytes });
      const seconds = Number(response.headers['retry-after'] ?? Number.NaN);
      if (response.statusCode !== 429 || waits === MAX_WAITS || !(seconds <= MAX_WAIT_S)) return response;
      await sleep(seconds * 1_000, this.#signal);
    }
  }
}

type Response = Pick<IncomingMessage, 'statusCode' | 'headers'> & { body: Buffer };

/** GET: it takes half the CPU of `fetch`. A redirect is not followed, to where the token has no business. */
async function send(
  url: string,
  { maxBytes, ...options }: RequestOptions & { maxBytes: number },
): Promise<Response> {
  const request = url.startsWith('https:') ? getHttps(url, options) : getHttp(url, options);
  const failed = new Promise<never>((_, reject) => {
    request.on('error', reject);
  });
  const responded = once(request, 'response') as Promise<[IncomingMessage]>;
  const [response] = await Promise.race([responded, failed]);
  const { statusCode, headers } = response;
  return { statusCode, headers, body: await Promise.race([readAtMost(maxBytes, response), failed]) };
}

/** The body, unzipped. @throws Error if it is larger, or malformed */
async function readAtMost(maxBytes: number, response: IncomingMessage): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response) {
    length += chunk.length;
    if (length > maxBytes) throw new Error(`the response is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  const isGzip = response.headers['content-encoding'] === 'gzip';
  return isGzip ? unzip(body, { maxOutputLength: maxBytes, chunkSize: UNZIPPED_CHUNK_BYTES }) : body;
}

const unzip = promisify<Buffer, ZlibOptions, Buffer>(gunzip);
/** Most bundles are smaller, and so take one step of a thread. */
const UNZIPPED_CHUNK_BYTES = 128 * 1024;

/** The message of the service's error, if it is one. */
function messageOf(body: Buffer): string {
  try {
    return String(JSON.parse(body.toString()).message ?? '').slice(0, 200);
  } catch {
    return '';
  }
}

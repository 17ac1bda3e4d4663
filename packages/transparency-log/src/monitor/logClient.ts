import { sleep } from '@event-sourced/event-log/time';
import { MAX_LEAF_BYTES } from '../entries/leaf.ts';
import { readAtMost, reasonOf } from '../http/response.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath } from '../merkle/tiles.ts';
import { MAX_NOTE_BYTES } from '../notes/signedNote.ts';

/** The log could not be read now. It proves nothing: the next attempt may succeed. */
export class LogUnavailable extends Error {
  override readonly name = 'LogUnavailable';
  /** Whether it responds that it does not have what was asked for. */
  readonly isMissing: boolean;
  constructor(message: string, isMissing = false) {
    super(message);
    this.isMissing = isMissing;
  }
}

const TIMEOUT_MS = 30_000;
const MAX_RATE_LIMIT_WAITS = 10;
const MAX_RATE_LIMIT_WAIT_S = 60;
const MAX_TILE_BYTES = TILE_WIDTH * HASH_BYTES;
/** Each entry after its length in two bytes. */
const MAX_BUNDLE_BYTES = TILE_WIDTH * (2 + MAX_LEAF_BYTES);

/** Reads a transparency log over HTTP: https://c2sp.org/tlog-tiles. Each method throws LogUnavailable. */
export class LogClient {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #maxWaits: number;
  readonly #signal: AbortSignal;

  /**
   * The URL is the prefix of the log's resources. When the signal aborts, it throws the signal's reason. Without a token
   * it reads what a witness shows, of whatever media type, and does not wait for a rate limit.
   */
  constructor({ url, token, signal }: { url: string; token?: string; signal: AbortSignal }) {
    this.#maxWaits = token === undefined ? 0 : MAX_RATE_LIMIT_WAITS;
    this.#url = url;
    this.#token = token;
    this.#signal = signal;
  }

  checkpoint(): Promise<Buffer> {
    return this.#get('checkpoint', 'text/plain', MAX_NOTE_BYTES);
  }

  tile(tile: Tile): Promise<Buffer> {
    return this.#get(tilePath(tile), 'application/octet-stream', MAX_TILE_BYTES);
  }

  entries(index: number, width: number): Promise<Buffer> {
    const path = tilePath({ level: 'entries', index, width });
    return this.#get(path, 'application/octet-stream', MAX_BUNDLE_BYTES);
  }

  async #get(path: string, type: string, maxBytes: number): Promise<Buffer> {
    const url = `${this.#url}/${path}`;
    const unavailable = (reason: string, isMissing = false): LogUnavailable =>
      new LogUnavailable(`GET ${url}: ${reason}`, isMissing);
    try {
      const response = await this.#fetch(url, type);
      const body = await readAtMost(maxBytes, response.body);
      if (!body) throw unavailable(`the response is larger than ${maxBytes} bytes`);
      const { status } = response;
      if (status !== 200) throw unavailable(`${status} ${messageOf(body)}`.trim(), status === 404);
      // The page of a proxy is not a response of the log.
      const contentType = response.headers.get('content-type') ?? 'none';
      if (this.#token !== undefined && !contentType.startsWith(type))
        throw unavailable(`its content type is ${contentType}, not ${type}`);
      return body;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof LogUnavailable) throw error;
      throw unavailable(reasonOf(error));
    }
  }

  /** The response; a request over the rate limit is repeated after the time that its response names. */
  async #fetch(url: string, type: string): Promise<Response> {
    for (let waits = 0; ; waits++) {
      const response = await fetch(url, {
        headers: { accept: type, ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}) },
        redirect: 'error', // the token is for this log only
        signal: AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
      if (response.status !== 429 || waits === this.#maxWaits || !(seconds <= MAX_RATE_LIMIT_WAIT_S))
        return response;
      await response.body?.cancel();
      await sleep(seconds * 1_000, this.#signal);
    }
  }
}

function messageOf(body: Buffer): string {
  try {
    return String(JSON.parse(body.toString()).message ?? '').slice(0, 200);
  } catch {
    return '';
  }
}

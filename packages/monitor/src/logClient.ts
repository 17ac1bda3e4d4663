import { failureReason, readAtMost } from '@event-sourced/node/http';
import { sleep } from '@event-sourced/node/time';
import {
  formatEntryBundle,
  HASH_BYTES,
  MAX_NOTE_BYTES,
  parseEntryBundle,
  TILE_WIDTH,
  type Tile,
  type TileOrEntries,
  tilePath,
} from '@event-sourced/tlog';
import { untilEnd } from '@event-sourced/transparency-log/digest';
import { LRUCache } from 'lru-cache';
import { NotChecked } from './notChecked.ts';
import { readLines } from './readLines.ts';

/** The media types of files and checkpoints. The error page of a proxy is not a response of the log. */
const FILE_TYPES = /^(text\/plain|(application|binary)\/octet-stream|none)\b/i;
const NDJSON = /^application\/x-ndjson\b/i;
const TIMEOUT_MS = 30_000;
const MAX_RATE_LIMIT_WAITS = 10;
const MAX_RATE_LIMIT_WAIT_S = 60;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_TILE_BYTES = TILE_WIDTH * HASH_BYTES;
/** Each entry follows its length in two bytes. */
const MAX_BUNDLE_BYTES = TILE_WIDTH * (2 + 65_535);

type Options = { url: string; token?: string | undefined; signal: AbortSignal; maxWaits?: number };

/** Reads a transparency log over HTTP: https://c2sp.org/tlog-tiles. Each method throws NotChecked. */
export class LogClient {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #maxWaits: number;
  readonly #signal: AbortSignal;
  /** The URLs that were read. A second read bypasses caches: the first response was wrong, or may be outdated. */
  readonly #read = new LRUCache<string, true>({ max: 1_000 });

  /**
   * The URL is the prefix of the log's resources. When the signal aborts, reads throw its reason. `maxWaits`: the
   * maximum number of waits for a rate limit.
   */
  constructor({ url, token, signal, maxWaits = MAX_RATE_LIMIT_WAITS }: Options) {
    this.#maxWaits = maxWaits;
    this.#url = url;
    this.#token = token;
    this.#signal = signal;
  }

  checkpoint(): Promise<Buffer> {
    return this.#get('checkpoint', MAX_NOTE_BYTES);
  }

  tile(tile: Tile): Promise<Uint8Array> {
    return this.#getTile(tile, MAX_TILE_BYTES, (hashes) => hashes.subarray(0, tile.width * HASH_BYTES));
  }

  entries(index: number, width: number): Promise<Uint8Array> {
    return this.#getTile({ level: 'entries', index, width }, MAX_BUNDLE_BYTES, (bundle) =>
      formatEntryBundle(parseEntryBundle(bundle).slice(0, width)),
    );
  }

  /** The events as lines of JSON, in the format of this service: after a position, or of a type. */
  async *events(query: { after?: string; type?: string }): AsyncGenerator<string> {
    const url = `${this.#url}/events?${new URLSearchParams({ ...query, end: 'true' })}`;
    try {
      const response = await this.#fetch(url, { types: NDJSON, signal: this.#signal });
      yield* untilEnd(readLines(response.body));
    } catch (error) {
      throw this.#notChecked(url, error);
    }
  }

  /** A log may delete a partial tile when the full tile exists: then the full tile begins with it. */
  async #getTile(tile: TileOrEntries, maxBytes: number, cut: (full: Uint8Array) => Uint8Array) {
    const get = (width: number) => this.#get(tilePath({ ...tile, width }), maxBytes);
    try {
      return await get(tile.width);
    } catch (error) {
      if (tile.width === TILE_WIDTH || !Object(error).isMissing) throw error;
      const full = await get(TILE_WIDTH).catch((fullError) => {
        throw fullError.isMissing ? error : fullError;
      });
      try {
        return cut(full);
      } catch {
        return full; // malformed, so it will not match
      }
    }
  }

  async #get(path: string, maxBytes: number): Promise<Buffer> {
    const url = `${this.#url}/${path}`;
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]);
    try {
      const { body } = await this.#fetch(url, { types: FILE_TYPES, signal });
      const bytes = await readAtMost(maxBytes, body);
      if (!bytes) throw new Error(`the response is larger than ${maxBytes} bytes`);
      return bytes;
    } catch (error) {
      throw this.#notChecked(url, error);
    }
  }

  /** @throws the reason of the signal */
  #notChecked(url: string, error: unknown): NotChecked {
    this.#signal.throwIfAborted();
    return new NotChecked(
      `GET ${url}: ${failureReason(error)}`,
      error instanceof NotChecked && error.isMissing,
    );
  }

  /** A response with the status 200; repeats a request over the rate limit. @throws Error, NotChecked */
  async #fetch(url: string, { types, signal }: { types: RegExp; signal: AbortSignal }): Promise<Response> {
    const cache = this.#read.has(url) ? 'no-store' : 'default';
    this.#read.set(url, true);
    const headers = { accept: '*/*', ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}) };
    for (let waits = 0; ; waits++) {
      // A redirect is an error: the token is only for this log.
      const response = await fetch(url, { cache, headers, redirect: 'error', signal });
      const { status } = response;
      const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
      if (status === 429 && waits < this.#maxWaits && seconds <= MAX_RATE_LIMIT_WAIT_S) {
        await response.body?.cancel();
        await sleep(seconds * 1_000, this.#signal);
        continue;
      }
      if (status !== 200)
        throw new NotChecked(`${status} ${await errorText(response)}`.trim(), status === 404);
      const type = response.headers.get('content-type') ?? 'none';
      if (!types.test(type)) throw new Error(`its content type is ${type}`);
      return response;
    }
  }
}

async function errorText({ body }: Response): Promise<string> {
  try {
    return String(JSON.parse(String(await readAtMost(MAX_ERROR_BYTES, body))).message ?? '').slice(0, 200);
  } catch {
    return '';
  }
}

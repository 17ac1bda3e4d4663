import { sleep } from '@event-sourced/event-log/time';
import { LRUCache } from 'lru-cache';
import { MAX_LEAF_BYTES } from '../entries/leaf.ts';
import { failureReason, readAtMost } from '../http/response.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, type TileOrEntries, tilePath } from '../merkle/tiles.ts';
import { formatEntryBundle, parseEntryBundle } from '../notes/entryBundle.ts';
import { MAX_NOTE_BYTES } from '../notes/signedNote.ts';
import { NotChecked } from './notChecked.ts';

/** The media types of files and checkpoints. The error page of a proxy is not a response of the log. */
const MEDIA_TYPES = /^(text\/plain|(application|binary)\/octet-stream|none)\b/i;
const TIMEOUT_MS = 30_000;
const MAX_RATE_LIMIT_WAITS = 10;
const MAX_RATE_LIMIT_WAIT_S = 60;
const MAX_TILE_BYTES = TILE_WIDTH * HASH_BYTES;
/** Each entry follows its length in two bytes. */
const MAX_BUNDLE_BYTES = TILE_WIDTH * (2 + MAX_LEAF_BYTES);

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

  /** The newest checkpoint, which may not be cosigned yet. */
  latest(): Promise<Buffer> {
    return this.#get('checkpoint?latest', MAX_NOTE_BYTES);
  }

  tile(tile: Tile): Promise<Buffer> {
    return this.#getTile(tile, MAX_TILE_BYTES, (hashes) => hashes.subarray(0, tile.width * HASH_BYTES));
  }

  entries(index: number, width: number): Promise<Buffer> {
    return this.#getTile({ level: 'entries', index, width }, MAX_BUNDLE_BYTES, (bundle) =>
      formatEntryBundle(parseEntryBundle(bundle).slice(0, width)),
    );
  }

  /** A log may delete a partial tile when the full tile exists: then the full tile begins with it. */
  async #getTile(tile: TileOrEntries, maxBytes: number, cut: (full: Buffer) => Buffer) {
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
    const unavailable = (reason: string, isMissing = false): NotChecked =>
      new NotChecked(`GET ${url}: ${reason}`, isMissing);
    try {
      const response = await this.#fetch(url);
      const body = await readAtMost(maxBytes, response.body);
      if (!body) throw unavailable(`the response is larger than ${maxBytes} bytes`);
      const { status } = response;
      if (status !== 200) throw unavailable(`${status} ${errorText(body)}`.trim(), status === 404);
      const type = response.headers.get('content-type') ?? 'none';
      if (!MEDIA_TYPES.test(type)) throw unavailable(`its content type is ${type}`);
      return body;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof NotChecked) throw error;
      throw unavailable(failureReason(error));
    }
  }

  /** Fetches a URL; repeats a request over the rate limit after the time in its response. */
  async #fetch(url: string): Promise<Response> {
    const cache = this.#read.has(url) ? 'no-store' : 'default';
    this.#read.set(url, true);
    for (let waits = 0; ; waits++) {
      const response = await fetch(url, {
        cache,
        headers: { accept: '*/*', ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}) },
        redirect: 'error', // the token is only for this log
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

function errorText(body: Buffer): string {
  try {
    return String(JSON.parse(body.toString()).message ?? '').slice(0, 200);
  } catch {
    return '';
  }
}

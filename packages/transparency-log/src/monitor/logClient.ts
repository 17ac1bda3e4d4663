import { sleep } from '@event-sourced/event-log/time';
import { LRUCache } from 'lru-cache';
import { MAX_LEAF_BYTES } from '../entries/leaf.ts';
import { readAtMost, reasonOf } from '../http/response.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, type TileOrEntries, tilePath } from '../merkle/tiles.ts';
import { formatEntryBundle, parseEntryBundle } from '../notes/entryBundle.ts';
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

/** What files are served as, checkpoints too. The page of a proxy is not a response of the log. */
const MEDIA_TYPES = /^(text\/plain|(application|binary)\/octet-stream|none)\b/i;
const TIMEOUT_MS = 30_000;
const MAX_RATE_LIMIT_WAITS = 10;
const MAX_RATE_LIMIT_WAIT_S = 60;
const MAX_TILE_BYTES = TILE_WIDTH * HASH_BYTES;
/** Each entry after its length in two bytes. */
const MAX_BUNDLE_BYTES = TILE_WIDTH * (2 + MAX_LEAF_BYTES);

type Options = { url: string; token?: string | undefined; signal: AbortSignal; maxWaits?: number };

/** Reads a transparency log over HTTP: https://c2sp.org/tlog-tiles. Each method throws LogUnavailable. */
export class LogClient {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #maxWaits: number;
  readonly #signal: AbortSignal;
  /** What was read before is read again past caches: it was wrong, or may be newer. */
  readonly #read = new LRUCache<string, true>({ max: 1_000 });

  /**
   * The URL is the prefix of the log's resources. When the signal aborts, it throws the signal's reason. `maxWaits`: how often
   * it waits for a rate limit.
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

  tile(tile: Tile): Promise<Buffer> {
    return this.#getTile(tile, MAX_TILE_BYTES, (hashes) => hashes.subarray(0, tile.width * HASH_BYTES));
  }

  entries(index: number, width: number): Promise<Buffer> {
    return this.#getTile({ level: 'entries', index, width }, MAX_BUNDLE_BYTES, (bundle) =>
      formatEntryBundle(parseEntryBundle(bundle).slice(0, width)),
    );
  }

  /** A log may delete a partial tile once the full one exists: then it is the beginning of that one. */
  async #getTile(tile: TileOrEntries, maxBytes: number, beginningOf: (full: Buffer) => Buffer) {
    const get = (width: number) => this.#get(tilePath({ ...tile, width }), maxBytes);
    try {
      return await get(tile.width);
    } catch (error) {
      if (tile.width === TILE_WIDTH || !Object(error).isMissing) throw error;
      const full = await get(TILE_WIDTH).catch((other) => {
        throw other.isMissing ? error : other;
      });
      try {
        return beginningOf(full);
      } catch {
        return full; // it is malformed, and does not match
      }
    }
  }

  async #get(path: string, maxBytes: number): Promise<Buffer> {
    const url = `${this.#url}/${path}`;
    const unavailable = (reason: string, isMissing = false): LogUnavailable =>
      new LogUnavailable(`GET ${url}: ${reason}`, isMissing);
    try {
      const response = await this.#fetch(url);
      const body = await readAtMost(maxBytes, response.body);
      if (!body) throw unavailable(`the response is larger than ${maxBytes} bytes`);
      const { status } = response;
      if (status !== 200) throw unavailable(`${status} ${messageOf(body)}`.trim(), status === 404);
      const type = response.headers.get('content-type') ?? 'none';
      if (!MEDIA_TYPES.test(type)) throw unavailable(`its content type is ${type}`);
      return body;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof LogUnavailable) throw error;
      throw unavailable(reasonOf(error));
    }
  }

  /** The response; a request over the rate limit is repeated after the time that its response names. */
  async #fetch(url: string): Promise<Response> {
    const cache = this.#read.has(url) ? 'no-store' : 'default';
    this.#read.set(url, true);
    for (let waits = 0; ; waits++) {
      const response = await fetch(url, {
        cache,
        headers: { accept: '*/*', ...(this.#token ? { authorization: `Bearer ${this.#token}` } : {}) },
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

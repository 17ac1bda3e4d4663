import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { BaseLogger } from 'pino';
import { hasSqliteCode, isSqliteError, SQLITE } from '../../src/disk/sqlite.ts';
import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { type Tile, tileWidth } from '../../src/merkle/tiles.ts';
import type { LogLocation } from '../../src/stores.ts';
import { backOff, finishedWithin } from '../../src/time/sleep.ts';
import type { Progress } from '../follow.ts';
import { isDamage } from '../viewDatabase.ts';
import { ViewBehind, Waiting } from '../waiting.ts';
import { CheckedTiles } from './checkedTiles.ts';
import { openTree, startOfTile, TilesDiffer, type TreeStatements, tileOfPosition } from './treeFile.ts';
import {
  isTreeMessage,
  type ReadLog,
  type TreeMessage,
  type TreeRequest,
  type TreeThreadData,
} from './treeProtocol.ts';
import type { SavedTree } from './treeView.ts';

type Options = {
  file: string;
  location: LogLocation;
  logger: Pick<BaseLogger, 'info' | 'warn' | 'error' | 'fatal'>;
  onProgress: (progress: Progress) => void;
};

/** For clients. */
export const TREE_NOT_UP_TO_DATE = 'The Merkle tree is not up to date yet; retry.';
const MAX_RESTART_DELAY_MS = 30_000;
/** `close` waits for the thread for so long, in milliseconds. */
const CLOSE_TIMEOUT_MS = 3_000;
/** The thread drops each event once it is hashed, so that more space for new objects would not make it faster. */
const YOUNG_GENERATION_MB = 8;

/**
 * The Merkle tree over all events of the log. A thread of its own follows the log and writes the tree's file;
 * this thread reads it. If the thread fails it is restarted, and meanwhile the tree cannot be read.
 */
export class LogTree {
  /** How often its thread has failed. */
  failures = 0;
  /** How often the tree has been rebuilt since its thread started. */
  rebuilds = 0;
  /** Called whenever the tree can be read again, after it could not be. */
  onReady = () => {};
  readonly #options: Options;
  readonly #waiting = new Waiting();
  #thread: Worker | undefined;
  #saved: SavedTree | undefined;
  #progress: ReadLog | undefined;
  /** The position at which the thread had caught up with the log; undefined until then. */
  #caughtUpAt: Position | undefined;
  #failure: string | undefined;
  #failures = 0;
  #restart: NodeJS.Timeout | undefined;
  /** How often the thread has reset the tree, as far as this thread knows. */
  #resets = 0;
  #reader: ReturnType<typeof openTree> | undefined;
  /** Of the tree that was read last. */
  #tiles: CheckedTiles | undefined;
  #isClosed = false;

  /** Starts the thread, and does not wait for it. */
  constructor(options: Options) {
    this.#options = options;
    this.#startThread();
  }

  /** Why the tree cannot be read; undefined if it can. */
  get notReady(): string | undefined {
    if (this.#isClosed) return 'the Merkle tree is closed';
    if (this.#failure !== undefined) return `the Merkle tree has failed: ${this.#failure}`;
    const position = this.#saved?.position ?? START;
    return !this.#saved || this.#caughtUpAt === undefined || position < this.#caughtUpAt
      ? `the Merkle tree is catching up with the log, at position ${position}`
      : undefined;
  }

  /** As of the last save; undefined while the thread starts. */
  get saved(): SavedTree | undefined {
    return this.#saved;
  }

  /** How far its thread has read the log. @throws ViewBehind until it has caught up */
  get read(): ReadLog {
    const { position } = this.current;
    return this.#progress && this.#progress.to > position ? this.#progress : { to: position, last: position };
  }

  /** Up to here the saved tree has every event of the log; undefined while the thread starts. */
  get readTo(): Position | undefined {
    const [position, read] = [this.#saved?.position, this.#progress];
    return position !== undefined && read && read.last <= position && read.to > position ? read.to : position;
  }

  /** As of the last save. It only grows, unless the log is replaced. @throws ViewBehind until it has caught up */
  get current(): SavedTree {
    this.#assertReady();
    return this.#saved as SavedTree;
  }

  /**
   * Resolves once the saved tree has caught up with the log with this ID, and has the event at a position of it.
   * @throws ViewBehind after this time, five seconds by default, or as soon as the thread has failed
   */
  async reached(position: Position, logId?: string, timeoutMs?: number): Promise<void> {
    const isReached = (): boolean => {
      if (this.#failure !== undefined) this.#assertReady(); // throws
      const isSameLog = logId === undefined || this.#saved?.logId === logId;
      return this.notReady === undefined && isSameLog && (this.readTo as Position) >= position;
    };
    if (!isReached()) await this.#waiting.until(isReached, TREE_NOT_UP_TO_DATE, timeoutMs);
  }

  /** The hashes of a tile, `width` × 32 bytes; undefined if the saved tree does not have it. @throws ViewBehind */
  readTile(tile: Tile): Buffer | undefined {
    return this.#read((statements, tree) => {
      if (this.#tiles?.tree !== tree) this.#tiles = new CheckedTiles(statements, tree);
      return this.#tiles.get(tile);
    });
  }

  /** Whether the saved tree has a tile. @throws ViewBehind */
  has({ level, index, width }: Tile): boolean {
    return width <= tileWidth(level, index, this.current.size);
  }

  /** The position before the first event of a tile of level 0 that the saved tree has. @throws ViewBehind */
  startOf(index: number): Position {
    return this.#read((statements) => startOfTile(statements, index));
  }

  /**
   * The tile of level 0 that has the event at a position, if the tree has reached it, and the position before
   * its first event; undefined for START. @throws ViewBehind
   */
  tileOf(position: Position): { index: number; startsAfter: Position } | undefined {
    return this.#read((statements) => tileOfPosition(statements, position));
  }

  /** Discards the file, for this reason, so that the tree is rebuilt from the log. */
  rebuild(reason: string): void {
    this.#caughtUpAt = undefined;
    this.#post({ discard: reason, resets: this.#resets });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    this.#closeReader(); // first: the last one to close checkpoints
    const thread = this.#thread;
    if (thread) {
      const exited = once(thread, 'exit');
      this.#post({ close: true });
      await finishedWithin(CLOSE_TIMEOUT_MS, exited);
      await thread.terminate();
    }
  }

  #startThread(): void {
    const { file, location } = this.#options;
    const { dataDir, eventStoreDb } = location;
    const workerData: TreeThreadData = {
      file,
      location: eventStoreDb ? { dataDir, eventStoreDb } : { dataDir },
    };
    const thread = new Worker(new URL('./treeThread.ts', import.meta.url), {
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
    });
    this.#thread = thread;
    thread.on('message', (message) => {
      if (isTreeMessage(message)) this.#handle(message);
    });
    let reason = 'its thread has ended';
    thread.on('error', (error: Error) => {
      reason = error.message;
    });
    thread.on('exit', () => {
      this.#thread = undefined;
      if (!this.#isClosed) this.#handleFailure(reason);
    });
  }

  #handleFailure(reason: string): void {
    this.failures++;
    this.rebuilds = 0;
    this.#resets = 0;
    const delayMs = backOff(this.#failures++, MAX_RESTART_DELAY_MS);
    this.#failure = reason;
    this.#saved = undefined;
    this.#progress = undefined;
    this.#caughtUpAt = undefined;
    this.#closeReader();
    this.#waiting.check();
    this.#options.logger.error(
      { view: 'merkleTree', reason, delayMs },
      'the Merkle tree failed; restarting it',
    );
    this.#restart = setTimeout(() => this.#startThread(), delayMs).unref();
  }

  #handle(message: TreeMessage): void {
    const wasReady = this.notReady === undefined;
    if ('log' in message) {
      const { level, fields, message: text } = message.log;
      this.#options.logger[level](fields, text);
    } else if ('progress' in message) {
      const { position, end } = message.progress;
      if (position >= end) this.#caughtUpAt ??= position;
      this.#options.onProgress(message.progress);
    } else if ('read' in message) {
      this.#progress = message.read;
    } else if ('reset' in message) {
      this.#saved = undefined;
      this.#progress = undefined;
      this.rebuilds = message.rebuilds;
      this.#resets = message.resets;
      this.#caughtUpAt = undefined;
      this.#closeReader(); // its file may be gone
    } else {
      this.#saved = message.saved;
    }
    this.#failure = undefined;
    if (this.notReady === undefined) {
      this.#failures = 0;
      if (!wasReady) this.onReady();
    }
    this.#waiting.check();
  }

  #read<T>(query: (statements: TreeStatements, tree: SavedTree) => T): T {
    const tree = this.current;
    try {
      this.#reader ??= openTree(this.#options.file);
      return query(this.#reader.statements, tree);
    } catch (error) {
      this.#closeReader();
      const isGone = hasSqliteCode(error, SQLITE.CANTOPEN) && !existsSync(this.#options.file);
      if (isDamage(error) || error instanceof TilesDiffer || isGone) this.rebuild((error as Error).message);
      else if (!isSqliteError(error)) throw error;
      throw new ViewBehind(TREE_NOT_UP_TO_DATE, { cause: error });
    }
  }

  #assertReady(): void {
    if (this.notReady !== undefined)
      throw new ViewBehind(TREE_NOT_UP_TO_DATE, { cause: new Error(this.notReady) });
  }

  #closeReader(): void {
    this.#reader?.db.close();
    this.#reader = undefined;
    this.#tiles = undefined;
  }

  #post(request: TreeRequest): void {
    this.#thread?.postMessage(request);
  }
}

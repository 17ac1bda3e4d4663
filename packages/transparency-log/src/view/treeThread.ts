import { existsSync } from 'node:fs';
import type { Logger } from '@event-sourced/event-log';
import { type Position, START } from '@event-sourced/event-log';
import { hasSqliteCode, isSqliteError, SQLITE } from '@event-sourced/event-log/disk';
import { moduleBeside, Thread } from '@event-sourced/event-log/threads';
import { backOff, finishedWithin } from '@event-sourced/event-log/time';
import type { Progress } from '@event-sourced/event-log/views';
import { ViewBehind, Waiting } from '@event-sourced/event-log/views';
import { type Tile, tileWidth } from '../merkle/tiles.ts';
import { VerifiedTiles } from '../merkle/verifiedTiles.ts';
import {
  damageOf,
  openTree,
  readTile,
  startOfTile,
  type TreeStatements,
  tileOfPosition,
} from './treeFile.ts';
import type { SavedTree } from './treeView.ts';
import type {
  LogOfTree,
  ReadLog,
  TreeEvent,
  TreeOperations,
  TreeState,
  TreeWorkerData,
} from './treeWorker.ts';

type Options = {
  file: string;
  log: LogOfTree;
  logger: Logger;
  onProgress: (progress: Progress) => void;
};

/** For clients. */
export const TREE_NOT_UP_TO_DATE = 'The Merkle tree is not up to date yet; retry.';
const MAX_RESTART_DELAY_MS = 30_000;
const CLOSE_TIMEOUT_MS = 3_000;
/** The thread drops each event once it is hashed, so that more space for new objects would not make it faster. */
const YOUNG_GENERATION_MB = 8;

const NO_STATE: TreeState = { saved: undefined, read: undefined, resets: 0, rebuilds: 0 };

/**
 * The Merkle tree over all events of the log. A thread of its own follows the log and writes the tree's file;
 * this thread reads it. If the thread fails it is restarted, and meanwhile the tree cannot be read.
 */
export class TreeThread {
  failures = 0;
  /** Called whenever the tree can be read again, after it could not be. */
  onReady = () => {};
  readonly #options: Options;
  readonly #waiting = new Waiting();
  #thread: Thread<TreeOperations, void, TreeEvent> | undefined;
  #state = NO_STATE;
  /** The position at which the thread had caught up with the log; undefined until then. */
  #caughtUpAt: Position | undefined;
  #failure: string | undefined;
  #failuresInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #reader: ReturnType<typeof openTree> | undefined;
  /** Those of the tree that was read last. */
  #tiles: VerifiedTiles | undefined;
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
    const position = this.saved?.position ?? START;
    return !this.saved || this.#caughtUpAt === undefined || position < this.#caughtUpAt
      ? `the Merkle tree is catching up with the log, at position ${position}`
      : undefined;
  }

  /** As of the last save; undefined while the thread starts. */
  get saved(): SavedTree | undefined {
    return this.#state.saved;
  }

  get rebuilds(): number {
    return this.#state.rebuilds;
  }

  /** How far its thread has read the log. @throws ViewBehind until it has caught up */
  get read(): ReadLog {
    const { position } = this.current;
    const { read } = this.#state;
    return read && read.to > position ? read : { to: position, last: position };
  }

  /** Up to here the saved tree has every event of the log; undefined while the thread starts. */
  get readTo(): Position | undefined {
    const { saved, read } = this.#state;
    const position = saved?.position;
    return position !== undefined && read && read.last <= position && read.to > position ? read.to : position;
  }

  /** As of the last save. It only grows, unless the log is replaced. @throws ViewBehind until it has caught up */
  get current(): SavedTree {
    this.#assertReady();
    return this.saved as SavedTree;
  }

  /**
   * Resolves once the saved tree has caught up with the log with this ID, and has the event at a position of it.
   * @throws ViewBehind after this time, five seconds by default, or as soon as the thread has failed
   */
  async reached(position: Position, logId?: string, timeoutMs?: number): Promise<void> {
    const isReached = (): boolean => {
      if (this.#failure !== undefined) this.#assertReady(); // throws
      const isSameLog = logId === undefined || this.saved?.logId === logId;
      return this.notReady === undefined && isSameLog && (this.readTo as Position) >= position;
    };
    if (!isReached()) await this.#waiting.until(isReached, TREE_NOT_UP_TO_DATE, timeoutMs);
  }

  /** The first hashes of a tile. @throws ViewBehind, also if the saved tree does not have it any more */
  async readTile(tile: Tile): Promise<Buffer> {
    if (!this.has(tile)) throw new ViewBehind(TREE_NOT_UP_TO_DATE);
    return this.#read(async (statements, head) => {
      if (this.#tiles?.head !== head)
        this.#tiles = await VerifiedTiles.open(head, (wanted) => readTile(statements, wanted));
      return this.#tiles.read(tile);
    });
  }

  /** Whether the saved tree has a tile. @throws ViewBehind */
  has({ level, index, width }: Tile): boolean {
    return width <= tileWidth(level, index, this.current.size);
  }

  /** The position before the first event of a tile of level 0 that the saved tree has. @throws ViewBehind */
  startOf(index: number): Promise<Position> {
    return this.#read((statements) => startOfTile(statements, index));
  }

  /** As `tileOfPosition`. @throws ViewBehind */
  tileOf(position: Position): Promise<{ index: number; startsAfter: Position } | undefined> {
    return this.#read((statements) => tileOfPosition(statements, position));
  }

  /** Discards the file, for this reason, so that the tree is rebuilt from the log. */
  rebuild(reason: string): void {
    this.#caughtUpAt = undefined;
    this.#thread?.post('discard', { reason, resets: this.#state.resets });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    this.#closeReader(); // first: the last one to close checkpoints
    if (!this.#thread) return;
    await finishedWithin(CLOSE_TIMEOUT_MS, this.#thread.close());
    await this.#thread.terminate();
  }

  #startThread(): void {
    const { file, log } = this.#options;
    const data: TreeWorkerData = { file, log };
    this.#thread = new Thread(moduleBeside(import.meta.url, './treeWorker'), {
      data,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
      onEvent: (event) => this.#handle(event),
      onEnd: ({ message }) => {
        if (!this.#isClosed) this.#handleFailure(message);
      },
    });
  }

  #handleFailure(reason: string): void {
    this.failures++;
    const delayMs = backOff(this.#failuresInARow++, MAX_RESTART_DELAY_MS);
    this.#thread = undefined;
    this.#failure = reason;
    this.#setState(NO_STATE);
    this.#closeReader();
    this.#waiting.check();
    this.#options.logger.error(
      { view: 'merkleTree', reason, delayMs },
      'the Merkle tree failed; restarting it',
    );
    this.#restart = setTimeout(() => this.#startThread(), delayMs).unref();
  }

  #handle(event: TreeEvent): void {
    const wasReady = this.notReady === undefined;
    if ('log' in event) {
      const { level, fields, message } = event.log;
      this.#options.logger[level](fields, message);
    } else if ('progress' in event) {
      const { position, end } = event.progress;
      if (position >= end) this.#caughtUpAt ??= position;
      this.#options.onProgress(event.progress);
    } else {
      this.#setState(event.state);
    }
    this.#failure = undefined;
    if (this.notReady === undefined) {
      this.#failuresInARow = 0;
      if (!wasReady) this.onReady();
    }
    this.#waiting.check();
  }

  #setState(state: TreeState): void {
    if (state.saved === undefined) {
      this.#caughtUpAt = undefined;
      this.#closeReader(); // its file may be gone
    }
    this.#state = state;
  }

  async #read<T>(query: (statements: TreeStatements, head: SavedTree) => T | Promise<T>): Promise<T> {
    const head = this.current;
    try {
      this.#reader ??= openTree(this.#options.file);
      return await query(this.#reader.statements, head);
    } catch (error) {
      this.#closeReader();
      const isGone = hasSqliteCode(error, SQLITE.CANTOPEN) && !existsSync(this.#options.file);
      const damage = damageOf(error) ?? (isGone ? (error as Error).message : undefined);
      if (damage !== undefined) this.rebuild(damage);
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
}

import type { DatabaseSync } from 'node:sqlite';
import type { EventLog, Position } from '@event-sourced/event-log';
import { openForReading, readBookmark } from '@event-sourced/event-log/views';
import { DamagedFile, isSqliteError } from '@event-sourced/node/files';
import { EMPTY_TREE, type Tile, type TreeHead } from '@event-sourced/tlog';
import { MERKLE_TREE, TreeTiles } from './treeTiles.ts';

/** A snapshot of the tree that a service has saved in its file; the service may be running. */
export class SavedTree implements Disposable {
  readonly logId: string;
  readonly position: Position;
  readonly #db: DatabaseSync;
  readonly #tiles: TreeTiles;

  /** @throws Error if the file has no readable tree */
  constructor(file: string) {
    using opening = new DisposableStack();
    this.#db = opening.use(openForReading(file, MERKLE_TREE));
    this.#db.exec('BEGIN');
    const { logId, position } = readBookmark(this.#db);
    this.logId = logId;
    this.position = position;
    this.#tiles = new TreeTiles(this.#db, position);
    opening.move();
  }

  get head(): TreeHead {
    return this.#tiles.head;
  }

  /** @throws ViewBehind if the tree lacks the tile; DamagedFile */
  readonly readTile = (tile: Tile): Uint8Array => this.#tiles.hashes(tile);

  /** The index of an entry whose event is at this position, which the tree has reached. @throws DamagedFile */
  find(entry: string, position: Position): number | undefined {
    return this.#tiles.find(entry, position);
  }

  /** The entry at an index, from 0. @throws ViewBehind if the tree lacks it; DamagedFile */
  entryAt(index: number): string {
    return this.#tiles.entryAt(index);
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

/** The head of the tree that was saved last in a file; the empty one if the file has no readable tree of this log. */
export async function readSavedHead(file: string, log: EventLog): Promise<TreeHead> {
  try {
    using tree = new SavedTree(file);
    const isOfLog = tree.logId === (await log.logId()) && tree.position <= (await log.lastPosition());
    return isOfLog ? tree.head : EMPTY_TREE;
  } catch (error) {
    if (isSqliteError(error) || error instanceof DamagedFile) return EMPTY_TREE;
    throw error;
  }
}

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { NO_LOG_ID, type Position, type RecordedEvent, START } from '@event-sourced/event-log';
import { DamagedFile, isSqliteError } from '@event-sourced/event-log/disk';
import { isStub } from '@event-sourced/event-log/erasure';
import {
  openForReading,
  type Problem,
  readCheckpoint,
  type ViewCheckpoint,
} from '@event-sourced/event-log/views';
import { HASH_BYTES, TILE_WIDTH, tilePath } from '../merkle/tiles.ts';
import { type StoredTile, TileWriter } from '../merkle/tileWriter.ts';
import { MERKLE_TREE } from '../view/treeTiles.ts';

/**
 * Compares the Merkle tree in a file with the entries of the log, up to the tree's checkpoint, and finds the first
 * difference. It uses a snapshot: it does not see later writes of a server.
 */
export class TreeComparison implements Disposable {
  /** The tree's checkpoint in the snapshot. */
  readonly checkpoint: ViewCheckpoint;
  /** Whether the file was found damaged. */
  isDamaged = false;
  readonly #file: string;
  readonly #db: DatabaseSync;
  readonly #savedTile: StatementSync;
  /** Whether the tree belongs to this log, or to no log yet. */
  readonly #followsLog: boolean;
  readonly #tree = new TileWriter();
  /** The positions of the events since the last full tile. */
  #positions: Position[] = [];
  #last: RecordedEvent | undefined;
  #difference: Problem | undefined;

  /** @throws Error if the file cannot be read */
  constructor(file: string, logId: string) {
    using opening = new DisposableStack();
    this.#file = file;
    this.#db = opening.use(openForReading(file, MERKLE_TREE));
    this.#db.exec('BEGIN');
    this.checkpoint = readCheckpoint(this.#db);
    this.#savedTile = this.#db.prepare(
      'SELECT hashes, starts_after AS startsAfter FROM tiles WHERE level = ? AND number = ?',
    );
    this.#savedTile.setReadBigInts(true);
    const { logId: treeLogId, position } = this.checkpoint;
    this.#followsLog = treeLogId === logId || (treeLogId === NO_LOG_ID && position === START);
    opening.move();
  }

  /** Takes the events in log order. */
  apply(event: RecordedEvent, entry: string): void {
    const { position } = event;
    const isNext = position > this.#tree.position && position <= this.checkpoint.position;
    if (!this.#followsLog || !isNext) return;
    this.#last = event;
    this.#tree.append(entry, position);
    this.#positions.push(position);
    if (this.#positions.length < TILE_WIDTH) return;
    this.#compareTiles();
    this.#positions = [];
  }

  /** Yields the problems; call it after the last event. */
  *problems(): Generator<Problem> {
    if (!this.#followsLog) {
      yield { problem: 'the view merkleTree belongs to another log: the next start rebuilds it' };
      return;
    }
    this.#compareTiles();
    const { position, eventId } = this.checkpoint;
    const hasLast = position === START || this.#last?.id === eventId || (this.#last && isStub(this.#last));
    if (this.#tree.position !== position || !hasLast)
      yield {
        position,
        problem: 'the checkpoint of the view merkleTree names an event that the log does not have',
      };
    else this.#find(() => this.#additionalTile());
    if (this.#difference) yield this.#difference;
  }

  #compareTiles(): void {
    for (const tile of this.#tree.takeChanged()) this.#find(() => this.#differenceIn(tile));
  }

  #find(find: () => Problem | undefined): void {
    try {
      this.#difference ??= find();
    } catch (error) {
      if (!isSqliteError(error) && !(error instanceof DamagedFile)) throw error;
      this.isDamaged = true;
      this.#difference = { problem: `the view ${this.#file} is damaged: ${(error as Error).message}` };
    }
  }

  /** The saved tile may be wider, as long as the tree grows. */
  #differenceIn({ hashes, ...tile }: StoredTile): Problem | undefined {
    const saved = this.#savedTile.get(tile.level, tile.index) as
      | { hashes: unknown; startsAfter: unknown }
      | undefined;
    const savedHashes = saved?.hashes instanceof Uint8Array ? saved.hashes : Buffer.of();
    for (let at = 0; at < hashes.length; at += HASH_BYTES) {
      const end = at + HASH_BYTES;
      if (hashes.subarray(at, end).equals(savedHashes.subarray(at, end))) continue;
      if (tile.level > 0)
        return { problem: `the view merkleTree does not have the hashes of ${tilePath(tile)}` };
      const position = this.#positions[at / HASH_BYTES] as Position;
      return { position, problem: 'the view merkleTree does not have the entry of this event' };
    }
    if (saved?.startsAfter === tile.startsAfter) return undefined;
    return { problem: `the view merkleTree has a wrong position before ${tilePath(tile)}` };
  }

  #additionalTile(): Problem | undefined {
    const levels = this.#db
      .prepare('SELECT level, sum(length(hashes)) AS bytes FROM tiles GROUP BY level')
      .all();
    const isLonger = (levels as { level: number; bytes: number }[]).some(
      ({ level, bytes }) => bytes > Math.floor(this.#tree.size / TILE_WIDTH ** level) * HASH_BYTES,
    );
    return isLonger
      ? { problem: 'the view merkleTree has hashes that do not follow from the log' }
      : undefined;
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

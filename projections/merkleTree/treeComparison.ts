import { existsSync } from 'node:fs';
import { NO_LOG_ID, type Position, type RecordedEvent, START } from '../../src/eventStore/eventStore.ts';
import { HASH_BYTES, TILE_WIDTH, tileWidth } from '../../src/merkle/tiles.ts';
import type { StoredTile } from '../../src/merkle/tileWriter.ts';
import type { ViewCheckpoint } from '../view.ts';
import type { Problem } from '../viewComparison.ts';
import { isDamage, readCheckpoint } from '../viewDatabase.ts';
import { openTree, type TileRow } from './treeFile.ts';

/**
 * Compares the Merkle tree in a file with that of its log, tile by tile, up to the checkpoint that it had at the
 * beginning. A server may be writing the file: no lock is held between reads.
 */
export class TreeComparison {
  /** The tree's checkpoint at the beginning. */
  readonly checkpoint: ViewCheckpoint;
  readonly #path: string;
  readonly #file: ReturnType<typeof openTree>;
  /** The number of its leaves at the beginning. */
  readonly #size: number;
  /** Events of the log so far. */
  #events = 0;
  /** The positions of the events since the last comparison, and of those before them in the last tile. */
  #positions: Position[] = [];
  #checkpointFound: boolean;
  #differs = false;
  #damage: string | undefined;

  /** The tree in a file; undefined if there is no file. @throws Error if it cannot be read */
  static open(file: string): TreeComparison | undefined {
    return existsSync(file) ? new TreeComparison(file) : undefined;
  }

  private constructor(file: string) {
    this.#path = file;
    this.#file = openTree(file);
    const { db, statements } = this.#file;
    db.exec('BEGIN');
    this.checkpoint = readCheckpoint(db);
    const last = statements.lastOfLevel.get(0) as TileRow | undefined;
    this.#size = last ? Number(last.number) * TILE_WIDTH + last.hashes.length / HASH_BYTES : 0;
    db.exec('ROLLBACK');
    this.#checkpointFound = this.checkpoint.position === START;
  }

  /** Whether the tree has not followed any log yet. */
  get isNew(): boolean {
    return this.checkpoint.logId === NO_LOG_ID && this.checkpoint.position === START;
  }

  /** Whether the file was found damaged. */
  get isDamaged(): boolean {
    return this.#damage !== undefined;
  }

  /** Takes the events in log order. */
  add({ position, id }: RecordedEvent): void {
    this.#events++;
    this.#positions.push(position);
    if (position === this.checkpoint.position)
      this.#checkpointFound = id === this.checkpoint.eventId && this.#events === this.#size;
  }

  /** The differences in these tiles of the log's tree, all that have grown since the last comparison. */
  problems(tiles: readonly StoredTile[]): Problem[] {
    const { db } = this.#file;
    if (this.#damage !== undefined) return [];
    const problems: Problem[] = [];
    db.exec('BEGIN'); // one snapshot of the tree
    try {
      if (this.#wasReset()) return [];
      for (const tile of tiles) {
        problems.push(...this.#differences(tile));
        this.#differs ||= problems.length > 0;
      }
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#damage = (error as Error).message;
    } finally {
      db.exec('ROLLBACK');
    }
    const inLastTile = this.#events % TILE_WIDTH;
    this.#positions = inLastTile === 0 ? [] : this.#positions.slice(-inLastTile);
    return problems;
  }

  /** After the last event: what the tree has beyond the log. */
  remaining(): Problem[] {
    if (this.#damage !== undefined)
      return [{ problem: `the Merkle tree ${this.#path} is damaged: ${this.#damage}` }];
    if (this.#wasReset()) return [{ problem: 'the Merkle tree was rebuilt meanwhile: verify again' }];
    if (this.#differs) return [];
    if (this.#size > this.#events)
      return [{ problem: `the Merkle tree has ${this.#size} leaves, the log only ${this.#events} events` }];
    return this.#checkpointFound
      ? []
      : [{ problem: 'the checkpoint of the Merkle tree names an event that is not the last of its leaves' }];
  }

  close(): void {
    this.#file.db.close();
  }

  /** Leaves that differ, at their positions; a difference further up is reported if all leaves are equal. */
  #differences({ level, index, width, hashes, startsAfter }: StoredTile): Problem[] {
    const compared = Math.min(width, tileWidth(level, index, this.#size));
    if (compared === 0) return [];
    const row = this.#file.statements.tile.get(level, index) as TileRow | undefined;
    const found = Buffer.from(row?.hashes ?? []);
    const isSame = (start: number, end: number): boolean =>
      hashes
        .subarray(start * HASH_BYTES, end * HASH_BYTES)
        .equals(found.subarray(start * HASH_BYTES, end * HASH_BYTES));
    const isSamePosition = level > 0 || row?.startsAfter === startsAfter;
    if (isSame(0, compared) && isSamePosition) return [];
    if (level > 0)
      return this.#differs
        ? []
        : [{ problem: `the Merkle tree has a wrong tile ${index} of level ${level}` }];
    const first = index * TILE_WIDTH - (this.#events - this.#positions.length);
    const differing = Array.from({ length: compared }, (_, i) => i).filter((i) => !isSame(i, i + 1));
    return differing.length === 0
      ? [
          {
            position: this.#positions[first] as Position,
            problem: 'the Merkle tree has its tile at another position',
          },
        ]
      : differing.map((i) => ({
          position: this.#positions[first + i] as Position,
          problem: 'the Merkle tree has another leaf for it, or none',
        }));
  }

  #wasReset(): boolean {
    const { logId, position } = readCheckpoint(this.#file.db);
    return logId !== this.checkpoint.logId || position < this.checkpoint.position;
  }
}

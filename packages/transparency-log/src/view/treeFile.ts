import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '@event-sourced/event-log';
import { openReadOnly } from '@event-sourced/event-log/disk';
import { readViewCheckpoint } from '@event-sourced/event-log/views';
import { MerkleTree } from '../merkle/merkleTree.ts';
import { HASH_BYTES, TILE_WIDTH, TileMismatch, tileTree } from '../merkle/tiles.ts';

/** The Merkle tree in a file, for commands beside the service. */
export class TreeFile implements Disposable {
  readonly size: number;
  /** The position of the last event. */
  readonly position: Position;
  readonly #db: DatabaseSync;

  /** Opens the tree of the log with this ID; undefined if the file does not have it, or cannot be read. */
  static open(file: string, logId: string): TreeFile | undefined {
    try {
      return readViewCheckpoint(file)?.logId === logId ? new TreeFile(file) : undefined;
    } catch {
      return undefined;
    }
  }

  private constructor(file: string) {
    using opening = new DisposableStack();
    this.#db = opening.use(openReadOnly(file));
    this.#db.exec('BEGIN'); // one snapshot, beside the tree's writer
    const row = this.#db
      .prepare(`
        SELECT number * ${TILE_WIDTH} + length(hashes) / ${HASH_BYTES} AS size, (SELECT position FROM checkpoint) AS position
        FROM tiles WHERE level = 0 ORDER BY number DESC LIMIT 1`)
      .get() as { size: number; position: number } | undefined;
    this.size = row?.size ?? 0;
    this.position = BigInt(row?.position ?? 0);
    opening.move();
  }

  /** The tree of the first `size` events, at most those of the file. @throws TileMismatch if tiles are missing */
  at(size: number): MerkleTree {
    const perfect: string[] = [];
    for (let level = 0; TILE_WIDTH ** level <= size; level++) {
      const hashes = Math.floor(size / TILE_WIDTH ** level);
      perfect.unshift(...this.#perfect(level, Math.floor(hashes / TILE_WIDTH), hashes % TILE_WIDTH));
    }
    return new MerkleTree(size, perfect);
  }

  /** The perfect subtrees over the first hashes of a tile. */
  #perfect(level: number, number: number, width: number): readonly string[] {
    if (width === 0) return []; // full tiles are hashes of the level above
    const tile = this.#db
      .prepare('SELECT hashes FROM tiles WHERE level = ? AND number = ?')
      .get(level, number);
    const hashes = Buffer.from((tile?.hashes ?? []) as Uint8Array).subarray(0, width * HASH_BYTES);
    if (hashes.length < width * HASH_BYTES)
      throw new TileMismatch(`tile ${number} of level ${level} is missing`);
    return tileTree(hashes).perfect;
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}

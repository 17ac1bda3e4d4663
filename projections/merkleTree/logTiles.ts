import { type Position, START } from '../../src/eventStore/eventStore.ts';
import { TiledTree, type TileWithHashes } from '../../src/merkle/tiledTree.ts';
import { TILE_WIDTH } from '../../src/merkle/tiles.ts';

/**
 * A tile as it is stored. `startsAfter`: for one of level 0, the position of the event before its first leaf,
 * so that its events can be read; null for others.
 */
export type StoredTile = TileWithHashes & { startsAfter: Position | null };

/** The Merkle tree over the events of a log, as tiles to be stored. */
export class LogTiles {
  /** The position of the last event. */
  position: Position;
  readonly #tree: TiledTree;
  /** By index: the positions of the last tile of level 0, and of those that were not taken yet. */
  readonly #startsAfter = new Map<number, Position>();

  /** By default it is empty; otherwise it has these last tiles, from level 0 upwards, up to a position. */
  constructor(last: readonly StoredTile[] = [], position = START) {
    this.#tree = new TiledTree(last);
    this.position = position;
    const [leaves] = last;
    if (leaves) this.#startsAfter.set(leaves.index, leaves.startsAfter ?? START);
  }

  get size(): number {
    return this.#tree.size;
  }

  /** The hashes of the last tile of level 0, and the position before its first event. */
  get lastTile(): { hashes: Buffer; startsAfter: Position } {
    const index = Math.ceil(this.size / TILE_WIDTH) - 1;
    return { hashes: this.#tree.lastLeaves, startsAfter: this.#startsAfter.get(index) ?? START };
  }

  /** Appends the leaf of the event at a position. */
  append(leaf: string, position: Position): void {
    if (this.size % TILE_WIDTH === 0) this.#startsAfter.set(this.size / TILE_WIDTH, this.position);
    this.#tree.append(leaf);
    this.position = position;
  }

  root(): string {
    return this.#tree.root();
  }

  /** The tiles that have grown since the last call. */
  takeChanged(): StoredTile[] {
    const changed = this.#tree
      .takeChanged()
      .map((tile) => ({ ...tile, startsAfter: tile.level === 0 ? this.#startsAfterTile(tile) : null }));
    const last = Math.ceil(this.size / TILE_WIDTH) - 1;
    for (const index of this.#startsAfter.keys()) if (index < last) this.#startsAfter.delete(index);
    return changed;
  }

  #startsAfterTile({ index }: TileWithHashes): Position {
    return this.#startsAfter.get(index) as Position;
  }
}

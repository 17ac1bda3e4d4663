import { TiledTree, type TileWithHashes } from '../../src/merkle/tiledTree.ts';
import { HASH_BYTES, rootOfTile, TILE_WIDTH, type Tile, tileWidth } from '../../src/merkle/tiles.ts';
import { assertFits, nameOf, readTile, type TreeStatements } from './treeFile.ts';
import type { SavedTree } from './treeView.ts';

/**
 * The tiles of a saved tree, from its file, which may have a larger one meanwhile. Each is checked up to the
 * root, so that none is returned that was altered in the file.
 */
export class CheckedTiles {
  readonly tree: SavedTree;
  readonly #statements: TreeStatements;
  /** The last tile of each level, from level 0 upwards. */
  readonly #last: readonly TileWithHashes[];
  /** By level: the tile above those that were read last. Tiles are mostly read in their order. */
  readonly #above = new Map<number, { index: number; hashes: Buffer }>();

  /** @throws TilesDiffer if the last tiles do not have the root */
  constructor(statements: TreeStatements, tree: SavedTree) {
    this.tree = tree;
    this.#statements = statements;
    const last: TileWithHashes[] = [];
    for (let level = 0; tree.size >= TILE_WIDTH ** level; level++) {
      const hashes = Math.floor(tree.size / TILE_WIDTH ** level);
      const index = Math.ceil(hashes / TILE_WIDTH) - 1;
      last.push(this.#read({ level, index, width: tileWidth(level, index, tree.size) }));
    }
    assertFits(new TiledTree(last).root() === tree.root, 'the last ones do not have the root of the tree');
    this.#last = last;
  }

  /** The hashes of a tile, `width` × 32 bytes; undefined if the tree does not have so many. @throws TilesDiffer */
  get({ level, index, width }: Tile): Buffer | undefined {
    if (width > tileWidth(level, index, this.tree.size)) return undefined;
    return this.#hashes(level, index).subarray(0, width * HASH_BYTES);
  }

  /** All hashes of a tile that the tree has. */
  #hashes(level: number, index: number): Buffer {
    const last = this.#last[level] as TileWithHashes;
    const isPartial = index === last.index && last.width < TILE_WIDTH;
    return isPartial ? last.hashes : this.#full(level, index); // the root is computed from the partial ones
  }

  #full(level: number, index: number): Buffer {
    const tile = this.#read({ level, index, width: TILE_WIDTH });
    const at = (index % TILE_WIDTH) * HASH_BYTES;
    const above = this.#hashesAbove(level + 1, Math.floor(index / TILE_WIDTH));
    const isInTree = above.toString('hex', at, at + HASH_BYTES) === rootOfTile(tile.hashes);
    assertFits(isInTree, `the tile above ${nameOf(tile)} does not have its root`);
    return tile.hashes;
  }

  #hashesAbove(level: number, index: number): Buffer {
    let above = this.#above.get(level);
    if (above?.index !== index) {
      above = { index, hashes: this.#hashes(level, index) };
      this.#above.set(level, above);
    }
    return above.hashes;
  }

  #read(tile: Tile): TileWithHashes {
    const hashes = readTile(this.#statements, tile);
    assertFits(hashes !== undefined, `${nameOf(tile)} is missing or too short`);
    return { ...tile, hashes };
  }
}

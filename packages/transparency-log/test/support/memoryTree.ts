import { HASH_BYTES, rootFromTiles, type Tile } from '../../src/merkle/tiles.ts';
import { TileWriter } from '../../src/merkle/tileWriter.ts';
import type { TreeHead } from '../../src/merkle/treeHead.ts';

/** A Merkle tree with its tiles in memory: 32 bytes per entry. */
export class MemoryTree {
  readonly #writer = new TileWriter();
  readonly #tiles = new Map<string, Buffer>();

  constructor(leaves: Iterable<string> = []) {
    for (const leaf of leaves) this.append(leaf);
  }

  get size(): number {
    return this.#writer.size;
  }

  append(leaf: string): void {
    this.#writer.append(leaf, BigInt(this.size) + 1n);
  }

  async head(size = this.size): Promise<TreeHead> {
    return { size, root: await rootFromTiles(size, this.read) };
  }

  /** The first hashes of a tile, at most `width`. */
  readonly read = ({ level, index, width }: Tile): Buffer => {
    for (const tile of this.#writer.takeChanged())
      this.#tiles.set(`${tile.level}/${tile.index}`, tile.hashes);
    return (this.#tiles.get(`${level}/${index}`) ?? Buffer.alloc(0)).subarray(0, width * HASH_BYTES);
  };
}

import { HASH_BYTES, leafHashes, rootFromTiles, type Tile } from '../../../tlog/src/merkle/tiles.ts';
import { TileWriter } from '../../../tlog/src/merkle/tileWriter.ts';
import type { TreeHead } from '../../../tlog/src/merkle/treeHead.ts';

/** A Merkle tree with its tiles in memory. Entries are 32 bytes in hexadecimal. */
export class MemoryTree {
  readonly #writer = new TileWriter();
  readonly #tiles = new Map<string, Uint8Array>();

  constructor(entries: Iterable<string> = []) {
    for (const entry of entries) this.append(entry);
  }

  get size(): number {
    return this.#writer.size;
  }

  append(entry: string): void {
    this.#writer.append(entry, BigInt(this.size) + 1n);
  }

  async head(size = this.size): Promise<TreeHead> {
    return { size, root: await rootFromTiles(size, this.read) };
  }

  /** The first hashes of a tile, at most `width`. */
  readonly read = ({ level, index, width }: Tile): Uint8Array => {
    for (const tile of this.#writer.takeChanged())
      this.#tiles.set(
        `${tile.level}/${tile.index}`,
        tile.level === 0 ? leafHashes(tile.hashes) : tile.hashes,
      );
    return (this.#tiles.get(`${level}/${index}`) ?? new Uint8Array()).subarray(0, width * HASH_BYTES);
  };
}

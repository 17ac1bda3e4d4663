import { MerkleTree } from './merkleTree.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, treeOfTile } from './tiles.ts';

/** A tile with its hashes, concatenated, `width` × 32 bytes. */
export type TileWithHashes = Tile & { hashes: Buffer };

/** The height of the subtrees whose roots are the hashes of a level, by level: 0, 8, 16, … */
const HEIGHT_PER_LEVEL = Math.log2(TILE_WIDTH);

/** An append-only Merkle tree that holds its last tile of each level, and those that were not taken yet. */
export class TiledTree {
  readonly #tree: MerkleTree;
  /** The last tile of each level. A full one stays until the next one begins. */
  readonly #last: LastTile[];
  readonly #full: TileWithHashes[] = [];

  /** By default it is empty; otherwise it has these last tiles, from level 0 upwards. */
  constructor(last: readonly TileWithHashes[] = []) {
    this.#last = last.map((tile) => new LastTile(tile));
    const [leaves] = last;
    const size = leaves ? leaves.index * TILE_WIDTH + leaves.width : 0;
    const perfect = last.map(({ hashes, width }) => (width === TILE_WIDTH ? [] : treeOfTile(hashes).perfect));
    this.#tree = new MerkleTree(size, perfect.reverse().flat());
  }

  get size(): number {
    return this.#tree.size;
  }

  /** The hashes of the last tile of level 0; none if the tree is empty. */
  get lastLeaves(): Buffer {
    return this.#last[0]?.hashes ?? Buffer.alloc(0);
  }

  append(leaf: string): void {
    this.#tree.append(leaf, this.#completed);
  }

  /** The Merkle Tree Hash of all leaves. */
  root(): string {
    return this.#tree.root();
  }

  /** The tiles that have grown since the last call: full ones first, then the partial ones. */
  takeChanged(): TileWithHashes[] {
    const partial = this.#last.filter((tile) => tile.isChanged && tile.width < TILE_WIDTH);
    return [...this.#full.splice(0), ...partial.map((tile) => tile.take())];
  }

  readonly #completed = (root: string, height: number): void => {
    if (height % HEIGHT_PER_LEVEL !== 0) return;
    const level = height / HEIGHT_PER_LEVEL;
    let tile = this.#last[level];
    if (!tile || tile.width === TILE_WIDTH) {
      tile = new LastTile({ level, index: tile ? tile.index + 1 : 0, width: 0, hashes: Buffer.alloc(0) });
      this.#last[level] = tile;
    }
    tile.add(root);
    if (tile.width === TILE_WIDTH) this.#full.push(tile.take());
  };
}

/** A tile that grows. */
class LastTile {
  readonly level: number;
  readonly index: number;
  width: number;
  isChanged = false;
  readonly #bytes = Buffer.alloc(TILE_WIDTH * HASH_BYTES);

  constructor({ level, index, width, hashes }: TileWithHashes) {
    this.level = level;
    this.index = index;
    this.width = width;
    this.#bytes.set(hashes);
  }

  get hashes(): Buffer {
    return this.#bytes.subarray(0, this.width * HASH_BYTES);
  }

  add(hash: string): void {
    this.#bytes.write(hash, this.width * HASH_BYTES, 'hex');
    this.width++;
    this.isChanged = true;
  }

  take(): TileWithHashes {
    this.isChanged = false;
    const { level, index, width } = this;
    return { level, index, width, hashes: Buffer.from(this.hashes) };
  }
}

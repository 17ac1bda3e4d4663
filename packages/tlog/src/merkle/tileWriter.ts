import { writeHex } from '../bytes.ts';
import { entryLeafHash, MerkleTree } from './merkleTree.ts';
import { HASH_BYTES, leafHashes, TILE_WIDTH, type Tile, tileTree } from './tiles.ts';

/**
 * A tile with its hashes; at level 0 with its entries, which are digests of the same length. `startsAfter`: at level 0 the
 * position before its first entry, at other levels null.
 */
export type StoredTile = Tile & { hashes: Uint8Array; startsAfter: bigint | null };

/** The subtrees whose roots are the hashes of a level are higher by this at each level: 0, 8, 16, … */
const HEIGHT_PER_LEVEL = Math.log2(TILE_WIDTH);

/** Hashes entries, in hexadecimal, into tiles. It holds the last tile of each level, and the tiles that were not taken yet. */
export class TileWriter {
  /** The position of the last entry. */
  position: bigint;
  readonly #tree: MerkleTree;
  /** The last tile of each level. A full tile stays until the next one begins. */
  readonly #last: GrowingTile[];
  readonly #full: StoredTile[] = [];
  /** The leaf hashes of the last tile of level 0. */
  #leaves = new Uint8Array(TILE_WIDTH * HASH_BYTES);
  #entry = '';

  /** Continues a tree with these last tiles, from level 0 upwards, up to a position; by default it is empty. */
  constructor(last: readonly StoredTile[] = [], position = 0n) {
    this.position = position;
    this.#last = last.map(growing);
    const [entries] = last;
    const size = entries ? entries.index * TILE_WIDTH + entries.width : 0;
    if (entries) this.#leaves.set(leafHashes(entries.hashes));
    const perfect = last.map(({ level, width, hashes }) => {
      if (width === TILE_WIDTH) return [];
      return tileTree(level === 0 ? leafHashes(hashes) : hashes).perfect;
    });
    this.#tree = new MerkleTree(size, perfect.reverse().flat());
  }

  get size(): number {
    return this.#tree.size;
  }

  root(): string {
    return this.#tree.root();
  }

  /** The last tile of a level, even if it is full. */
  lastTile(level: number): StoredTile | undefined {
    const tile = this.#last[level];
    return tile && { ...tile, hashes: usedHashes(tile) };
  }

  /** The leaf hashes of the last tile of level 0. */
  lastLeaves(): Uint8Array {
    const { width = 0 } = this.#last[0] ?? {};
    return this.#leaves.subarray(0, width * HASH_BYTES);
  }

  append(entry: string, position: bigint): void {
    this.#entry = entry;
    this.#tree.append(entryLeafHash(entry), this.#completed);
    this.position = position;
  }

  /** The tiles that have grown since the last call: first full tiles, then partial tiles. */
  takeChanged(): StoredTile[] {
    const partial = this.#last.filter((tile) => tile.isChanged && tile.width < TILE_WIDTH);
    return [...this.#full.splice(0), ...partial.map(take)];
  }

  readonly #completed = (root: string, height: number): void => {
    if (height % HEIGHT_PER_LEVEL !== 0) return;
    const level = height / HEIGHT_PER_LEVEL;
    let tile = this.#last[level];
    if (!tile || tile.width === TILE_WIDTH) {
      const startsAfter = level === 0 ? this.position : null;
      const index = tile ? tile.index + 1 : 0;
      tile = growing({ level, index, width: 0, hashes: new Uint8Array(), startsAfter });
      this.#last[level] = tile;
      if (level === 0) this.#leaves = new Uint8Array(TILE_WIDTH * HASH_BYTES); // readers keep the earlier one
    }
    const at = tile.width * HASH_BYTES;
    if (level === 0) writeHex(this.#leaves, root, at);
    writeHex(tile.bytes, level === 0 ? this.#entry : root, at);
    tile.width++;
    tile.isChanged = true;
    if (tile.width === TILE_WIDTH) this.#full.push(take(tile));
  };
}

type GrowingTile = Omit<StoredTile, 'width' | 'hashes'> & {
  width: number;
  bytes: Uint8Array;
  isChanged: boolean;
};

function growing({ hashes, ...tile }: StoredTile): GrowingTile {
  const bytes = new Uint8Array(TILE_WIDTH * HASH_BYTES);
  bytes.set(hashes);
  return { ...tile, bytes, isChanged: false };
}

const usedHashes = ({ bytes, width }: GrowingTile): Uint8Array => bytes.subarray(0, width * HASH_BYTES);

function take(tile: GrowingTile): StoredTile {
  tile.isChanged = false;
  const { level, index, width, startsAfter } = tile;
  return { level, index, width, hashes: usedHashes(tile).slice(), startsAfter };
}

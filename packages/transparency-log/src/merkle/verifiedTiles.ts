import { LRUCache } from 'lru-cache';
import {
  HASH_BYTES,
  type ReadTile,
  readWhole,
  rootFromTiles,
  rootOfTile,
  TILE_WIDTH,
  type Tile,
  TileMismatch,
  tilePath,
  tileWidth,
} from './tiles.ts';
import type { TreeHead } from './treeHead.ts';

/** Full tiles of 8 KiB that are kept: those above the ones that are being read. */
const MAX_CACHED = 64;

/**
 * The tiles of the tree that has this size and root, from an untrusted source. Each is compared with its hash in the tile above
 * before it is used. So a false tree must have been completed before its root was signed: a false size of 2^50 ends at
 * the first tile that does not exist.
 */
export class VerifiedTiles {
  readonly head: TreeHead;
  /** The partial tiles by path: the last one of each level, whose hashes make the root. */
  readonly partial: ReadonlyMap<string, Buffer>;
  readonly #source: ReadTile;
  readonly #full = new LRUCache<string, Promise<Buffer>>({ max: MAX_CACHED });

  private constructor(head: TreeHead, partial: ReadonlyMap<string, Buffer>, source: ReadTile) {
    this.head = head;
    this.partial = partial;
    this.#source = source;
  }

  /** Reads the partial tiles, at most one per level. @throws TileMismatch, and what `source` throws */
  static async open(head: TreeHead, source: ReadTile): Promise<VerifiedTiles> {
    const { size, root } = head;
    const partial = new Map<string, Buffer>();
    const found = await rootFromTiles(size, async (tile) => {
      const hashes = await source(tile);
      partial.set(tilePath(tile), hashes);
      return hashes;
    });
    if (found !== root)
      throw new TileMismatch(`the tiles of ${size} events have the root ${found}, not ${root}`, partial);
    return new VerifiedTiles(head, partial, source);
  }

  /** The first hashes of a tile that the tree has. @throws TileMismatch, and what the source throws */
  readonly read = async ({ level, index, width }: Tile): Promise<Buffer> => {
    const hashes = await this.#whole({ level, index, width: tileWidth(level, index, this.head.size) });
    return hashes.subarray(0, width * HASH_BYTES);
  };

  /** The Merkle Tree Hash of a full tile, in the tile above. @throws TileMismatch, and what the source throws */
  async rootOf({ level, index }: Omit<Tile, 'width'>): Promise<string> {
    const at = index % TILE_WIDTH;
    const above = { level: level + 1, index: Math.floor(index / TILE_WIDTH), width: at + 1 };
    return (await this.read(above)).toString('hex', at * HASH_BYTES);
  }

  #whole(tile: Tile): Buffer | Promise<Buffer> {
    const path = tilePath(tile);
    const known = this.partial.get(path) ?? this.#full.get(path);
    if (known) return known;
    const reading = this.#readFull(tile, path);
    this.#full.set(path, reading);
    return reading;
  }

  async #readFull(tile: Tile, path: string): Promise<Buffer> {
    const [hashes, expected] = await Promise.all([readWhole(tile, this.#source), this.rootOf(tile)]);
    if (rootOfTile(hashes) === expected) return hashes;
    throw new TileMismatch(
      `${path} does not have the hash ${expected}, which the tile above has`,
      new Map([[path, hashes]]),
    );
  }
}

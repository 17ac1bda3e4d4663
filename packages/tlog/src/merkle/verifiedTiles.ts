import { LRUCache } from 'lru-cache';
import {
  HASH_BYTES,
  type ReadTile,
  readWhole,
  rootFromTiles,
  TILE_WIDTH,
  type Tile,
  TileMismatch,
  tilePath,
  tileRoot,
  tileWidth,
} from './tiles.ts';
import type { TreeHead } from './treeHead.ts';

/** The number of full tiles of 8 KiB in the cache: enough for the tiles above the tiles that are being read. */
const MAX_CACHED = 64;

/**
 * The tiles of a tree with this head, from a source that may be malicious. Each tile is compared with its hash in the
 * tile above before use. So a source cannot invent tiles for a signed root: a false size of 2^50 fails at the first
 * tile.
 */
export class VerifiedTiles {
  readonly head: TreeHead;
  /** The partial tiles by path: the last tile of each level, from whose hashes the root is computed. */
  readonly partial: ReadonlyMap<string, Buffer>;
  readonly #source: ReadTile;
  readonly #full = new LRUCache<string, Promise<Buffer>>({ max: MAX_CACHED });

  private constructor(head: TreeHead, partial: ReadonlyMap<string, Buffer>, source: ReadTile) {
    this.head = head;
    this.partial = partial;
    this.#source = source;
  }

  /** Reads the partial tiles, at most one per level. @throws TileMismatch; errors of the source */
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

  /** The first hashes of a tile of the tree. @throws TileMismatch; errors of the source */
  readonly read = async ({ level, index, width }: Tile): Promise<Buffer> => {
    const hashes = await this.#whole({ level, index, width: tileWidth(level, index, this.head.size) });
    return hashes.subarray(0, width * HASH_BYTES);
  };

  /** Reads the Merkle Tree Hash of a full tile from the tile above. @throws TileMismatch; errors of the source */
  async tileRoot({ level, index }: Omit<Tile, 'width'>): Promise<string> {
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
    const [hashes, expected] = await Promise.all([readWhole(tile, this.#source), this.tileRoot(tile)]);
    if (tileRoot(hashes) === expected) return hashes;
    throw new TileMismatch(
      `${path} does not have the hash ${expected}, which is in the tile above`,
      new Map([[path, hashes]]),
    );
  }
}

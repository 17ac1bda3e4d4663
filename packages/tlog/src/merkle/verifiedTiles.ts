import { toHex } from '../bytes.ts';
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
  readonly partial: ReadonlyMap<string, Uint8Array>;
  readonly #source: ReadTile;
  /** The full tiles by path, the least recently used first. */
  readonly #full = new Map<string, Promise<Uint8Array>>();

  private constructor(head: TreeHead, partial: ReadonlyMap<string, Uint8Array>, source: ReadTile) {
    this.head = head;
    this.partial = partial;
    this.#source = source;
  }

  /** Reads the partial tiles, at most one per level. @throws TileMismatch; errors of the source */
  static async open(head: TreeHead, source: ReadTile): Promise<VerifiedTiles> {
    const { size, root } = head;
    const partial = new Map<string, Uint8Array>();
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
  readonly read = async ({ level, index, width }: Tile): Promise<Uint8Array> => {
    const hashes = await this.#whole({ level, index, width: tileWidth(level, index, this.head.size) });
    return hashes.subarray(0, width * HASH_BYTES);
  };

  /** Reads the Merkle Tree Hash of a full tile from the tile above. @throws TileMismatch; errors of the source */
  async tileRoot({ level, index }: Omit<Tile, 'width'>): Promise<string> {
    const at = index % TILE_WIDTH;
    const above = { level: level + 1, index: Math.floor(index / TILE_WIDTH), width: at + 1 };
    return toHex((await this.read(above)).subarray(at * HASH_BYTES));
  }

  #whole(tile: Tile): Uint8Array | Promise<Uint8Array> {
    const path = tilePath(tile);
    const partial = this.partial.get(path);
    if (partial) return partial;
    const reading = this.#full.get(path) ?? this.#readFull(tile, path);
    this.#full.delete(path); // so that it becomes the last
    this.#full.set(path, reading);
    if (this.#full.size > MAX_CACHED) this.#full.delete(this.#full.keys().next().value as string);
    return reading;
  }

  async #readFull(tile: Tile, path: string): Promise<Uint8Array> {
    const [hashes, expected] = await Promise.all([readWhole(tile, this.#source), this.tileRoot(tile)]);
    if (tileRoot(hashes) === expected) return hashes;
    throw new TileMismatch(
      `${path} does not have the hash ${expected}, which is in the tile above`,
      new Map([[path, hashes]]),
    );
  }
}

import { LRUCache } from 'lru-cache';
import {
  HASH_BYTES,
  type ReadTile,
  rootFromTiles,
  rootOfTile,
  TILE_WIDTH,
  type Tile,
  tilePath,
  tileWidth,
} from '../merkle/tiles.ts';
import type { TreeHead } from '../merkle/treeHead.ts';
import { Mismatch } from './alarm.ts';

/** Full tiles of 8 KiB that are kept: those above the ones that are being read. */
const MAX_CACHED = 64;

/**
 * The tiles of the tree that a checkpoint states. Each is compared with the hash of it in the tile above before
 * it is used, so a false tree must have been made whole before it was signed: a false size of 2^50
 * ends at the first tile that does not exist.
 */
export class VerifiedTiles {
  readonly size: number;
  readonly #download: ReadTile;
  /** The partial tiles by path: the last one of each level, whose hashes make the root. */
  readonly partial: ReadonlyMap<string, Buffer>;
  readonly #full = new LRUCache<string, Promise<Buffer>>({ max: MAX_CACHED });

  private constructor(size: number, partial: ReadonlyMap<string, Buffer>, download: ReadTile) {
    this.size = size;
    this.partial = partial;
    this.#download = download;
  }

  /** Reads the partial tiles, at most one per level. @throws Mismatch, and what `download` throws */
  static async open({ size, root }: TreeHead, download: ReadTile): Promise<VerifiedTiles> {
    const partial = new Map<string, Buffer>();
    const found = await rootFromTiles(size, async (tile) => {
      const hashes = await downloadWhole(tile, download);
      partial.set(tilePath(tile), hashes);
      return hashes;
    });
    if (found !== root)
      throw new Mismatch(
        `the tiles of ${size} events have the root ${found}, and the log has signed ${root}`,
        partial,
      );
    return new VerifiedTiles(size, partial, download);
  }

  /** The first hashes of a tile that the tree has. @throws Mismatch, and what `download` throws */
  readonly read = async ({ level, index, width }: Tile): Promise<Buffer> => {
    const hashes = await this.#whole({ level, index, width: tileWidth(level, index, this.size) });
    return hashes.subarray(0, width * HASH_BYTES);
  };

  #whole(tile: Tile): Buffer | Promise<Buffer> {
    const path = tilePath(tile);
    const known = this.partial.get(path) ?? this.#full.get(path);
    if (known) return known;
    const reading = this.#readFull(tile);
    this.#full.set(path, reading);
    return reading;
  }

  /** The Merkle Tree Hash of a full tile, in the tile above. @throws Mismatch, and what `download` throws */
  async rootOf({ level, index }: Omit<Tile, 'width'>): Promise<string> {
    const at = index % TILE_WIDTH;
    const above = { level: level + 1, index: Math.floor(index / TILE_WIDTH), width: at + 1 };
    return (await this.read(above)).toString('hex', at * HASH_BYTES);
  }

  async #readFull(tile: Tile): Promise<Buffer> {
    const [hashes, expected] = await Promise.all([downloadWhole(tile, this.#download), this.rootOf(tile)]);
    if (rootOfTile(hashes) === expected) return hashes;
    const received = [[tilePath(tile), hashes] as const];
    throw new Mismatch(
      `${tilePath(tile)} does not have the hash ${expected}, which the tile above has`,
      received,
    );
  }
}

async function downloadWhole(tile: Tile, download: ReadTile): Promise<Buffer> {
  const hashes = await download(tile);
  if (hashes.length === tile.width * HASH_BYTES) return hashes;
  const path = tilePath(tile);
  throw new Mismatch(`${path} has ${hashes.length} bytes, not ${tile.width * HASH_BYTES}`, [[path, hashes]]);
}

import { fromHex, toHex } from '../bytes.ts';
import { entryLeafHash, MerkleTree, nodeHash } from './merkleTree.ts';
import { consistencyPath, inclusionPath, type Leaves } from './proofs.ts';

// The tiles of https://c2sp.org/tlog-tiles. A tile of level 0 has the hashes of up to 256 consecutive leaves. On higher
// levels, each hash is the Merkle Tree Hash of a full tile of the level below.

/** Hashes per full tile. */
export const TILE_WIDTH = 256;
export const HASH_BYTES = 32;

/** The first `width` hashes, from 1 to 256, of a tile: its level and its index, from 0. */
export type Tile = { level: number; index: number; width: number };

/** A tile of hashes, or the bundle of entries for a tile of level 0. */
export type TileOrEntries = { level: number | 'entries'; index: number; width: number };

/** Reads a tile: its hashes, concatenated, `width` × 32 bytes. */
export type ReadTile = (tile: Tile) => Uint8Array | Promise<Uint8Array>;

/** Tiles or entries do not match the root of their tree. `received` has the evidence by path. */
export class TileMismatch extends Error {
  override readonly name = 'TileMismatch';
  readonly received: ReadonlyMap<string, Uint8Array>;

  constructor(message: string, received: ReadonlyMap<string, Uint8Array> = new Map()) {
    super(message);
    this.received = received;
  }
}

/** The path of a tile, such as tile/0/x001/x234/067.p/5. */
export function tilePath({ level, index, width }: TileOrEntries): string {
  const digits = `${index}`;
  const groups = digits.padStart(3 * Math.ceil(digits.length / 3), '0').match(/\d{3}/g) as string[];
  const last = groups.pop();
  const partial = width === TILE_WIDTH ? '' : `.p/${width}`;
  return `tile/${level}/${groups.map((group) => `x${group}/`).join('')}${last}${partial}`;
}

const TILE_PATH = /^tile\/(entries|\d{1,2})\/((?:x\d{3}\/){0,5})(\d{3})(?:\.p\/([1-9]\d{0,2}))?$/;
const MAX_LEVEL = 63;

/** Parses the path of a tile; undefined if it differs from what `tilePath` writes. */
export function parseTilePath(text: string): TileOrEntries | undefined {
  const [isPath, level, groups = '', last, width] = TILE_PATH.exec(text) ?? [];
  if (!isPath) return undefined;
  const tile: TileOrEntries = {
    level: level === 'entries' ? level : Number(level),
    index: Number(groups.replace(/[x/]/g, '') + last),
    width: Number(width ?? TILE_WIDTH),
  };
  const isTile = (tile.level === 'entries' || tile.level <= MAX_LEVEL) && tile.width <= TILE_WIDTH;
  return isTile && Number.isSafeInteger(tile.index) && tilePath(tile) === text ? tile : undefined;
}

/** The width of a tile in the tree of `size` leaves; 0 if the tree does not have the tile. */
export function tileWidth(level: number, index: number, size: number): number {
  const hashes = Math.floor(size / TILE_WIDTH ** level);
  return Math.max(0, Math.min(hashes - index * TILE_WIDTH, TILE_WIDTH));
}

/** The Merkle Tree Hash over the hashes of a tile; for a full tile, it is a hash of the level above. */
export function tileRoot(hashes: Uint8Array): string {
  return tileTree(hashes).root();
}

export function tileTree(hashes: Uint8Array): MerkleTree {
  const tree = new MerkleTree();
  for (const hash of tileHashes(hashes)) tree.append(hash);
  return tree;
}

export function tileHashes(hashes: Uint8Array): string[] {
  const text = toHex(hashes);
  const length = 2 * HASH_BYTES;
  return Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
    text.slice(i * length, (i + 1) * length),
  );
}

/** The leaf hashes of entries of 32 bytes each, concatenated. */
export const leafHashes = (entries: Uint8Array): Uint8Array =>
  fromHex(tileHashes(entries).map(entryLeafHash).join(''));

export async function rootFromTiles(size: number, read: ReadTile): Promise<string> {
  if (size === 0) return new MerkleTree().root();
  const [root] = await nodesFromTiles([{ start: 0, end: size }], size, read);
  return root as string;
}

/** The inclusion proof of the leaf at `index`, from 0, in the tree of `size` leaves. */
export function inclusionProofFromTiles(index: number, size: number, read: ReadTile): Promise<string[]> {
  return nodesFromTiles(inclusionPath(index, size), size, read);
}

/** The consistency proof between the trees of `from` and `to` leaves. */
export function consistencyProofFromTiles(from: number, to: number, read: ReadTile): Promise<string[]> {
  return nodesFromTiles(consistencyPath(from, to), to, read);
}

/** The Merkle Tree Hashes of ranges of leaves. Reads each tile once, at its full width in the tree. */
async function nodesFromTiles(ranges: readonly Leaves[], size: number, read: ReadTile): Promise<string[]> {
  const reading = new Map<string, Promise<Uint8Array>>();
  const subtreeRoot = async (subtree: Leaves): Promise<string> => {
    const { tile, first, count } = locate(subtree, size);
    const path = tilePath(tile);
    const whole = reading.get(path) ?? readWhole(tile, read);
    reading.set(path, whole);
    return tileRoot((await whole).subarray(first * HASH_BYTES, (first + count) * HASH_BYTES));
  };
  const nodes = ranges.map((range) => Promise.all(perfectSubtrees(range).map(subtreeRoot)));
  return (await Promise.all(nodes)).map((roots) => roots.reduceRight((right, left) => nodeHash(left, right)));
}

/** Reads a tile. @throws TileMismatch if its width is wrong; errors of `read` */
export async function readWhole(tile: Tile, read: ReadTile): Promise<Uint8Array> {
  const hashes = await read(tile);
  if (hashes.length === tile.width * HASH_BYTES) return hashes;
  const path = tilePath(tile);
  const message = `${path} has ${hashes.length} bytes, not ${tile.width * HASH_BYTES}`;
  throw new TileMismatch(message, new Map([[path, hashes]]));
}

/** The perfect subtrees from which a node of a proof is hashed, from left to right, largest first. */
function perfectSubtrees({ start, end }: Leaves): Leaves[] {
  const subtrees: Leaves[] = [];
  for (let from = start; from < end; ) {
    let leaves = 1;
    while (from + leaves * 2 <= end) leaves *= 2;
    subtrees.push({ start: from, end: from + leaves });
    from += leaves;
  }
  return subtrees;
}

/** Locates the hashes of a perfect subtree: a range in a tile of the highest level that has them. */
function locate({ start, end }: Leaves, size: number): { tile: Tile; first: number; count: number } {
  let level = 0;
  let first = start;
  let count = end - start;
  for (; count >= TILE_WIDTH; level++) {
    first /= TILE_WIDTH;
    count /= TILE_WIDTH;
  }
  const index = Math.floor(first / TILE_WIDTH);
  const tile = { level, index, width: tileWidth(level, index, size) };
  return { tile, first: first - index * TILE_WIDTH, count };
}

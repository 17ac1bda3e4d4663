import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryTree } from '../../../transparency-log/test/support/memoryTree.ts';
import { entryLeafHash, leafHash, MerkleTree } from '../../src/merkle/merkleTree.ts';
import { consistencyPath, inclusionPath, type Leaves } from '../../src/merkle/proofs.ts';
import {
  consistencyProofFromTiles,
  inclusionProofFromTiles,
  parseTilePath,
  type ReadTile,
  rootFromTiles,
  tilePath,
  tileWidth,
} from '../../src/merkle/tiles.ts';

const LARGEST = 256 ** 2 + 2 * 256 + 3;
const ENTRIES = Array.from({ length: LARGEST }, (_, i) => leafHash(`${i}`));
const LEAVES = ENTRIES.map(entryLeafHash);
const TREE = new MemoryTree(ENTRIES);

/** Sizes around powers of 256 and their multiples, and any others. */
const someSize = fc.oneof(
  fc.constantFrom(1, 2, 255, 256, 257, 511, 512, 513, 65_280, 65_535, 65_536, 65_537, 65_792, LARGEST),
  fc.integer({ min: 1, max: LARGEST }),
);
const twoSizes = fc.tuple(someSize, someSize).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);

describe('the path of a tile', () => {
  test.each([
    ['tile/0/000', 0, 0, 256],
    ['tile/0/x001/x234/067', 0, 1_234_067, 256],
    ['tile/0/x001/x234/067.p/5', 0, 1_234_067, 5],
    ['tile/63/999.p/255', 63, 999, 255],
    ['tile/entries/x001/000.p/1', 'entries', 1_000, 1],
    ['tile/1/x009/x007/x199/x254/x740/991', 1, Number.MAX_SAFE_INTEGER, 256],
  ] as const)('%s is that of C2SP', (path, level, index, width) => {
    const tile = { level, index, width };
    expect(tilePath(tile)).toBe(path);
    expect(parseTilePath(path)).toEqual(tile);
  });

  const MALFORMED = `
    tile tile/0 tile/0/ /tile/0/000 tile/0/000/ TILE/0/000 tile/00/000 tile/64/000 tile/-1/000 tile/1.5/000 tile/data/000
    tile/0/0 tile/0/0000 tile/0/x000/000 tile/0/001/000 tile/0/x001 tile/0/x001/x000 tile/0/x1/000 tile/0/００0
    tile/0/../000 tile/0/x009/x007/x199/x254/x740/992 tile/0/x001/x000/x000/x000/x000/x000/000 tile/0/000.p
    tile/0/000.p/ tile/0/000.p/0 tile/0/000.p/256 tile/entries/000.p/999 tile/0/000.p/01 tile/0/000.p/1.p/1
    tile/0/000.P/1 tile/0/x001.p/5/000`;
  test.each(['', 'tile/0/000\n', 'tile/0/000 ', ...MALFORMED.trim().split(/\s+/)])('is not %j', (path) => {
    expect(parseTilePath(path)).toBeUndefined();
  });

  test('can be parsed for every tile', () => {
    const level = fc.oneof(fc.constant('entries' as const), fc.nat(63));
    fc.assert(
      fc.property(level, fc.maxSafeNat(), fc.integer({ min: 1, max: 256 }), (level, index, width) => {
        const tile = { level, index, width };
        expect(parseTilePath(tilePath(tile))).toEqual(tile);
      }),
    );
  });
});

test('a tree of 70 000 leaves has the tiles that C2SP names', () => {
  const widths = [0, 1, 2].map((level) =>
    Array.from({ length: 300 }, (_, index) => tileWidth(level, index, 70_000)).filter((width) => width > 0),
  );
  expect(widths).toEqual([[...Array(273).fill(256), 112], [256, 17], [1]]);
  expect([0, 1, 2].map((level) => tileWidth(level, 0, 256))).toEqual([256, 1, 0]);
});

test('the root from tiles equals that of all leaves, for sizes around powers of 256', async () => {
  const tree = new MerkleTree();
  expect(await rootFromTiles(0, tilesOf(0))).toBe(tree.root());
  for (const leaf of LEAVES) {
    tree.append(leaf);
    const isNear = [0, 1, 255].includes(tree.size % 256) && (tree.size < 1_000 || tree.size > 65_000);
    if (isNear) expect(await rootFromTiles(tree.size, tilesOf(tree.size))).toBe(tree.root());
  }
  expect(tree.size).toBe(LARGEST);
});

describe('a proof from tiles', () => {
  test('equals the one from all leaves', async () => {
    await fc.assert(
      fc.asyncProperty(twoSizes, async ([from, to]) => {
        const inclusion = await inclusionProofFromTiles(from - 1, to, tilesOf(to));
        expect(inclusion).toEqual(inclusionPath(from - 1, to).map(rootOf));
        const consistency = await consistencyProofFromTiles(from, to, tilesOf(to));
        expect(consistency).toEqual(consistencyPath(from, to).map(rootOf));
      }),
      { numRuns: 5 },
    );
  });

  test('reads each tile once, as wide as the tree has it, and at most two per level', async () => {
    await fc.assert(
      fc.asyncProperty(twoSizes, async ([from, to]) => {
        for (const prove of [
          (read: ReadTile) => consistencyProofFromTiles(from, to, read),
          (read: ReadTile) => inclusionProofFromTiles(from - 1, to, read),
        ]) {
          const read: string[] = [];
          await prove((tile) => {
            read.push(tilePath(tile));
            return tilesOf(to)(tile);
          });
          expect(new Set(read).size).toBe(read.length);
          for (const level of [0, 1, 2])
            expect(read.filter((path) => path.startsWith(`tile/${level}/`)).length).toBeLessThanOrEqual(2);
        }
      }),
      { numRuns: 20 },
    );
  });

  test.each([0, 31, 32, 3 * 32])('fails if a tile of two hashes has %i bytes', async (bytes) => {
    await expect(rootFromTiles(2, () => Buffer.alloc(bytes))).rejects.toThrow(
      `tile/0/000.p/2 has ${bytes} bytes, not 64`,
    );
  });
});

/** Reads the tiles of the tree of `size` leaves; fails for a tile that the tree does not have. */
function tilesOf(size: number): ReadTile {
  return (tile) => {
    const { level, index, width } = tile;
    if (width !== tileWidth(level, index, size) || width === 0)
      throw new Error(`there is no ${tilePath(tile)}`);
    return TREE.read(tile);
  };
}

function rootOf({ start, end }: Leaves): string {
  const tree = new MerkleTree();
  for (const leaf of LEAVES.slice(start, end)) tree.append(leaf);
  return tree.root();
}

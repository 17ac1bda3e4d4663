import fc from 'fast-check';
import { expect, test } from 'vitest';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import {
  HASH_BYTES,
  leafHashes,
  TILE_WIDTH,
  type Tile,
  TileMismatch,
  tilePath,
  tileRoot,
} from '../../src/merkle/tiles.ts';
import { TileWriter } from '../../src/merkle/tileWriter.ts';
import { VerifiedTiles } from '../../src/merkle/verifiedTiles.ts';

/** A tree of three levels. The last tile of each is partial. */
const SIZE = TILE_WIDTH ** 2 + 3 * TILE_WIDTH + 5;

test('a tile is returned as it was hashed, or not at all, whatever is altered', async () => {
  const tree = new TileWriter();
  for (let i = 1; i <= SIZE; i++) tree.append(leafHash(`${i}`), BigInt(i));
  const tiles = tree.takeChanged().map((tile) => ({
    ...tile,
    hashes: tile.level === 0 ? leafHashes(tile.hashes) : tile.hashes,
  }));
  const stored = new Map(tiles.map((tile) => [tilePath(tile), tile.hashes]));
  const source = async (tile: Tile) => stored.get(tilePath(tile)) as Buffer;
  const open = () => VerifiedTiles.open({ size: SIZE, root: tree.root() }, source);

  const all = await open();
  for (const { level, index, width, hashes } of tiles) {
    expect(await all.read({ level, index, width })).toEqual(hashes);
    expect(await all.read({ level, index, width: 1 })).toEqual(hashes.subarray(0, HASH_BYTES));
  }

  const above = ({ level, index, width }: Tile) =>
    width < TILE_WIDTH
      ? undefined
      : tiles.find((tile) => tile.level === level + 1 && tile.index === Math.floor(index / TILE_WIDTH));
  const some = tiles.filter(({ level, index }) => level > 0 || index % 64 < 2);
  const change = fc.record({ at: fc.nat(), mask: fc.integer({ min: 1, max: 255 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...some),
      change,
      fc.boolean(),
      async (tile, { at, mask }, isConsistent) => {
        let altered = Buffer.from(tile.hashes);
        altered[at % altered.length] = (altered[at % altered.length] as number) ^ mask;
        stored.set(tilePath(tile), altered);
        let below = tile;
        for (let next = above(tile); isConsistent && next; next = above(next)) {
          const root = tileRoot(altered);
          altered = Buffer.from(next.hashes);
          altered.write(root, (below.index % TILE_WIDTH) * HASH_BYTES, 'hex');
          stored.set(tilePath(next), altered);
          below = next;
        }
        await expect(open().then((opened) => opened.read(tile))).rejects.toThrow(TileMismatch);
        for (const { hashes, ...each } of tiles) stored.set(tilePath(each), hashes);
        expect(await (await open()).read(tile)).toEqual(tile.hashes);
      },
    ),
  );
});
